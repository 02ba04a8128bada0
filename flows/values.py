"""What stages hand to each other: frozen values of the model and tables, kept in the store by digest, never pickled.

A reference is plain JSON: {"sha256", "suffix", "bytes", "rows"}. A value that this process made or read before is taken
from memory, so that a run in one process decodes nothing twice.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable
from functools import cache
from io import BytesIO
from threading import Lock
from typing import Any, TypedDict, TypeVar, cast

import numpy as np
import polars as pl
from pydantic import TypeAdapter

from flows.arrivals import Arrivals
from flows.store import Store
from schemas.tables import validate

T = TypeVar("T")


class Ref(TypedDict):
    """Where a value is: its digest, and the suffix of its file. rows: of a table, none elsewhere."""

    sha256: str
    suffix: str
    bytes: int
    rows: int | None


class _Recent:
    """The values used last, by digest; several threads use it."""

    def __init__(self, most: int) -> None:
        self._most, self._values, self._lock = most, OrderedDict[str, object](), Lock()

    def get(self, digest: str) -> Any:
        with self._lock:
            if digest not in self._values:
                return None
            self._values.move_to_end(digest)
            return self._values[digest]

    def put(self, digest: str, value: object) -> None:
        with self._lock:
            self._values[digest] = value
            self._values.move_to_end(digest)
            while len(self._values) > self._most:
                self._values.popitem(last=False)


_recent = _Recent(512)
_recent_frames = _Recent(8)


def put_value(store: Store, value: object, kind: Any) -> Ref:
    """Keep a frozen value of type `kind` (dataclasses, tuples, mappings, numbers, texts, integer arrays)."""
    plain = _adapter(kind).dump_python(value, fallback=_plain, warnings="error")
    content = json.dumps(plain, separators=(",", ":"), default=_plain).encode()
    digest = store.put(content, "json")
    _recent.put(digest, value)
    return {"sha256": digest, "suffix": "json", "bytes": len(content), "rows": None}


def get_value(store: Store, ref: Ref, kind: type[T]) -> T:
    """The value of a reference."""
    known = _recent.get(ref["sha256"])
    if known is None:
        known = _adapter(cast(Hashable, kind)).validate_json(store.get(ref["sha256"], ref["suffix"]))
        _recent.put(ref["sha256"], known)
    return known  # type: ignore[no-any-return]


def put_frame(store: Store, name: str, frame: pl.DataFrame) -> Ref:
    """Keep a table, once its schema holds."""
    valid = validate(name, frame)
    buffer = BytesIO()
    valid.write_parquet(buffer, compression="zstd", statistics=True)
    content = buffer.getvalue()
    digest = store.put(content, "parquet")
    _recent_frames.put(digest, valid)
    return {"sha256": digest, "suffix": "parquet", "bytes": len(content), "rows": valid.height}


def get_frame(store: Store, ref: Ref) -> pl.DataFrame:
    """The table of a reference."""
    known = _recent_frames.get(ref["sha256"])
    if known is None:
        known = pl.read_parquet(BytesIO(store.get(ref["sha256"], ref["suffix"])))
        _recent_frames.put(ref["sha256"], known)
    return known  # type: ignore[no-any-return]


def put_arrivals(store: Store, arrivals: Arrivals) -> Ref:
    """Keep the requests of one replication."""
    columns = {
        "arrival_ps": arrivals.arrival_ps, "size": arrivals.size, "workload": arrivals.workload,
        "stream": np.array(arrivals.streams)[arrivals.stream],
        **({} if arrivals.iterations is None else {"iterations": arrivals.iterations}),
    }  # fmt: skip
    buffer = BytesIO()
    pl.DataFrame(columns).write_parquet(buffer, compression="zstd")
    content = buffer.getvalue()
    digest = store.put(content, "parquet")
    return {"sha256": digest, "suffix": "parquet", "bytes": len(content), "rows": len(arrivals.arrival_ps)}


def get_arrivals(store: Store, ref: Ref) -> Arrivals:
    """The requests of one replication."""
    frame = pl.read_parquet(BytesIO(store.get(ref["sha256"], ref["suffix"])))
    streams, index = np.unique(frame["stream"].to_numpy().astype(str), return_inverse=True)
    return Arrivals(
        frame["arrival_ps"].to_numpy(writable=True), frame["size"].to_numpy(writable=True), index.astype(np.int32),
        tuple(map(str, streams)), frame["workload"].to_numpy(writable=True),
        frame["iterations"].to_numpy(writable=True) if "iterations" in frame.columns else None,
    )  # fmt: skip


def put_text(store: Store, text: str, suffix: str) -> Ref:
    """Keep a text file."""
    content = text.encode()
    return {"sha256": store.put(content, suffix), "suffix": suffix, "bytes": len(content), "rows": None}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _plain(value: object) -> object:
    """Arrays as lists, read-only mappings as mappings."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "items"):
        return dict(value.items())
    raise TypeError(f"a value of type {type(value).__name__} has no place in the store")

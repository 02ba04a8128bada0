"""Element types in numbers: how a value is stored, and in what type NumPy works with it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from accelmodel.graph import ELEMENT_BYTES
from accelmodel.plan import Lowered

Array = npt.NDArray[Any]

FLOATS = ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32", "float64")
_NARROW: Mapping[str, npt.DTypeLike] = {
    "bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
    "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4,
}  # fmt: skip


_FLOAT32 = np.dtype(np.float32)

# Largest finite value of the types that saturate.
LARGEST: Mapping[str, float] = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


@cache
def numpy_type(name: str) -> np.dtype[Any]:
    """NumPy's type of an element type, from ml_dtypes where NumPy has none."""
    return np.dtype(_NARROW.get(name, name))


def store(values: Array, name: str) -> Array:
    """The values as stored in this type: floats rounded to nearest even; 8-bit floats saturate, as casts in ONNX do."""
    wanted = numpy_type(name)
    if values.dtype is wanted or values.dtype == wanted:
        return values
    if name in LARGEST:
        largest = LARGEST[name]
        values = np.clip(np.asarray(values, dtype=np.float32), -largest, largest)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities are results, which the comparison looks at
        return np.asarray(values).astype(wanted)


def load(values: Array, working: str) -> Array:
    """Stored values as NumPy works with them in an op of the precision `working`.

    Floats become float32 (float64 where the op works in it), which holds every narrower float exactly; those stored
    wider than the op works are rounded to its precision first. 4-bit integers become int8; the rest stays.
    """
    if values.dtype is _FLOAT32 and working == "float32":
        return values
    name = values.dtype.name
    if name in ("int4", "uint4"):
        return values.astype(np.int8)
    if name not in FLOATS:
        return values
    if working in FLOATS and ELEMENT_BYTES[working] < ELEMENT_BYTES[name]:
        values = store(values, working)
    return values.astype(np.float64 if working == "float64" else np.float32, copy=False)


def rounded(values: Array, name: str) -> Array:
    """Floats rounded to this type, kept in the type they are in. float32 and wider are left as they are."""
    if name in ("float32", "float64") or name not in FLOATS:
        return values
    return store(values, name).astype(values.dtype)


def storage_types(lowered: Lowered) -> dict[str, str]:
    """Element type that each tensor is stored in.

    The lowering gives its size in bytes; of the types of that size it is the one that the op which makes it works in,
    or else the one of an op that reads it, or else the model's own.
    """
    worked: dict[str, list[str]] = {name: [] for name in lowered.graph.tensors}
    for op in lowered.ops:
        for access in op.writes:
            worked[access.tensor].insert(0, op.precision)
        for access in op.reads:
            worked[access.tensor].append(op.precision)
    return {name: _stored(lowered, name, candidates) for name, candidates in worked.items()}


def _stored(lowered: Lowered, name: str, candidates: list[str]) -> str:
    own = lowered.graph.tensors[name].dtype
    if own not in FLOATS:
        return own
    wanted = lowered.element_bytes[name]
    fitting = [each for each in (*candidates, own, *FLOATS) if each in FLOATS and ELEMENT_BYTES[each] == wanted]
    return fitting[0]

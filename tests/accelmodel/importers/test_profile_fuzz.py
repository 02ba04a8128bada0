"""Damaged profiles of every kind: read, or refused with an InputError, in bounded time and memory.

TILEGATE_FUZZ_EXAMPLES sets how many mutated inputs each kind gets, e.g. 3000 for a long run by hand.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelmodel.errors import InputError
from accelmodel.importers.profile import read_profile
from accelmodel.profile_metrics import profile_metrics
from accelmodel.profile_pair import compare_profiles
from tests.accelmodel.importers.traces import FIVE_KERNELS, copy, long_csv, raw_csv, write_nsys, write_trace

EXAMPLES = int(os.environ.get("TILEGATE_FUZZ_EXAMPLES", "80"))
LONGEST_S, MOST_MIB = 10.0, 1024
TOKENS = (
    b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"1e999", b"-1", b"9" * 40, b"1e-400", b"NaN", b"\0",
    b"\xff", b"\n", b'""', b"[[[[[[[[", b'"ph"', b'"X"', b'"dur": -5', b'"ts": 1e18', b"true", b"0x7", b"n/a",
    b"1.234,5", b"==PROF==",
)  # fmt: skip
SMALL_TRACES = ("triton_example_triton_example", "trace_file_list_inference_rank_1")

edits = st.tuples(
    st.sampled_from(["cut", "drop", "repeat", "insert", "overwrite", "swap"]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 200),
    st.sampled_from(TOKENS) | st.binary(min_size=1, max_size=8),
)


def mutated(data: bytes, changes: list[tuple[str, float, float, int, bytes]]) -> bytes:
    """The data after each change: what, where, where else, how long, and what to put there."""
    for what, first, second, length, token in changes:
        at, other = int(first * len(data)), int(second * len(data))
        part = data[at : at + length]
        if what == "cut":
            data = data[:at]
        elif what == "drop":
            data = data[:at] + data[at + length :]
        elif what == "repeat":
            data = data[:at] + part * 3 + data[at:]
        elif what == "insert":
            data = data[:at] + token + data[at:]
        elif what == "overwrite":
            data = data[:at] + token + data[at + len(token) :]
        else:
            data = data[:other] + part + data[other + length :]
    return data


def read_or_refuse(path: Path) -> None:
    """Anything but a profile that can be measured or an InputError is a failure, and so is a long or a large one."""
    start, peak = time.perf_counter(), _peak_mib()
    try:
        profile = read_profile(path)
    except InputError as error:
        assert error.remedy
    else:
        assert profile.kernels or profile.findings
        metrics = profile_metrics(profile)
        assert (metrics is None) == (profile.kernels == 0)
        compare_profiles(profile, profile)
    assert time.perf_counter() - start < LONGEST_S
    assert _peak_mib() - peak < MOST_MIB


def _peak_mib() -> float:
    """The most that this process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def nsys_seed(folder: Path) -> bytes:
    return write_nsys(folder / "seed-nsys").read_bytes()


def kineto_seed(folder: Path) -> bytes:
    return write_trace(folder / "seed", [*FIVE_KERNELS, copy(200, 1, 9, 64)], deviceProperties=[{"id": 0}]).read_bytes()


def packed_seed(folder: Path) -> bytes:
    return gzip.compress(kineto_seed(folder))


def long_seed(_: Path) -> bytes:
    return long_csv((0, "k", "Duration", "us", "5.5"), (1, "k", "dram__bytes.sum", "Kbyte", "1,234.5")).encode()


def raw_seed(_: Path) -> bytes:
    return raw_csv([("gpu__time_duration.sum", "ns"), ("dram__bytes.sum", "byte")], ("k", ["5", "1,234"])).encode()


def runtime_seed(_: Path) -> bytes:
    node: dict[str, Any] = {"cat": "Node", "pid": 1, "tid": 2, "ts": 3, "dur": 4, "ph": "X", "name": "a_kernel_time"}
    return json.dumps([{**node, "args": {"op_name": "Add"}}, {**node, "cat": "Session", "name": "model_run"}]).encode()


@pytest.mark.parametrize("seed", [kineto_seed, packed_seed, nsys_seed, long_seed, raw_seed, runtime_seed])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 100)
@given(changes=st.lists(edits, min_size=1, max_size=5))
def test_a_damaged_profile_is_read_or_refused(
    seed: Callable[[Path], bytes],
    changes: list[tuple[str, float, float, int, bytes]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "profile"
    path.write_bytes(mutated(_seed(seed, folder), changes))
    read_or_refuse(path)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


odd_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from([2**63, -(2**63), 2**62, 1e18, "7", "0x0", "", "cudaLaunchKernel", "kernel", "X", "model_run"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
EVENT_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
ARG_KEYS = ("device", "stream", "correlation", "grid", "block", "registers per thread", "shared memory", "bytes",
            "op_name", "provider")  # fmt: skip


@pytest.mark.parametrize("seed", [kineto_seed, runtime_seed])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 100)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from(EVENT_KEYS + ARG_KEYS), odd_values), min_size=1, max_size=4
    )
)
def test_an_event_may_say_anything(
    seed: Callable[[Path], bytes], changes: list[tuple[int, str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "odd"
    document = json.loads(_seed(seed, tmp_path_factory.getbasetemp()))
    events = document["traceEvents"] if isinstance(document, dict) else document
    for place, key, value in changes:
        event = events[place % len(events)]
        args = event.setdefault("args", {})
        (args if key in ARG_KEYS and isinstance(args, dict) else event)[key] = value
    path.write_text(json.dumps(document))
    read_or_refuse(path)


TABLES = ("StringIds", "TARGET_INFO_GPU", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS",
          "CUPTI_ACTIVITY_KIND_KERNEL", "META_DATA_EXPORT")  # fmt: skip
cells = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=8) | st.binary(max_size=8)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 100)
@given(changes=st.lists(st.tuples(st.sampled_from(TABLES), st.integers(0, 20), cells), min_size=1, max_size=4))
def test_a_cell_of_a_database_may_hold_anything(
    changes: list[tuple[str, int, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "cells"
    path.write_bytes(_seed(nsys_seed, tmp_path_factory.getbasetemp()))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA synchronous = OFF")
        for table, place, value in changes:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            with suppress(sqlite3.Error):  # a column may refuse it
                database.execute(f'UPDATE {table} SET "{columns[place % len(columns)]}" = ?', [value])
        database.commit()
    read_or_refuse(path)


_seeds: dict[str, bytes] = {}


def _seed(make: Callable[[Path], bytes], folder: Path) -> bytes:
    """Made once."""
    if make.__name__ not in _seeds:
        _seeds[make.__name__] = make(folder)
    return _seeds[make.__name__]


@pytest.mark.parametrize("name", SMALL_TRACES)
@pytest.mark.parametrize("packed", [True, False])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 100)
@given(changes=st.lists(edits, min_size=1, max_size=5))
def test_a_damaged_real_trace_is_read_or_refused(
    name: str,
    packed: bool,
    changes: list[tuple[str, float, float, int, bytes]],
    reference_data: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = (reference_data / "profiles" / f"kineto_{name}.json.gz").read_bytes()
    path = tmp_path_factory.getbasetemp() / f"damaged-{name}-{packed}"
    path.write_bytes(mutated(data, changes) if packed else mutated(gzip.decompress(data), changes))
    read_or_refuse(path)

"""Small profiles made by hand: Kineto events, Nsight Systems databases, Nsight Compute CSV."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def kernel(name: str, ts: float, dur: float, correlation: object, **args: object) -> Event:
    described = {"device": 0, "stream": 7, "correlation": correlation, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": described}


def launch(ts: float, dur: float, correlation: object, name: str = "cudaLaunchKernel", **more: object) -> Event:
    args = {"correlation": correlation}
    own = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 100, "tid": 1, "ts": ts, "dur": dur, "args": args}
    return {**own, **more}


def step(number: int, ts: float, dur: float, pid: object = 100) -> Event:
    name = f"ProfilerStep#{number}"
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": pid, "tid": 1, "ts": ts, "dur": dur}


def copy(ts: float, dur: float, correlation: int, size: int, name: str = "Memcpy HtoD (Pinned -> Device)") -> Event:
    args = {"device": 0, "stream": 7, "correlation": correlation, "bytes": size}
    return {"ph": "X", "cat": "gpu_memcpy", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}


def write_trace(path: Path, events: Sequence[object], **beside: object) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events), **beside}))
    return path


# Two iterations of 50 µs with two kernels each, all on one stream.
FIVE_KERNELS = (
    step(3, 100.0, 50.0),
    launch(102.0, 4.0, 1),
    kernel("gemm", 110.0, 10.0, 1, grid=[8, 2, 1], block=[128, 1, 1], **{"registers per thread": 64}),
    launch(107.0, 4.0, 2),
    kernel("relu", 121.0, 2.0, 2),
    step(4, 150.0, 50.0),
    launch(152.0, 4.0, 3),
    kernel("gemm", 160.0, 10.0, 3),
    launch(157.0, 4.0, 4),
    kernel("relu", 171.0, 2.0, 4),
    kernel("stray", 90.0, 1.0, 99),
)

NSYS_TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, totalMemory INT, smCount INT, clockRate INT, memoryBandwidth INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, eventClass INT, globalTid INT, correlationId INT,
  nameId INT, returnValue INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, contextId INT, streamId INT,
  correlationId INT, globalPid INT, bytes INT, copyKind INT);
CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT);
"""
KERNEL_TABLE = """
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, streamId INT,
  correlationId INT, globalPid INT, demangledName INT, shortName INT, gridX INT, gridY INT, gridZ INT, blockX INT,
  blockY INT, blockZ INT, registersPerThread INT, staticSharedMemory INT, dynamicSharedMemory INT,
  localMemoryPerThread INT, graphNodeId INT);
"""
STRINGS = ("gemm<float>", "gemm", "relu<float>", "relu", "cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000",
           "cudaMemcpyAsync_v3020", "cudaDeviceSynchronize_v3020", "iteration 5", "forward")  # fmt: skip
HOST = 1 << 48


def process(pid: int, thread: int = 0) -> int:
    return HOST | pid << 24 | thread


def write_nsys(path: Path, *, kernels: bool = True, journal: str = "delete") -> Path:
    """Two processes that both use correlation 1; the second replays a graph of two kernels. Strings count from 1."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode = {journal}")
        database.executescript(NSYS_TABLES)
        fill = database.executemany
        fill("INSERT INTO StringIds VALUES (?, ?)", enumerate(STRINGS, 1))
        fill("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", [("EXPORT_PRODUCT_VERSION", "2025.1.1")])
        fill("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", [("NVIDIA driver version", "570.86")])
        fill("INSERT INTO TARGET_INFO_GPU VALUES (?, ?, ?, ?, ?, ?)",
             [(0, "NVIDIA A100", 40 * 2**30, 108, 1_410_000_000, 1_555_000_000_000)])  # fmt: skip
        fill("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0)", [
            (1_000, 1_500, process(7, 1), 1, 5), (2_000, 2_400, process(8, 1), 1, 6),
            (3_000, 3_100, process(7, 1), 2, 7), (4_000, 9_000, process(7, 1), 3, 8),
        ])  # fmt: skip
        fill("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 1, 7, ?, ?, ?, ?)",
             [(3_200, 3_300, 2, process(7), 4_096, 1)])  # fmt: skip
        fill("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?)", [
            (900, 1_900, None, 9, process(7, 1)), (950, 1_800, "forward", None, process(7, 1)),
            (1_900, 2_900, "iteration 6", None, process(8, 1)), (3_000, None, "iteration 7", None, process(7, 1)),
        ])  # fmt: skip
        if kernels:
            database.executescript(KERNEL_TABLE)
            fill("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,7,?,?,?,?,8,2,1,128,1,1,40,1024,512,?,?)", [
                (1_600, 1_800, 1, process(7), 1, 2, 0, None), (2_500, 2_600, 1, process(8), 3, 4, 16, 11),
                (2_610, 2_700, 1, process(8), 1, 2, 0, 12), (5_000, 5_100, 77, process(8), 1, 2, 0, None),
            ])  # fmt: skip
        database.commit()
    return path


NCU_COLUMNS = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC"'
)
NCU_KERNEL = '"{id}","4242","app","127.0.0.1","{name}","1","7","(256, 1, 1)","(16385, 1, 1)","0","8.0"'
REMARKS = '==PROF== Connected to process 4242 (/app)\n==PROF== Profiling "gemm" - 0: 0%....50%....100% - 8 passes\n'


def long_csv(*metrics: tuple[int, str, str, str, str]) -> str:
    """`--page details`: (id, kernel, metric, unit, value) each."""
    lines = [f'{NCU_COLUMNS},"Section Name","Metric Name","Metric Unit","Metric Value"']
    for number, name, metric, unit, value in metrics:
        lines.append(f'{NCU_KERNEL.format(id=number, name=name)},"Speed Of Light","{metric}","{unit}","{value}"')
    return REMARKS + "\n".join(lines) + "\n==PROF== Disconnected from process 4242\n"


def raw_csv(metrics: Sequence[tuple[str, str]], *rows: tuple[str, Sequence[str]]) -> str:
    """`--page raw`: (metric, unit) a column; (kernel, values) a row."""
    header = NCU_COLUMNS + "".join(f',"{metric}"' for metric, _ in metrics)
    units = ",".join(['""'] * 11) + "".join(f',"{unit}"' for _, unit in metrics)
    kernels = [
        NCU_KERNEL.format(id=number, name=name) + "".join(f',"{value}"' for value in values)
        for number, (name, values) in enumerate(rows)
    ]
    return REMARKS + "\n".join([header, units, *kernels]) + "\n"

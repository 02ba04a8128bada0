"""Small worlds for replay and timeline: a target with one figure that matters, programs from a few numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from accelmodel.program import Program
from accelmodel.replay import Bucket, Requests
from accelmodel.settings import ExecutionSettings, IngressSettings, SchedulingSettings, Settings
from accelmodel.target import Engine, Memory, Target

US = 1_000_000  # ps


def target(slots: int = 1, dram_bytes_per_ns: float = 1000.0) -> Target:
    """`slots` cores that share a DRAM of 1000 bytes/ns = 1 byte/ps."""
    engines = {name: Engine(name, {"float32": 1.0}, (1, 1, 1), 1.0) for name in ("matrix", "vector", "data")}
    return Target(
        name="toy", kind="npu", cores=slots, engines=engines,
        sram=Memory("sram", "core", 1 << 20, 1000.0, 1, 0.0), l2=None,
        dram=Memory("dram", "device", 1 << 30, dram_bytes_per_ns, 1, 0.0),
        accumulator_bytes=1 << 16, core_dram_bytes_per_ns=1000.0, host_launch_ns=1.0, graph_launch_ns=0.1,
        barrier_ns=0.0, fallback_launch_ns=1.0, host_flops_per_ns=1.0, host_bytes_per_ns=1.0, sources={},
    )  # fmt: skip


def program(
    kernels: Sequence[dict[str, int]], *, batch: int = 1, cores: int = 1, workload: str = "w", fallback: bool = False
) -> Program:
    """Kernels by their times in ps and bytes; what is not said is 0."""

    def column(name: str) -> np.ndarray:
        return np.array([kernel.get(name, 0) for kernel in kernels], dtype=np.int64)

    return Program(
        workload, batch, cores, tuple(f"g{i}" for i in range(len(kernels))),
        column("launch"), column("compute"), column("memory"), column("throttle"), column("host"), column("barrier"),
        column("bytes"), fallback,
    )  # fmt: skip


def requests(arrival_ps: Sequence[int] | np.ndarray, bucket: Sequence[int] | np.ndarray | None = None) -> Requests:
    arrival = np.asarray(arrival_ps, dtype=np.int64)
    chosen = np.zeros(len(arrival), np.int32) if bucket is None else np.asarray(bucket, dtype=np.int32)
    return Requests(arrival, chosen, np.zeros(len(arrival), np.int32))


def bucket(*programs: Program, fallback: bool = False) -> Bucket:
    return Bucket(programs[0].workload, 1, programs, fallback)


def settings(
    *, batch: int = 1, wait_us: float = 0.0, policy: str = "least_loaded", noise: float = 0.0, admit: int = 0,
    **scheduling: Any,
) -> Settings:  # fmt: skip
    """scheduling: further settings of that stage."""
    return Settings(
        ingress=IngressSettings(admit_limit=admit),
        execution=ExecutionSettings(noise_cv=noise),
        scheduling=SchedulingSettings(max_batch=batch, max_wait_us=wait_us, core_policy=policy, **scheduling),
    )

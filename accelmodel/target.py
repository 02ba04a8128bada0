"""Vocabulary of the accelerator: cores, engines, memory levels, launch and barrier costs.

Plain values; `targets/*.yaml` hold the figures with their public sources. flops = 2 x multiply-accumulates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from accelmodel.errors import InputError

ENGINES = ("matrix", "vector", "data", "host")


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind of arithmetic unit, per core.

    flops_per_ns: peak rate of ONE core by precision (a multiply-accumulate counts 2).
    native_tile: the (m, n, k) block the engine works on at once; sizes are padded up to it. Vector
    engines use (1, lanes, 1).
    efficiency: sustained share of the peak on a full tile, 0 < e <= 1.
    """

    name: str
    flops_per_ns: Mapping[str, float]
    native_tile: tuple[int, int, int]
    efficiency: float


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory level. `scope` is `core` (each core has its own) or `device` (shared by all cores).

    bandwidth_bytes_per_ns: of one core for scope `core`; of the whole device for scope `device`.
    half_transfer_bytes: the contiguous transfer size that reaches half of the peak: eff(s) = peak * s / (s + half).
    """

    name: str
    scope: str
    capacity_bytes: int
    bandwidth_bytes_per_ns: float
    alignment_bytes: int
    half_transfer_bytes: float


@dataclass(frozen=True, slots=True)
class Target:
    """An accelerator.

    sram: per-core software-managed memory (shared memory, scratchpad). l2: shared cache, or None. dram: device memory.
    accumulator_bytes: per-core register or accumulator space for output tiles.
    core_dram_bytes_per_ns: the most one core can draw from DRAM by itself.
    host_launch_ns / graph_launch_ns: host time of one launch when issued one by one / from a captured graph.
    barrier_ns: fixed cost of one device-wide barrier (every kernel ends in one).
    fallback_launch_ns, host_flops_per_ns, host_bytes_per_ns: what an op of the kind `fallback` pays on the host,
    for the round trip, its arithmetic and its bytes.
    sources: figure name -> public source or `fitted on ...`.
    """

    name: str
    kind: str
    cores: int
    engines: Mapping[str, Engine]
    sram: Memory
    l2: Memory | None
    dram: Memory
    accumulator_bytes: int
    core_dram_bytes_per_ns: float
    host_launch_ns: float
    graph_launch_ns: float
    barrier_ns: float
    fallback_launch_ns: float
    host_flops_per_ns: float
    host_bytes_per_ns: float
    sources: Mapping[str, str]

    def __post_init__(self) -> None:
        _check(self.cores >= 1, self.name, "cores", "at least 1", self.cores)
        for name in ENGINES[:3]:
            _check(name in self.engines, self.name, f"engines.{name}", "an engine of that name", "none")
        for engine in self.engines.values():
            _check(engine.name in ENGINES, self.name, f"engines.{engine.name}", f"one of {ENGINES}", engine.name)
            for precision, rate in engine.flops_per_ns.items():
                _positive(self.name, f"engines.{engine.name}.flops_per_ns.{precision}", rate)
            _check(
                0 < engine.efficiency <= 1,
                self.name,
                f"engines.{engine.name}.efficiency",
                "0 < e <= 1",
                engine.efficiency,
            )
            _check(
                min(engine.native_tile) >= 1,
                self.name,
                f"engines.{engine.name}.native_tile",
                ">= 1",
                engine.native_tile,
            )
        for memory in (self.sram, self.dram, *((self.l2,) if self.l2 else ())):
            _positive(self.name, f"{memory.name}.capacity_bytes", memory.capacity_bytes)
            _positive(self.name, f"{memory.name}.bandwidth_bytes_per_ns", memory.bandwidth_bytes_per_ns)
            _positive(self.name, f"{memory.name}.alignment_bytes", memory.alignment_bytes)
            _check(
                memory.half_transfer_bytes >= 0,
                self.name,
                f"{memory.name}.half_transfer_bytes",
                ">= 0",
                memory.half_transfer_bytes,
            )
        for field in ("accumulator_bytes", "core_dram_bytes_per_ns", "host_flops_per_ns", "host_bytes_per_ns"):
            _positive(self.name, field, getattr(self, field))
        for field in ("host_launch_ns", "graph_launch_ns", "barrier_ns", "fallback_launch_ns"):
            value = getattr(self, field)
            _check(isfinite(value) and value >= 0, self.name, field, "a finite time >= 0", value)

    def launch_ns(self, mode: str) -> float:
        """Host time of one launch in launch mode `host` or `graph`, ns."""
        return {"host": self.host_launch_ns, "graph": self.graph_launch_ns}[mode]


def _positive(target: str, field: str, value: float) -> None:
    _check(isfinite(value) and value > 0, target, field, "a finite number above zero", value)


def _check(holds: bool, target: str, field: str, expected: str, found: object) -> None:
    if not holds:
        raise InputError(
            stage="ingress", where=f"target {target!r}, field {field}", expected=expected, found=repr(found),
            remedy="Correct the field in the target file.",
        )  # fmt: skip

"""A plan as the runtime sees it: the kernels of one batch in order, in integer picoseconds and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from accelmodel.errors import InputError
from accelmodel.plan import Kernel, KernelCost, Plan
from accelmodel.settings import ExecutionSettings
from accelmodel.target import Target

PS_PER_NS = 1000
PS_PER_S = 10**12
MAX_PS = 10**16  # almost three hours; a run of many such requests still fits into 64 bits
Ps = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Kernels of one (workload, bucket, batch size), one array entry each, in execution order.

    launch_ps: host time to issue all launches of the kernel. compute_ps, memory_ps, throttle_ps: parts of its busy
    time when alone on the machine: engine time at the nominal clock, time beyond it, and what the throttled clock
    adds. fallback_ps: busy time of an op on the host; such a kernel has no other busy part, starts only when the
    kernel before it has ended, and the host issues nothing while it runs. barrier_ps: fixed cost of its barriers.
    dram_bytes: bytes across the DRAM boundary. groups: name of each kernel's group. cores: cores of one slot.
    batch: requests it serves at once. fallback: the whole program stands in for a shape that no bucket covers, so
    all its time counts as fallback.
    """

    workload: str
    batch: int
    cores: int
    groups: tuple[str, ...]
    launch_ps: Ps
    compute_ps: Ps
    memory_ps: Ps
    throttle_ps: Ps
    fallback_ps: Ps
    barrier_ps: Ps
    dram_bytes: Ps
    fallback: bool = False

    def __post_init__(self) -> None:
        for name in (*TIMES, "dram_bytes"):
            column = getattr(self, name)
            self._require(column.shape == (len(self.groups),), name, f"{len(self.groups)} entries", str(column.shape))
            self._require(not column.size or int(column.min()) >= 0, name, "no negative value", "one")
        self._require(self.batch >= 1 and self.cores >= 1, "batch, cores", ">= 1", f"{self.batch}, {self.cores}")
        idle_movers = (self.dram_bytes > 0) & (self.busy_ps == 0)
        self._require(not idle_movers.any(), "dram_bytes", "busy time where bytes move", "bytes in no time")

    def _require(self, holds: bool, field: str, expected: str, found: str) -> None:
        if not holds:
            raise InputError(
                stage="execution", where=f"program of {self.workload!r}, {field}", expected=expected, found=found,
                remedy="Build the program from a checked plan, with one entry a kernel.",
            )  # fmt: skip

    @property
    def busy_ps(self) -> Ps:
        """Busy time of each kernel when alone on the machine. [kernels]"""
        return self.compute_ps + self.memory_ps + self.throttle_ps + self.fallback_ps

    @property
    def on_host(self) -> npt.NDArray[np.bool_]:
        """Kernels that are ops of the kind `fallback`. [kernels]"""
        return self.fallback_ps > 0


TIMES = ("launch_ps", "compute_ps", "memory_ps", "throttle_ps", "fallback_ps", "barrier_ps")


def program(plan: Plan, execution: ExecutionSettings, batch: int = 1) -> Program:
    """The program of a plan that can run. `batch` is the number of requests its shapes hold.

    Kernels that take no time and move nothing (views) are left out. Launch and barrier times are the plan's own; of
    `execution` only the clock is read, to tell throttling from engine time.
    """
    if plan.infeasible:
        raise _cannot_run(plan)
    rows = {kernel.group.name: _row(kernel, execution.clock_fraction) for kernel in plan.kernels}
    kept = {name: row for name, row in rows.items() if any(row)}
    _check_total(plan.workload, kept)
    table = np.array(list(kept.values()), dtype=np.int64).reshape(len(kept), len(TIMES) + 1)
    return Program(plan.workload, batch, plan.cores, tuple(kept), *np.ascontiguousarray(table.T))


def _cannot_run(plan: Plan) -> InputError:
    first = plan.infeasible[0]
    memory, remedy = {
        "dram": ("DRAM", "Bind smaller shapes, or choose a target with more DRAM."),
        "sram": (
            "on-chip memory",
            "Split the group (fusion.split_before) or choose a target with more on-chip memory.",
        ),
    }[first.memory]
    return InputError(
        stage="execution", where=f"plan of {plan.workload!r}, group {first.group!r}", expected="a plan that can run",
        found=f"a group that lacks {first.shortfall_bytes} bytes of {memory}", remedy=remedy,
    )  # fmt: skip


def _check_total(workload: str, rows: Mapping[str, tuple[int, ...]]) -> None:
    """All times of a program together stay exact integers, with room for a long replay."""
    total_ps = sum(sum(row[:-1]) for row in rows.values())
    moved = sum(row[-1] for row in rows.values())
    if total_ps > MAX_PS or moved > MAX_PS:
        raise _too_large(f"program of {workload!r}", f"about {total_ps / PS_PER_S:.3g} s and {moved:.3g} bytes")


def _too_large(where: str, found: str) -> InputError:
    return InputError(
        stage="execution",
        where=where,
        expected=f"at most {MAX_PS // PS_PER_S} s a batch, which the replay can hold",
        found=found,
        remedy="Correct the target's figures and execution.clock_fraction, or bind smaller shapes.",
    )


def within_dram(base: Program, target: Target) -> Program:
    """The program with no kernel faster than its bytes at DRAM's peak, however the plan rounded: what is missing is
    memory time."""
    short_ps = np.maximum(0, dram_ps(base, target) - base.busy_ps)
    host_ps = np.where(base.on_host, short_ps, 0)
    return replace(base, memory_ps=base.memory_ps + short_ps - host_ps, fallback_ps=base.fallback_ps + host_ps)


def dram_ps(base: Program, target: Target) -> Ps:
    """Time that each kernel's bytes take at DRAM's peak bandwidth. [kernels]"""
    times = np.ceil(base.dram_bytes / target.dram.bandwidth_bytes_per_ns * PS_PER_NS)
    if times.size and not float(times.max()) <= MAX_PS:
        raise _too_large(f"DRAM of target {target.name!r}", f"{float(times.max()) / PS_PER_S:.3g} s for one kernel")
    return times.astype(np.int64)


def as_fallback(base: Program) -> Program:
    """The same kernels as the plan of last resort: every instant in it counts as fallback."""
    return replace(base, fallback=True)


def _row(kernel: Kernel, clock_fraction: float) -> tuple[int, ...]:
    """Times of one kernel in the order of TIMES, then its DRAM bytes."""
    cost = kernel.cost
    launch_ps, barrier_ps = _ps(cost.launch_ns), _ps(cost.barrier_ns)
    busy_ps = max(_ps(cost.busy_ns), 1 if cost.dram_bytes else 0)  # bytes need an instant to move in
    if cost.fallback_ns > 0:
        return (launch_ps, 0, 0, 0, busy_ps, barrier_ps, cost.dram_bytes)
    nominal_ps = min(busy_ps, _ps(_nominal_busy_ns(cost, clock_fraction)))
    compute_ps = min(nominal_ps, _ps(cost.compute_ns * clock_fraction))
    return (launch_ps, compute_ps, nominal_ps - compute_ps, busy_ps - nominal_ps, 0, barrier_ps, cost.dram_bytes)


def _nominal_busy_ns(cost: KernelCost, clock_fraction: float) -> float:
    """Busy time at the nominal clock: engines are slower in the plan by the clock fraction, transfers are not.

    The cost model lets engine, DRAM and L2 overlap: busy = slowest + (sum - slowest) x the share that does not overlap
    (cost_terms.overlapped_ns). A throttled engine that hides behind the transfers costs nothing.
    """
    engine_ns = max(cost.compute_ns, cost.sram_ns)
    slowest, total = max(engine_ns, cost.dram_ns, cost.l2_ns), engine_ns + cost.dram_ns + cost.l2_ns
    serial = (cost.busy_ns - slowest) / (total - slowest) if total > slowest else 0.0
    nominal_ns = max(cost.compute_ns * clock_fraction, cost.sram_ns)
    fastest, sum_ns = max(nominal_ns, cost.dram_ns, cost.l2_ns), nominal_ns + cost.dram_ns + cost.l2_ns
    return fastest + (sum_ns - fastest) * serial


def _ps(time_ns: float) -> int:
    time_ps = time_ns * PS_PER_NS
    if not time_ps <= MAX_PS:
        raise _too_large("one kernel", f"{time_ps / PS_PER_S:.3g} s")
    return round(time_ps)

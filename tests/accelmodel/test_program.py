"""A program holds a plan's times and bytes to the picosecond, split into the parts that drivers name."""

from dataclasses import replace

import pytest

from accelmodel.errors import InputError
from accelmodel.graph import Graph
from accelmodel.plan import Bound, Group, Grouping, Infeasible, Kernel, KernelCost, Lowered, Plan
from accelmodel.program import as_fallback, program, within_dram
from accelmodel.settings import ExecutionSettings
from accelmodel.timeline import exposed_launch_ns
from tests.accelmodel.worlds import target

LOWERED = Lowered(Graph("g", (), {}, (), (), 17, {}), (), {}, {})
NOTHING = KernelCost(
    flops=0, padded_flops=0, dram_read_bytes=0, dram_write_bytes=0, spill_bytes=0, halo_bytes=0, l2_bytes=0,
    requested_bytes=0, compute_ns=0.0, dram_ns=0.0, l2_ns=0.0, fallback_ns=0.0, launches=0, launch_ns=0.0, barriers=0,
    barrier_ns=0.0, busy_ns=0.0, total_ns=0.0, bottleneck="compute",
)  # fmt: skip
GEMM = replace(
    NOTHING, dram_read_bytes=600, dram_write_bytes=400, compute_ns=8.0, dram_ns=4.0, busy_ns=9.0, launches=1,
    launch_ns=2.0, barriers=1, barrier_ns=0.5,
)  # fmt: skip
ON_HOST = replace(GEMM, compute_ns=0.0, fallback_ns=30.0, busy_ns=30.0)


def plan(*costs: KernelCost) -> Plan:
    groups = tuple(Group(f"g{i}", ()) for i in range(len(costs)))
    kernels = tuple(Kernel(g, None, None, cost, Bound(0, 0.0)) for g, cost in zip(groups, costs, strict=True))
    return Plan("w", "toy", LOWERED, Grouping("none", groups, True), kernels, (), 1)


def test_times_become_whole_picoseconds_and_views_are_left_out() -> None:
    made = program(plan(GEMM, NOTHING, ON_HOST), ExecutionSettings(), batch=4)
    assert made.groups == ("g0", "g2") and made.batch == 4 and made.cores == 1
    assert made.launch_ps.tolist() == [2000, 2000]
    assert made.compute_ps.tolist() == [8000, 0]
    assert made.memory_ps.tolist() == [1000, 0]
    assert made.fallback_ps.tolist() == [0, 30000]
    assert made.barrier_ps.tolist() == [500, 500]
    assert made.dram_bytes.tolist() == [1000, 1000]
    assert made.on_host.tolist() == [False, True]
    assert not as_fallback(made).on_host[0] and as_fallback(made).fallback


def test_throttle_is_what_the_slower_clock_adds_and_nothing_where_transfers_hide_it() -> None:
    half = ExecutionSettings(clock_fraction=0.5)
    # Engine 16 beside DRAM 4, a quarter of the rest not overlapped: 17 in all; at the nominal clock 8 + 4 / 4 = 9.
    exposed = replace(GEMM, compute_ns=16.0, busy_ns=17.0)
    made = program(plan(exposed), half)
    assert (made.compute_ps[0], made.memory_ps[0], made.throttle_ps[0]) == (8000, 1000, 8000)
    hidden = replace(GEMM, compute_ns=4.0, dram_ns=10.0, busy_ns=10.0)
    made = program(plan(hidden), half)
    assert (made.compute_ps[0], made.memory_ps[0], made.throttle_ps[0]) == (2000, 8000, 0)


def test_no_kernel_outruns_dram() -> None:
    made = within_dram(program(plan(GEMM), ExecutionSettings()), target(dram_bytes_per_ns=100.0))
    assert made.busy_ps[0] == 10_000 and made.memory_ps[0] == 2000


def test_exposed_launches_of_a_plan_are_told_kernel_by_kernel() -> None:
    # Kernels run from 2 to 11 and from 11.5 to 20.5; the second launch (2 to 4) is hidden. The host turns to its op at
    # 21, starts it in 2 and runs it to 53; then it issues the last launch to 55, the barrier ends at 53.5.
    plan_of_three = plan(GEMM, GEMM, ON_HOST, GEMM)
    assert exposed_launch_ns(plan_of_three, ExecutionSettings()) == (2.0, 0.0, 2.0, 1.5)


def test_a_plan_that_cannot_run_has_no_program() -> None:
    stuck = replace(plan(GEMM), infeasible=(Infeasible("g7", 200, 100, 100, "too large"),))
    with pytest.raises(InputError, match=r"g7.*lacks 100 bytes"):
        program(stuck, ExecutionSettings())


def test_the_memory_that_lacks_is_named_with_its_own_remedy() -> None:
    lacks = replace(plan(GEMM), infeasible=(Infeasible("g7", 300, 100, 200, "operands exceed DRAM", "dram"),))
    with pytest.raises(InputError, match=r"lacks 200 bytes of DRAM\. .*more DRAM"):
        program(lacks, ExecutionSettings())


@pytest.mark.parametrize("busy_ns", [1e14, 1e300, float("inf"), float("nan")])
def test_times_that_the_replay_cannot_hold_are_refused(busy_ns: float) -> None:
    with pytest.raises(InputError, match="which the replay can hold"):
        program(plan(replace(GEMM, busy_ns=busy_ns)), ExecutionSettings())


def test_many_kernels_together_must_fit_too_and_so_must_their_bytes_at_the_peak_of_dram() -> None:
    long = replace(GEMM, busy_ns=9e12, compute_ns=9e12, dram_ns=0.0)
    assert program(plan(long), ExecutionSettings()).busy_ps[0] == 9 * 10**15
    with pytest.raises(InputError, match=r"1\.8e\+04 s"):
        program(plan(long, long), ExecutionSettings())
    with pytest.raises(InputError, match="DRAM of target"):
        within_dram(program(plan(GEMM), ExecutionSettings()), target(dram_bytes_per_ns=1e-300))

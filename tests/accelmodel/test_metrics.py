"""Primary metrics against hand arithmetic, from plans of two element-wise ops and of small products."""

from dataclasses import replace

import pytest

from accelmodel.compile import assemble_plan, fuse_stage, place_stage, tile_stage
from accelmodel.metrics import dram_demand_ratio, overall, primary_metrics, requested_by, working_set_ratio
from accelmodel.plan import Lowered, Plan
from accelmodel.settings import ExecutionSettings, FusionSettings, Settings
from accelmodel.target import Target
from tests.accelmodel import tiny

MACHINE = tiny.machine(launch_ns=100.0)
TWO_OPS = tiny.chain(2, 16, 16)  # x -> a -> b, 256 int8 elements each


def planned(lowered: Lowered, policy: str, target: Target = MACHINE, launch_mode: str = "host") -> Plan:
    settings = Settings(fusion=FusionSettings(policy=policy), execution=ExecutionSettings(launch_mode=launch_mode))
    grouping = fuse_stage(lowered, target, settings)
    tiles = tile_stage(lowered, grouping, target, settings)
    placements = place_stage(grouping, tiles, target, settings)
    return assemble_plan(lowered, grouping, tiles, placements, target, settings, "w")


def test_one_element_wise_op_reuses_nothing() -> None:
    plan = planned(tiny.chain(1, 16, 16), "none")
    metrics = primary_metrics(plan, plan, MACHINE, 0.0)
    assert metrics.requested_bytes == 2 * 256
    assert metrics.on_chip_reuse_ratio == 0.0


def test_two_element_wise_ops_fused_reuse_half() -> None:
    metrics = primary_metrics(planned(TWO_OPS, "aggressive"), planned(TWO_OPS, "none"), MACHINE, 0.0)
    assert metrics.requested_bytes == 4 * 256
    assert metrics.dram_bytes == 2 * 256
    assert metrics.on_chip_reuse_ratio == 0.5


def test_two_launches_made_one_halve_the_launch_time() -> None:
    metrics = primary_metrics(planned(TWO_OPS, "aggressive"), planned(TWO_OPS, "none"), MACHINE, 0.0)
    assert (metrics.launches, metrics.launch_ns, metrics.reference_launch_ns) == (1, 100.0, 200.0)
    assert metrics.launch_overhead_reduction == 0.5


def test_a_cheaper_launch_mode_counts_against_the_reference_of_the_comparator() -> None:
    captured = planned(TWO_OPS, "none", launch_mode="graph")  # 10 ns a launch instead of 100
    metrics = primary_metrics(captured, planned(TWO_OPS, "none"), MACHINE, 0.0)
    assert metrics.launch_overhead_reduction == pytest.approx(0.9)


def test_requested_bytes_take_the_sides_element_sizes_and_the_comparators_ops() -> None:
    narrow = replace(TWO_OPS, element_bytes=dict.fromkeys(TWO_OPS.element_bytes, 0.5))
    assert requested_by(TWO_OPS, narrow, MACHINE) == 4 * 128
    assert requested_by(narrow, TWO_OPS, MACHINE) == 4 * 256


def test_ratios_are_missing_where_there_is_nothing_to_refer_to() -> None:
    free = replace(MACHINE, host_launch_ns=0.0)
    plan = planned(TWO_OPS, "none", free)
    assert primary_metrics(plan, plan, free, 0.0).launch_overhead_reduction is None


def test_overall_ratios_are_ratios_of_weighted_sums() -> None:
    reference = planned(TWO_OPS, "none")
    fused = primary_metrics(planned(TWO_OPS, "aggressive"), reference, MACHINE, 0.0)
    unfused = primary_metrics(reference, reference, MACHINE, 0.0)
    launches, reuse = overall((fused, unfused), (3.0, 1.0))
    assert launches == pytest.approx(1 - (3 * 100 + 200) / (3 * 200 + 200))
    assert reuse == pytest.approx(1 - (3 * 512 + 1024) / (4 * 1024))


def test_working_set_and_dram_demand_are_shares_of_what_the_machine_has() -> None:
    target = tiny.machine(cores=4, sram_bytes=2048, dram_bytes_per_ns=2.0)
    plan = planned(TWO_OPS, "none", target)
    peak_bytes = max(kernel.tile_plan.peak_bytes for kernel in plan.kernels if kernel.tile_plan)
    assert working_set_ratio(plan, target) == peak_bytes / 2048
    busy_ns = sum(kernel.cost.busy_ns for kernel in plan.kernels)
    assert dram_demand_ratio(plan, target) == pytest.approx(1024 / busy_ns / 2.0)
    one_core = replace(plan, cores=1)  # four such plans fit side by side
    assert dram_demand_ratio(one_core, target) == pytest.approx(4 * 1024 / busy_ns / 2.0)


def test_the_share_of_fallback_ops_leaves_views_out() -> None:
    ops = (
        tiny.op("a", "elementwise", {"m": 8}, {"x": "m"}, {"y": "m"}),
        tiny.op("v", "view", {"m": 8}, {"y": "m"}, {"z": "m"}),
        tiny.op("f", "fallback", {"m": 8}, {"z": "m"}, {"o": "m"}),
    )
    plan = planned(tiny.world(ops, {"x": (8,), "y": (8,), "z": (8,), "o": (8,)}), "none")
    assert primary_metrics(plan, plan, MACHINE, 0.0).fallback_op_share == 0.5

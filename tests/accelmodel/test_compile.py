"""The stages put together: the same plan in one call or stage by stage, sound, explained, and cheap to make again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from accelmodel import compile as compiler
from accelmodel.check import check_plan, check_timeline
from accelmodel.compile import (
    BrokenPlanError,
    assemble_plan,
    compile_plan,
    fuse_stage,
    group_cost,
    lower_stage,
    place_stage,
    reference_plan,
    tile_stage,
    unfused_costs,
)
from accelmodel.fuse import POLICIES
from accelmodel.generate import write_model
from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_graph
from accelmodel.memo import Memo
from accelmodel.plan import Infeasible, Lowered, Plan
from accelmodel.settings import (
    ExecutionSettings,
    FusionSettings,
    LoweringSettings,
    PlacementSettings,
    Settings,
    TilingSettings,
    hybrid,
)
from accelmodel.sweep import SWEEP_EXACT_OPS, SWEEP_POLICIES, fusion_sweep
from accelmodel.timeline import timeline
from tests.accelmodel import tiny
from tests.accelmodel.importers.models import save
from tests.accelmodel.targets import bundled

NPU = bundled("edge-npu")


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path: Path = tmp_path_factory.mktemp("models") / "transformer.onnx"
    write_model("transformer_block", path, hidden=64, heads=2, feed_forward=128)
    return read_graph(path, {"batch": 1, "sequence": 32})


@pytest.fixture(scope="module")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path: Path = tmp_path_factory.mktemp("models") / "convolution.onnx"
    write_model("convolution_block", path, channels=32, size=14, blocks=1)
    return read_graph(path, {"batch": 1})


def with_policy(policy: str, **rest: object) -> Settings:
    return Settings(fusion=FusionSettings(policy=policy, **rest))  # type: ignore[arg-type]


def total_ns(plan: Plan) -> float:
    return sum(kernel.cost.total_ns for kernel in plan.kernels)


@pytest.mark.parametrize("policy", POLICIES)
def test_plans_of_real_blocks_are_sound(policy: str, transformer: Graph, convolution: Graph) -> None:
    for graph in (transformer, convolution):
        plan = compile_plan(graph, NPU, with_policy(policy), "w")
        assert check_plan(plan) == ()
        assert plan.infeasible == ()
        assert [op.name for op in plan.lowered.ops] == [op.name for op in graph.ops]


def test_stage_by_stage_gives_the_same_plan_as_one_call(transformer: Graph) -> None:
    settings = with_policy("optimal")
    lowered = lower_stage(transformer, NPU, settings)
    grouping = fuse_stage(lowered, NPU, settings)
    tiles = tile_stage(lowered, grouping, NPU, settings)
    placements = place_stage(grouping, tiles, NPU, settings)
    plan = assemble_plan(lowered, grouping, tiles, placements, NPU, settings, "w")
    assert plan == compile_plan(transformer, NPU, settings, "w")


def test_a_memo_changes_no_plan(transformer: Graph, convolution: Graph) -> None:
    memo, one_core = Memo(), TilingSettings(cores=1)
    for graph, settings in (
        (transformer, with_policy("pattern")),
        (convolution, with_policy("optimal")),
        (convolution, replace(with_policy("optimal"), tiling=one_core)),
        (transformer, with_policy("pattern")),
    ):
        assert compile_plan(graph, NPU, settings, "w", memo) == compile_plan(graph, NPU, settings, "w")


def test_optimal_is_never_worse_than_another_policy(transformer: Graph, convolution: Graph) -> None:
    for graph in (transformer, convolution):
        totals = {policy: total_ns(compile_plan(graph, NPU, with_policy(policy), "w")) for policy in POLICIES}
        assert totals["optimal"] <= min(totals.values()) * (1 + 1e-9)
        assert totals["optimal"] < totals["none"]


def test_a_hybrid_that_changes_no_cost_searches_no_tile_again(
    transformer: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    memo, comparator = Memo(), with_policy("optimal")
    compile_plan(transformer, NPU, comparator, "w", memo)
    candidate = replace(comparator, placement=PlacementSettings(order="size"))
    monkeypatch.setattr(compiler, "tile_group", forbidden)
    compile_plan(transformer, NPU, hybrid(comparator, candidate, frozenset({"placement"})), "w", memo)


def forbidden(*_: object) -> None:
    raise AssertionError("the tile search was asked again")


def test_floors_spare_tile_searches_and_change_no_plan(transformer: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    search = compiler.tile_group

    def counting(lowered: Lowered, group: compiler.Group, *rest: object) -> object:
        asked.append(group.ops)
        return search(lowered, group, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(compiler, "tile_group", counting)
    plan = compile_plan(transformer, NPU, with_policy("optimal"), "w")
    with_floors = len(asked)
    asked.clear()
    monkeypatch.setattr(compiler, "FLOORS", (no_floor,))
    assert total_ns(compile_plan(transformer, NPU, with_policy("optimal"), "w")) == pytest.approx(total_ns(plan))
    assert with_floors < 0.8 * len(asked)


def no_floor(*_: object) -> float:
    return 0.0


def test_groups_that_cannot_run_are_listed_whatever_the_policy() -> None:
    lowered = tiny.gemm_bias_relu(64, 64, 64)
    cramped = tiny.machine(sram_bytes=256)  # less than one 16 x 16 block of each operand
    for policy in POLICIES:
        settings = with_policy(policy)
        grouping = fuse_stage(lowered, cramped, settings)
        tiles = tile_stage(lowered, grouping, cramped, settings)
        placements = place_stage(grouping, tiles, cramped, settings)
        plan = assemble_plan(lowered, grouping, tiles, placements, cramped, settings, "w")
        assert [item.group for item in plan.infeasible] == ["g0_gemm"]
        assert plan.infeasible[0].shortfall_bytes > 0
        assert len(plan.kernels) == len(grouping.groups) - 1


def test_views_and_fallback_ops_have_no_tile_plan(transformer: Graph) -> None:
    settings = Settings(lowering=LoweringSettings(no_kernel=("Softmax",)))
    plan = compile_plan(transformer, NPU, settings, "w")
    fallback = [kernel for kernel in plan.kernels if kernel.cost.fallback_ns > 0]
    assert [plan.lowered.ops[kernel.group.ops[0]].op_type for kernel in fallback] == ["Softmax"]
    assert all(kernel.tile_plan is None and kernel.placement is None for kernel in fallback)


def test_the_timeline_of_two_plans_side_by_side_passes_the_independent_checker(transformer: Graph) -> None:
    settings = Settings(lowering=LoweringSettings(no_kernel=("Softmax",)), tiling=TilingSettings(cores=1))
    plan = compile_plan(transformer, NPU, settings, "w")
    found = timeline((plan, plan), NPU, settings.execution)
    assert check_timeline(found.events, found.span_ps, (plan, plan), NPU) == ()


def test_launch_mode_and_cores_reach_the_plan(transformer: Graph) -> None:
    host = compile_plan(transformer, NPU, Settings(), "w")
    graph_mode = replace(Settings(), execution=ExecutionSettings(launch_mode="graph"), tiling=TilingSettings(cores=1))
    captured = compile_plan(transformer, NPU, graph_mode, "w")
    assert captured.launch_ns == pytest.approx(len(captured.kernels) * NPU.graph_launch_ns)
    assert host.launch_ns > captured.launch_ns
    assert (host.cores, captured.cores) == (NPU.cores, 1)


def test_the_reference_leaves_every_op_alone_and_keeps_the_rest_of_the_comparator(transformer: Graph) -> None:
    comparator = replace(
        with_policy("aggressive", split_before=(transformer.ops[3].name,)), execution=ExecutionSettings("graph")
    )
    plan = reference_plan(transformer, NPU, comparator, "w")
    assert len(plan.grouping.groups) == len(transformer.ops)
    launching = [op for op in plan.lowered.ops if op.kind != "view"]
    assert plan.launch_ns == pytest.approx(len(launching) * NPU.graph_launch_ns)


def test_unfused_costs_are_those_of_the_ops_as_one_kernel_each() -> None:
    lowered = tiny.gemm_bias_relu(64, 64, 64)
    machine, settings = tiny.machine(), Settings()
    cost = group_cost(lowered, machine, settings)
    costs = unfused_costs(lowered, tiny.everything(lowered), machine, settings)
    assert [item.total_ns for item in costs] == [cost((op,)) for op in range(3)]


def test_what_placement_spills_is_charged_once(transformer: Graph) -> None:
    roomy = compile_plan(transformer, NPU, with_policy("aggressive"), "w")
    reserve = NPU.sram.capacity_bytes - 1024
    settings = replace(with_policy("aggressive"), placement=PlacementSettings(reserve_bytes=reserve))
    cramped = compile_plan(transformer, NPU, settings, "w")
    extra = sum(k.placement.placement_spill_bytes for k in cramped.kernels if k.placement)
    assert extra > 0
    assert cramped.dram_bytes == roomy.dram_bytes + extra


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        ("fuse", lambda grouping: replace(grouping, groups=grouping.groups[1:])),
        ("place", lambda placement: replace(placement, height_bytes=-1)),
        ("kernel_cost", lambda cost: replace(cost, dram_read_bytes=0, dram_write_bytes=0)),
    ],
)
def test_a_stage_that_breaks_its_promise_is_an_internal_error(
    stage: str, change: Callable[[object], object], convolution: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(compiler, stage)
    monkeypatch.setattr(compiler, stage, lambda *given: change(original(*given)))
    with pytest.raises(BrokenPlanError, match="internal error"):
        compile_plan(convolution, NPU, Settings(), "w")


def test_the_sweep_goes_from_no_fusion_to_all_of_it(transformer: Graph) -> None:
    rows = fusion_sweep(transformer, NPU, Settings(), "w")
    assert tuple(row.policy for row in rows) == SWEEP_POLICIES == ("none", "pattern", "optimal", "aggressive")
    assert rows[0].launches > rows[1].launches >= rows[3].launches
    assert rows[2].total_ns <= min(row.total_ns for row in rows) * (1 + 1e-9)
    for row in rows:
        own = with_policy(row.policy)
        exact_ops = SWEEP_EXACT_OPS if row.policy == "optimal" else own.fusion.exact_ops
        plan = compile_plan(transformer, NPU, replace(own, fusion=replace(own.fusion, exact_ops=exact_ops)), "w")
        assert (row.dram_bytes, row.launch_ns, row.total_ns) == (plan.dram_bytes, plan.launch_ns, total_ns(plan))
        assert row.working_set_ratio == row.peak_bytes / NPU.sram.capacity_bytes


def test_the_sweep_plans_the_sides_own_policy_as_the_side_does(transformer: Graph) -> None:
    own = with_policy("optimal")
    row = fusion_sweep(transformer, NPU, own, "w")[SWEEP_POLICIES.index("optimal")]
    assert row.total_ns == total_ns(compile_plan(transformer, NPU, own, "w"))


def test_an_infeasible_result_keeps_the_name_of_the_group_that_asked() -> None:
    lowered = tiny.gemm(64, 64, 64)
    cramped, memo = tiny.machine(sram_bytes=256), Memo()
    group_cost(lowered, cramped, Settings(), memo)((0,))  # the memo has seen the group under another name
    grouping = fuse_stage(lowered, cramped, Settings(), memo)
    (result,) = tile_stage(lowered, grouping, cramped, Settings(), memo)
    assert isinstance(result, Infeasible)
    assert result.group == grouping.groups[0].name


@pytest.mark.parametrize("policy", POLICIES)
def test_parts_of_a_split_that_two_results_share_are_read_whole(tmp_path: Path, policy: str) -> None:
    nodes = [
        helper.make_node("Split", ["x", "parts"], ["a", "b", "c"], axis=2, name="split"),
        helper.make_node("Mul", ["a", "b"], ["ab"], name="mul"),
        helper.make_node("Add", ["ab", "c"], ["out"], name="add"),
        helper.make_node("Exp", ["b"], ["e"], name="exp"),
    ]
    parts = {"parts": np.array([3, 3, 3], dtype=np.int64)}
    path = save(tmp_path / "m.onnx", nodes, {"x": [3, 5, 9]}, {"out": [3, 5, 3], "e": [3, 5, 3]}, parts)
    settings = Settings(fusion=FusionSettings(policy=policy))
    plan = compile_plan(read_graph(path, {}), bundled("edge-npu"), settings, "split")
    assert plan.infeasible == ()
    assert plan.dram_bytes >= (3 * 5 * 9 + 2 * 3 * 5 * 3) * 4  # x, out and e each cross once

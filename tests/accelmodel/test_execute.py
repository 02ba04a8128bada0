"""Plans run tile by tile: fused and cut plans agree with the reference, and each planted defect is found."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from accelmodel.assemble import BatchResult, assemble, check_assembly
from accelmodel.error_bound import error_bounds
from accelmodel.errors import InputError
from accelmodel.execute import execute
from accelmodel.generate import write_model
from accelmodel.importers.onnx import read_weights
from accelmodel.importers.onnxruntime import run_reference
from accelmodel.plan import Access, AxisMap, LoweredOp, Plan
from accelmodel.quality import compare, first_bad_group
from accelmodel.samples import seeded_inputs
from tests.accelmodel.numeric_worlds import World, cut_in_two, load, with_tile, world

POLICIES = ("none", "pattern", "aggressive")
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> World:
    path = tmp_path_factory.mktemp("models") / "transformer.onnx"
    write_model("transformer_block", path, seed=1, hidden=64, heads=4, feed_forward=96)
    return load(path, {"batch": 2, "sequence": 19})


@pytest.fixture(scope="module")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> World:
    path = tmp_path_factory.mktemp("models") / "convolution.onnx"
    write_model("convolution_block", path, seed=1, channels=16, size=11, stride=2)
    return load(path, {"batch": 2})


def worst(world: World, plan: Plan) -> tuple[float, str | None]:
    """Largest relative L2 error over its bound of anything that a group hands on, and the first bad group."""
    result = world.run(plan)
    assert result.executed and not result.problems
    names = [name for outputs in result.groups.values() for name in outputs]
    reference = run_reference(world.path, world.inputs, names)
    bounds = error_bounds(plan.lowered)
    rows = compare({k: v for outputs in result.groups.values() for k, v in outputs.items()}, reference, bounds)
    assert len(rows) >= len(world.graph.outputs)
    return max(row.relative_l2 / row.bound for row in rows), first_bad_group(result.groups, reference, bounds)


@pytest.mark.parametrize("policy", POLICIES)
def test_blocks_agree_group_by_group_under_every_policy_and_in_uneven_tiles(
    transformer: World, convolution: World, policy: str
) -> None:
    for each in (transformer, convolution):
        plan = each.plan(policy)
        for tried in (plan, cut_in_two(plan)):
            ratio, bad = worst(each, tried)
            assert bad is None and ratio < 1


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_narrow_storage_stays_within_the_bound_that_its_precision_gives(
    transformer: World, convolution: World, precision: str
) -> None:
    for each in (transformer, convolution):
        exact = each.judge(each.plan("pattern"))[0]
        narrow = each.judge(each.plan("pattern", precision))[0]
        assert narrow.passed and narrow.bound > 50 * exact.bound
        assert narrow.relative_l2 > 50 * exact.relative_l2  # it did round


def test_a_narrow_accumulator_loses_more_than_a_wide_one(tmp_path: Path) -> None:
    weight = np.random.default_rng(2).standard_normal((2048, 9)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["out"], name="matmul")]
    made = world(tmp_path, nodes, {"x": ("float32", (8, 2048))}, {"out": "float32"}, {"w": weight})
    wide, narrow = (made.judge(made.plan("none", "float16", accumulator))[0] for accumulator in ("float32", "float16"))
    assert narrow.passed and narrow.relative_l2 > 3 * wide.relative_l2


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", pytest.param("resnet50", marks=pytest.mark.slow)])
def test_networks_with_seeded_weights_agree_group_by_group(name: str) -> None:
    """The files hold constant weights, which would hide most defects: seeded ones take their place on both sides."""
    path = LIGHT / f"light_{name}.onnx"
    rng = np.random.default_rng(0)
    weights = {
        tensor: (rng.standard_normal(value.shape) * (value.shape[0] / value.size) ** 0.5).astype(np.float32)
        if value.ndim > 1 else rng.uniform(0.5, 1.5, value.shape).astype(np.float32)
        for tensor, value in read_weights(path, {}).items() if value.dtype == np.float32 and value.size > 1
    }  # fmt: skip
    read = load(path, {})
    plan = read.plan("pattern")
    result = execute(plan, {**read.weights, **weights}, read.inputs)
    assert result.executed and not result.problems
    names = [tensor for outputs in result.groups.values() for tensor in outputs]
    reference = run_reference(path, read.inputs, names, weights)
    bounds = error_bounds(plan.lowered)
    assert first_bad_group(result.groups, reference, bounds) is None
    rows = compare({k: v for outputs in result.groups.values() for k, v in outputs.items()}, reference, bounds)
    assert len(rows) > 30 and all(row.passed for row in rows)


# --- defects ---


def linear(folder: Path, name: str, *, bias: bool = True, swapped: bool = False) -> World:
    """(x @ w + b) then y - that, small and square, so that every variant has the same shapes."""
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((8, 8)).astype(np.float32), "b": rng.uniform(-0.2, 0.2, 8).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="matmul"),
        helper.make_node("Add" if bias else "Identity", ["m", "b"] if bias else ["m"], ["s"], name="bias"),
        helper.make_node("Sub", ["s", "y"] if swapped else ["y", "s"], ["out"], name="sub"),
    ]
    inputs = {"x": ("float32", (8, 8)), "y": ("float32", (8, 8))}
    return world(folder, nodes, inputs, {"out": "float32"}, weights, name=name)


@pytest.mark.parametrize("precision", ["model", "bfloat16"])
@pytest.mark.parametrize("defect", [{"bias": False}, {"swapped": True}])
def test_a_dropped_bias_and_a_swapped_operand_are_found(
    tmp_path: Path, precision: str, defect: dict[str, bool]
) -> None:
    right, wrong = linear(tmp_path, "right"), linear(tmp_path, "wrong", **defect)
    assert right.judge(right.plan("aggressive", precision))[0].passed
    mixed = replace(wrong, path=right.path)  # what was compiled differs from the model that is the reference
    assert not mixed.judge(wrong.plan("aggressive", precision))[0].passed


def convolved(folder: Path) -> World:
    weight = np.random.default_rng(2).standard_normal((5, 3, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["out"], name="conv", pads=[1, 1, 1, 1])
    return world(folder, [node], {"x": ("float32", (1, 3, 30, 30))}, {"out": "float32"}, {"w": weight})


def with_op(plan: Plan, change: Callable[[LoweredOp], LoweredOp]) -> Plan:
    """The plan with its first op lowered otherwise."""
    lowered = plan.lowered
    return replace(plan, lowered=replace(lowered, ops=(change(lowered.ops[0]), *lowered.ops[1:])))


def test_a_tile_that_misses_the_tail_is_found_and_leaves_nan(tmp_path: Path) -> None:
    made = convolved(tmp_path)
    plan = made.plan()
    kernel = plan.kernels[0]
    assert kernel.tile_plan is not None
    tile_plan = with_tile(kernel.tile_plan, {"n": 1, "oc": 5, "o0": 30, "o1": 30}, {"n": 1, "oc": 5, "o0": 8, "o1": 30})
    rounded_down = tuple((name, 30 // 8 if name == "o0" else count) for name, count in tile_plan.trips)
    short = replace(tile_plan, trips=rounded_down)
    plans = [replace(plan, kernels=(replace(kernel, tile_plan=tried),)) for tried in (tile_plan, short)]
    assert made.judge(plans[0])[0].passed
    (row,) = made.judge(plans[1])
    assert not row.passed and row.nonfinite == 5 * 6 * 30
    assert made.run(plans[1]).problems == (f"group {kernel.group.name}: no tile writes 900 of 4500 elements of 'out'",)


def test_a_halo_off_by_one_is_found(tmp_path: Path) -> None:
    made = convolved(tmp_path)

    def shifted(op: LoweredOp) -> LoweredOp:
        image = op.reads[0]
        assert image.axes is not None
        rows = image.axes[2]
        axes = (*image.axes[:2], AxisMap(rows.terms, rows.offset + 1), *image.axes[3:])
        return replace(op, reads=(Access(image.tensor, axes), *op.reads[1:]))

    assert not made.judge(with_op(made.plan(), shifted))[0].passed
    assert not made.judge(with_op(made.plan("none", "bfloat16"), shifted))[0].passed


def test_fp8_where_bfloat16_was_declared_is_found(tmp_path: Path) -> None:
    made = convolved(tmp_path)
    declared = made.plan("none", "bfloat16")
    narrow = with_op(declared, lambda op: replace(op, precision="float8_e4m3fn"))
    narrow = replace(narrow, lowered=replace(narrow.lowered, element_bytes=dict.fromkeys(made.graph.tensors, 1.0)))
    assert made.judge(declared)[0].passed
    assert not made.judge(narrow, bounds_of=declared)[0].passed


# --- batches, and what is refused ---


def test_a_padded_batch_gives_each_request_what_it_gets_alone(tmp_path: Path) -> None:
    path = write_model("transformer_block", tmp_path / "t.onnx", seed=4, hidden=32, heads=2, feed_forward=48)
    single, batched = load(path, {"batch": 1, "sequence": 6}), load(path, {"batch": 4, "sequence": 6})
    plans = single.plan("pattern"), batched.plan("aggressive")
    inputs = [seeded_inputs(single.graph, seed) for seed in range(3)]
    alone = {i: dict(execute(plans[0], single.weights, value).outputs) for i, value in enumerate(inputs)}
    padded = np.concatenate([*(value["input"] for value in inputs), np.zeros_like(inputs[0]["input"])])
    outputs = execute(plans[1], batched.weights, {"input": padded}).outputs
    bounds = error_bounds(plans[0].lowered)
    assert check_assembly(assemble([BatchResult((0, 1, 2), outputs)], "arrival"), alone, bounds) == ()
    swapped = assemble([BatchResult((1, 0, 2), outputs)], "arrival")
    assert len(check_assembly(swapped, alone, bounds)) == 2
    assert len(check_assembly(assemble([BatchResult((0, 1), outputs)], "arrival"), alone, bounds)) == 1


def test_inputs_that_do_not_fit_are_refused_with_what_was_expected(tmp_path: Path) -> None:
    made = convolved(tmp_path)
    plan = made.plan()
    for inputs, says in (
        ({}, "expected a value of shape"),
        ({"x": np.zeros((1, 3, 30, 29), np.float32)}, r"expected float32 \(1, 3, 30, 30\)"),
        ({"x": np.zeros((1, 3, 30, 30))}, "found float64"),
        ({**made.inputs, "z": np.zeros(1)}, "an input that the graph does not have"),
    ):
        with pytest.raises(InputError, match=says):
            execute(plan, made.weights, inputs)


def test_a_weight_without_a_value_is_named_and_nothing_is_executed(tmp_path: Path) -> None:
    made = convolved(tmp_path)
    result = execute(made.plan(), {}, made.inputs)
    assert result.skipped == ("weight 'w' has no value",) and not result.executed


def test_the_reference_names_what_it_refuses(tmp_path: Path) -> None:
    made = convolved(tmp_path)
    with pytest.raises(InputError, match="reference run of"):
        run_reference(made.path, {"x": np.zeros((1, 4, 30, 30), np.float32)})

"""Every op type with a numeric rule, one at a time, against ONNX Runtime: whole, and cut into uneven tiles."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.accelmodel.numeric_worlds import cut_in_two, world

X = {"x": ("float32", (3, 5, 7))}
IMAGE = {"x": ("float32", (2, 6, 9, 8))}
TWO = {"x": ("float32", (3, 5, 7)), "y": ("float32", (5, 1))}
INTS = {"x": ("int64", (4, 6)), "y": ("int64", (4, 6))}
BOOLS = {"x": ("bool", (4, 6)), "y": ("bool", (6,))}
RNG = np.random.default_rng(0)
CHANNELS = {name: RNG.uniform(0.5, 1.5, 6).astype(np.float32) for name in ("scale", "shift", "mean", "variance")}
POSITIVE = {"x": RNG.uniform(0.1, 3.0, (3, 5, 7)).astype(np.float32)}
SMALL = {"x": RNG.uniform(-0.9, 0.9, (3, 5, 7)).astype(np.float32)}
NUMBERS = {"x": RNG.integers(-20, 20, (4, 6)), "y": RNG.choice([-7, -3, 2, 5], (4, 6))}


def weight(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def constant(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def unary(op_type: str, values: dict[str, np.ndarray] | None = None, **attributes: object) -> tuple[object, ...]:
    return (op_type, ["x"], X, {}, attributes, values)


# op type, operands, inputs, weights, attributes, values of inputs that must not be random
CASES: list[tuple[object, ...]] = [
    *(unary(name) for name in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Sign", "Floor", "Ceil", "Round",
                               "Softplus", "Softsign", "Sin", "Cos", "HardSwish", "Mish", "Gelu", "Identity")),
    *(unary(name, POSITIVE) for name in ("Sqrt", "Log", "Reciprocal", "Acosh", "Asinh", "Sinh", "Cosh", "Tan")),
    *(unary(name, SMALL) for name in ("Asin", "Acos", "Atan", "Atanh")),
    unary("Gelu", approximate="tanh"), unary("LeakyRelu", alpha=0.2), unary("Elu", alpha=0.7), unary("Selu"),
    unary("Celu", alpha=0.6), unary("ThresholdedRelu", alpha=0.3), unary("HardSigmoid", alpha=0.3, beta=0.4),
    unary("Shrink", lambd=0.4, bias=0.1), unary("Softmax", axis=1), unary("LogSoftmax", axis=-1),
    *((name, ["x", "y"], TWO, {}, {}, None)
      for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "PRelu")),
    ("Add", ["x", "x"], X, {}, {}, None), ("Pow", ["x", "p"], X, {"p": np.float32(3.0)}, {}, None),
    ("Clip", ["x", "", "high"], X, {"high": np.float32(0.5)}, {}, None),
    ("Clip", ["x", "low", "high"], X, {"low": np.float32(-0.2), "high": np.float32(0.5)}, {}, None),
    ("MatMul", ["x", "w"], X, {"w": weight(7, 9)}, {}, None),
    ("MatMul", ["x", "w"], X, {"w": weight(3, 7, 4)}, {}, None),
    ("MatMul", ["x", "v"], X, {"v": weight(7)}, {}, None),
    ("Gemm", ["x", "w", "c"], {"x": ("float32", (7, 5))}, {"w": weight(11, 7), "c": weight(11)},
     {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}, None),
    ("Gemm", ["x", "w"], {"x": ("float32", (5, 7))}, {"w": weight(7, 3)}, {}, None),
    ("Conv", ["x", "w", "b"], IMAGE, {"w": weight(4, 6, 3, 3), "b": weight(4)}, {"pads": [1, 0, 2, 1]}, None),
    ("Conv", ["x", "w"], IMAGE, {"w": weight(4, 6, 3, 2)},
     {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 1, 1, 1]},
     None),
    ("Conv", ["x", "w"], IMAGE, {"w": weight(6, 2, 3, 3)}, {"group": 3, "auto_pad": "SAME_LOWER"}, None),
    ("Conv", ["x", "w", "b"], IMAGE, {"w": weight(6, 1, 3, 3), "b": weight(6)},
     {"group": 6, "pads": [1, 1, 1, 1]}, None),
    ("Conv", ["x", "w"], {"x": ("float32", (2, 3, 11))}, {"w": weight(5, 3, 4)}, {"pads": [2, 1]}, None),
    ("MaxPool", ["x"], IMAGE, {}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, None),
    ("MaxPool", ["x"], IMAGE, {}, {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}, None),
    ("AveragePool", ["x"], IMAGE, {}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, None),
    ("AveragePool", ["x"], IMAGE, {}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, None),
    ("AveragePool", ["x"], IMAGE, {}, {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}, None),
    ("GlobalAveragePool", ["x"], IMAGE, {}, {}, None), ("GlobalMaxPool", ["x"], IMAGE, {}, {}, None),
    ("LRN", ["x"], IMAGE, {}, {"size": 3, "alpha": 0.01, "beta": 0.7, "bias": 1.5}, None),
    ("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], IMAGE, CHANNELS, {"epsilon": 1e-3}, None),
    ("InstanceNormalization", ["x", "scale", "shift"], IMAGE, {k: CHANNELS[k] for k in ("scale", "shift")}, {}, None),
    ("LayerNormalization", ["x", "s", "b"], X, {"s": weight(7), "b": weight(7)}, {"axis": -1}, None),
    ("LayerNormalization", ["x", "s"], X, {"s": weight(5, 7)}, {"axis": 1, "epsilon": 1e-2}, None),
    ("ReduceMean", ["x", "axes"], X, {"axes": constant(1)}, {"keepdims": 0}, None),
    ("ReduceSum", ["x", "axes"], X, {"axes": constant(0, -1)}, {}, None),
    *((name, ["x", "axes"], X, {"axes": constant(1, 2)}, {}, POSITIVE)
      for name in ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
                   "ReduceLogSumExp")),
    ("Transpose", ["x"], X, {}, {"perm": [2, 0, 1]}, None),
    ("Reshape", ["x", "s"], X, {"s": constant(15, 7)}, {}, None),
    ("Slice", ["x", "b", "e", "a", "st"], X,
     {"b": constant(1, -1), "e": constant(3, -9), "a": constant(0, 2), "st": constant(1, -2)}, {}, None),
    ("Concat", ["x", "w", "x"], X, {"w": weight(3, 2, 7)}, {"axis": 1}, None),
    ("Expand", ["y", "s"], {"y": ("float32", (5, 1))}, {"s": constant(3, 5, 4)}, {}, None),
    ("Tile", ["x", "r"], X, {"r": constant(1, 2, 3)}, {}, None),
    ("Pad", ["x", "p", "v"], X, {"p": constant(1, 0, 2, 0, 1, 1), "v": np.float32(0.5)}, {}, None),
    ("Gather", ["t", "x"], {"x": ("int64", (2, 3))}, {"t": weight(9, 4)}, {"axis": 0},
     {"x": np.array([[0, 8, -1], [3, 3, -9]])}),
    ("Gather", ["x", "i"], X, {"i": constant(4, 0, -2)}, {"axis": 1}, None),
    ("GatherElements", ["x", "i"], {"x": ("float32", (3, 4))}, {"i": np.array([[0, -1, 2, 1]] * 2)}, {"axis": 0}, None),
    ("DepthToSpace", ["x"], {"x": ("float32", (2, 8, 3, 2))}, {}, {"blocksize": 2}, None),
    ("DepthToSpace", ["x"], {"x": ("float32", (2, 8, 3, 2))}, {}, {"blocksize": 2, "mode": "CRD"}, None),
    ("SpaceToDepth", ["x"], {"x": ("float32", (2, 2, 6, 4))}, {}, {"blocksize": 2}, None),
    ("Resize", ["x", "", "f"], {"x": ("float32", (1, 2, 3, 4))}, {"f": np.array([1, 1, 2, 3], np.float32)},
     {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, None),
    ("ArgMax", ["x"], X, {}, {"axis": 1, "keepdims": 0}, None), ("ArgMin", ["x"], X, {}, {"axis": 2}, None),
    ("Cast", ["x"], X, {}, {"to": 7}, None), ("Where", ["c", "x", "y"], {"c": ("bool", (5, 7)), **TWO}, {}, {}, None),
    *((name, ["x", "y"], TWO, {}, {}, None) for name in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")),
    *((name, ["x", "y"], BOOLS, {}, {}, None) for name in ("And", "Or", "Xor")),
    ("Not", ["x"], {"x": BOOLS["x"]}, {}, {}, None),
    *((name, ["x", "y"], INTS, {}, {}, NUMBERS) for name in ("Add", "Div", "Mul", "Mod")),
    ("IsNaN", ["x"], X, {}, {}, None), ("IsInf", ["x"], X, {}, {}, None),
]  # fmt: skip
TO_BOOL = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Xor", "Not", "IsNaN", "IsInf"}


def result_type(op_type: str, inputs: dict[str, tuple[str, tuple[int, ...]]]) -> str:
    if op_type in TO_BOOL:
        return "bool"
    if op_type in ("ArgMax", "ArgMin", "Cast"):
        return "int64"
    return "float32" if op_type == "Gather" else next(kind for kind, _ in reversed(inputs.values()) if kind != "bool")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{len(case[1])}")
def test_op_agrees_with_onnx_runtime_whole_and_in_uneven_tiles(case: tuple, tmp_path: Path) -> None:  # type: ignore[type-arg]
    op_type, operands, inputs, weights, attributes, values = case
    node = helper.make_node(op_type, operands, ["out"], name="op", **attributes)
    made = world(tmp_path, [node], inputs, {"out": result_type(op_type, inputs)}, weights, values=values)
    plan = made.plan()
    for each in (plan, cut_in_two(plan)):
        (row,) = made.judge(each)
        assert row.passed, row
        assert not made.run(each).problems


def test_split_writes_every_part(tmp_path: Path) -> None:
    node = helper.make_node("Split", ["x", "sizes"], ["a", "b"], name="op", axis=1)
    made = world(tmp_path, [node], X, {"a": "float32", "b": "float32"}, {"sizes": constant(2, 3)})
    for plan in (made.plan(), cut_in_two(made.plan())):
        rows = made.judge(plan)
        assert len(rows) == 2 and all(row.passed for row in rows)


@pytest.mark.parametrize(("opset", "axis"), [(9, 1), (9, 2), (13, 1)])
def test_softmax_before_opset_13_normalises_over_all_later_axes(tmp_path: Path, opset: int, axis: int) -> None:
    made = world(
        tmp_path,
        [helper.make_node("Softmax", ["x"], ["out"], name="op", axis=axis)],
        X,
        {"out": "float32"},
        opset=opset,
    )
    (row,) = made.judge(made.plan())
    assert row.passed, row


def test_quantised_levels_are_equal_to_the_reference(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantise"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["out"], name="restore"),
    ]
    weights = {"s": np.float32(0.05), "z": np.array(3, dtype=np.int8)}
    made = world(tmp_path, nodes, X, {"out": "float32"}, weights)
    (row,) = made.judge(made.plan())
    assert row.max_abs == 0.0


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (helper.make_node("CumSum", ["x", "axis"], ["out"], name="sum"), "op 'sum' (CumSum) has no numeric rule"),
        (helper.make_node("Pad", ["x", "p"], ["out"], name="pad", mode="edge"), "op 'pad' (Pad) pads with mode 'edge'"),
    ],
)
def test_an_op_without_a_rule_is_named_and_nothing_is_executed(tmp_path: Path, node: object, says: str) -> None:
    weights = {"axis": np.array(1), "p": constant(1, 0, 0, 0, 0, 0)}
    made = world(tmp_path, [node], X, {"out": "float32"}, weights)  # type: ignore[list-item]
    result = made.run(made.plan())
    assert not result.executed and says in result.skipped
    assert result.outputs == {} and result.groups == {}

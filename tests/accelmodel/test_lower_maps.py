"""Access maps mean what they say: replayed index by index, they give what ONNX Runtime gives."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto

from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_weights
from accelmodel.lower import lower
from accelmodel.plan import Access, LoweredOp
from accelmodel.settings import LoweringSettings
from tests.accelmodel.importers.models import one_op
from tests.accelmodel.targets import bundled

Array = NDArray[np.generic]
Weights = Mapping[str, Array]


def lowered_with_runtime(folder: Path, graph: Graph) -> tuple[LoweredOp, dict[str, Array], dict[str, Array]]:
    """The one op, all values it may read, and what ONNX Runtime makes of them."""
    (op,) = lower(graph, LoweringSettings(), bundled("server-cpu")).ops
    random = np.random.default_rng(0)
    feeds = {
        name: random.integers(0, 2, graph.tensors[name].shape)
        if graph.tensors[name].dtype == "int64"
        else random.standard_normal(graph.tensors[name].shape, dtype=np.float32)
        for name in graph.inputs
    }
    session = onnxruntime.InferenceSession(folder / "one.onnx", providers=["CPUExecutionProvider"])
    made = dict(zip((output.name for output in session.get_outputs()), session.run(None, feeds), strict=True))
    return op, {**read_weights(folder / "one.onnx"), **feeds}, {name: np.asarray(value) for name, value in made.items()}


def index_of(op: LoweredOp, access: Access, shape: Sequence[int]) -> tuple[tuple[Array, ...], NDArray[np.bool_]]:
    """Index arrays over the whole iteration space, and where they lie within the tensor."""
    grids = dict(zip((dim.name for dim in op.dims), np.indices([dim.size for dim in op.dims]), strict=True))
    here = np.ones([dim.size for dim in op.dims], dtype=bool)
    indices = []
    assert access.axes is not None
    for axis, size in zip(access.axes, shape, strict=True):
        assert not axis.whole
        index = sum((stride * grids[name] for name, stride in axis.terms), np.full(here.shape, axis.offset))
        here &= (index >= 0) & (index < size)
        indices.append(np.clip(index, 0, size - 1))
    return tuple(indices), here


def fetched(op: LoweredOp, access: Access, value: Array, missing: float = 0.0) -> Array:
    """What an access reads at every point of the iteration space; `missing` outside the tensor."""
    indices, here = index_of(op, access, value.shape)
    return np.where(here, value[indices], missing)


def stored(
    op: LoweredOp, access: Access, points: Array, shape: Sequence[int], combine: np.ufunc, start: float
) -> Array:
    """The tensor that an access writes when every point is combined into its element."""
    indices, here = index_of(op, access, shape)
    result = np.full(shape, start, dtype=np.float64)
    combine.at(result, tuple(index[here] for index in indices), points[here])
    return result


@pytest.mark.parametrize(
    ("inputs", "weights"),
    [
        ({"a": [3, 4], "b": [4, 5]}, {}),
        ({"a": [2, 3, 4], "b": [4, 5]}, {}),
        ({"a": [2, 1, 3, 4], "b": [3, 4, 2]}, {}),
        ({"a": [4], "b": [2, 4, 3]}, {}),
        ({"a": [2, 3, 4], "b": [4]}, {}),
    ],
)
def test_a_matmul_sums_products_over_its_dims(tmp_path: Path, inputs: dict[str, list[int]], weights: Weights) -> None:
    check_contraction(tmp_path, one_op(tmp_path, "MatMul", inputs))


@pytest.mark.parametrize(("flip_a", "flip_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("bias", [[5], [3, 1], [3, 5], []])
def test_a_gemm_sums_products_over_its_dims(tmp_path: Path, flip_a: int, flip_b: int, bias: list[int]) -> None:
    inputs = {"a": [4, 3] if flip_a else [3, 4], "b": [5, 4] if flip_b else [4, 5], "c": bias}
    check_contraction(tmp_path, one_op(tmp_path, "Gemm", inputs, transA=flip_a, transB=flip_b))


@pytest.mark.parametrize(
    ("image", "weight", "attributes"),
    [
        ([1, 2, 5, 6], [3, 2, 3, 3], {"pads": [1, 1, 1, 1]}),
        ([2, 2, 7, 5], [3, 2, 3, 2], {"strides": [2, 1], "pads": [0, 1, 2, 0]}),
        ([1, 2, 9, 9], [2, 2, 3, 3], {"dilations": [2, 3], "pads": [2, 0, 2, 0]}),
        ([1, 4, 4, 4], [6, 2, 3, 3], {"group": 2}),
        ([1, 4, 4, 4], [4, 1, 3, 3], {"group": 4}),
        ([1, 3, 4, 4], [6, 1, 3, 3], {"group": 3}),
        ([1, 6, 4, 4], [3, 2, 1, 1], {"group": 3}),
        ([1, 2, 6, 7], [3, 2, 4, 4], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ([1, 2, 6, 7], [3, 2, 4, 4], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ([1, 2, 6, 7], [3, 2, 4, 4], {"auto_pad": "VALID"}),
        ([1, 2, 8], [3, 2, 3], {}),
        ([1, 2, 4, 4, 4], [2, 2, 2, 2, 2], {}),
    ],
)
def test_a_convolution_sums_products_over_its_dims(
    tmp_path: Path, image: list[int], weight: list[int], attributes: dict[str, object]
) -> None:
    inputs = {"x": image, "w": weight, "b": weight[:1]}
    check_contraction(tmp_path, one_op(tmp_path, "Conv", inputs, **attributes))


def check_contraction(folder: Path, graph: Graph) -> None:
    """Sum over the iteration space of the product of the first two reads, plus the third, equals the output."""
    op, values, made = lowered_with_runtime(folder, graph)
    first, second, *bias = (fetched(op, read, values[read.tensor]) for read in op.reads)
    result = stored(op, op.writes[0], first * second, made["y"].shape, np.add, 0.0)
    if bias:
        inner = [i for i, dim in enumerate(op.dims) if dim.role == "reduction"]
        share = bias[0] / np.prod([op.dims[i].size for i in inner])  # each point of the reduction brings its share
        result += stored(op, op.writes[0], share, made["y"].shape, np.add, 0.0)
    np.testing.assert_allclose(result, made["y"], rtol=1e-4, atol=1e-5)
    assert op.flops == 2 * np.prod([dim.size for dim in op.dims])


@pytest.mark.parametrize(
    ("op_type", "inputs", "weights", "attributes"),
    [
        ("Transpose", {"x": [2, 3, 4]}, {}, {"perm": [2, 0, 1]}),
        ("Transpose", {"x": [2, 3, 4]}, {}, {}),
        ("Concat", {"a": [2, 3], "b": [2, 1], "c": [2, 2]}, {}, {"axis": 1}),
        ("Concat", {"a": [2, 3], "b": [1, 3]}, {}, {"axis": -2}),
        ("Slice", {"x": [5, 6]}, {"s": [1, 5], "e": [4, 0], "a": [0, 1], "t": [1, -2]}, {}),
        ("Slice", {"x": [5, 6]}, {"s": [-4], "e": [100], "a": [-1], "t": [3]}, {}),
        ("Slice", {"x": [5]}, {"s": [-1], "e": [-100], "a": [0], "t": [-1]}, {}),
        ("Pad", {"x": [2, 3]}, {"p": [1, 0, 0, 2]}, {}),
        ("Pad", {"x": [3, 4]}, {"p": [0, -1, 1, -1]}, {}),
        ("Expand", {"x": [3, 1]}, {"s": [2, 3, 4]}, {}),
        ("Tile", {"x": [1, 3]}, {"r": [4, 1]}, {}),
        ("DepthToSpace", {"x": [1, 8, 2, 3]}, {}, {"blocksize": 2, "mode": "DCR"}),
        ("DepthToSpace", {"x": [1, 8, 2, 3]}, {}, {"blocksize": 2, "mode": "CRD"}),
        ("SpaceToDepth", {"x": [1, 2, 4, 6]}, {}, {"blocksize": 2}),
    ],
)
def test_a_movement_copies_what_the_op_copies(
    tmp_path: Path,
    op_type: str,
    inputs: dict[str, list[int]],
    weights: dict[str, list[int]],
    attributes: dict[str, object],
) -> None:
    values = {name: np.array(value, dtype=np.int64) for name, value in weights.items()}
    check_movement(tmp_path, one_op(tmp_path, op_type, inputs, values, **attributes))


@pytest.mark.parametrize(
    ("mode", "rounding", "sizes"),
    [
        ("half_pixel", "round_prefer_floor", [1, 1, 4, 12]),
        ("half_pixel", "round_prefer_floor", [1, 1, 2, 1]),
        ("asymmetric", "floor", [1, 1, 6, 2]),
    ],
)
def test_a_resize_by_whole_factors_copies_what_the_op_copies(
    tmp_path: Path, mode: str, rounding: str, sizes: list[int]
) -> None:
    weights = {"sizes": np.array(sizes, dtype=np.int64)}
    graph = one_op(
        tmp_path, "Resize", {"x": [1, 1, 2, 4]}, weights, order=["x", "", "", "sizes"],
        mode="nearest", coordinate_transformation_mode=mode, nearest_mode=rounding,
    )  # fmt: skip
    check_movement(tmp_path, graph)


def test_a_resize_by_another_factor_reads_the_axis_whole_and_says_so(tmp_path: Path) -> None:
    weights = {"sizes": np.array([1, 1, 3, 4], dtype=np.int64)}
    graph = one_op(tmp_path, "Resize", {"x": [1, 1, 2, 4]}, weights, order=["x", "", "", "sizes"], mode="nearest")
    op, _, _ = lowered_with_runtime(tmp_path, graph)
    assert op.reads[0].axes is not None
    assert [axis.whole for axis in op.reads[0].axes] == [False, False, True, False]
    assert "axis 2" in op.notes[0]


def test_each_output_of_a_split_gets_its_part(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "Split", {"x": [2, 7]}, {"parts": np.array([1, 4, 2])}, outputs=["y", "z", "w"], axis=1)
    check_movement(tmp_path, graph)


def check_movement(folder: Path, graph: Graph) -> None:
    """Writing each fetched element where the write says gives the outputs; what no operand covers is padding, 0."""
    op, values, made = lowered_with_runtime(folder, graph)
    assert op.kind == "movement"
    assert op.flops == 0
    points = sum(fetched(op, read, values[read.tensor]) for read in op.reads)
    for write in op.writes:
        result = stored(op, write, np.asarray(points), made[write.tensor].shape, np.add, 0.0)
        np.testing.assert_allclose(result, made[write.tensor], rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "combine", "start", "attributes"),
    [
        ("MaxPool", np.maximum, -np.inf, {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
        ("MaxPool", np.maximum, -np.inf, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("MaxPool", np.maximum, -np.inf, {"kernel_shape": [2, 2], "dilations": [2, 1]}),
        ("MaxPool", np.maximum, -np.inf, {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ("GlobalMaxPool", np.maximum, -np.inf, {}),
        ("ReduceSum", np.add, 0.0, {}),
        ("ReduceMax", np.maximum, -np.inf, {"axes": [1, -1], "keepdims": 0}),
        ("ReduceMin", np.minimum, np.inf, {"axes": [2]}),
    ],
)
def test_a_reduction_combines_what_the_op_combines(
    tmp_path: Path, op_type: str, combine: np.ufunc, start: float, attributes: dict[str, object]
) -> None:
    graph = one_op(tmp_path, op_type, {"x": [2, 3, 5, 5]}, **attributes)
    op, values, made = lowered_with_runtime(tmp_path, graph)
    points = fetched(op, op.reads[0], values["x"], missing=start)
    result = stored(op, op.writes[0], points, made["y"].shape, combine, start)
    np.testing.assert_allclose(result, made["y"], rtol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "inputs", "function"),
    [
        ("Add", {"a": [2, 3, 4], "b": [3, 1]}, np.add),
        ("Mul", {"a": [4], "b": [2, 1, 4]}, np.multiply),
        ("Sub", {"a": [2, 3], "b": []}, np.subtract),
        ("Max", {"a": [2, 1], "b": [3]}, np.maximum),
    ],
)
def test_an_element_wise_op_meets_its_operands_where_broadcasting_does(
    tmp_path: Path, op_type: str, inputs: dict[str, list[int]], function: np.ufunc
) -> None:
    op, values, made = lowered_with_runtime(tmp_path, one_op(tmp_path, op_type, inputs))
    points = function(*(fetched(op, read, values[read.tensor]) for read in op.reads))
    np.testing.assert_allclose(stored(op, op.writes[0], points, made["y"].shape, np.add, 0.0), made["y"], rtol=1e-6)


def test_a_response_window_reaches_as_many_channels_as_the_op(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "LRN", {"x": [1, 6, 2, 2]}, size=3, alpha=0.3, beta=0.5, bias=2.0)
    op, values, made = lowered_with_runtime(tmp_path, graph)
    squares = stored(op, op.writes[0], fetched(op, op.reads[0], values["x"]) ** 2, made["y"].shape, np.add, 0.0)
    np.testing.assert_allclose(values["x"] / (2.0 + 0.3 / 3 * squares) ** 0.5, made["y"], rtol=1e-5)


def test_grouped_channels_are_normalised_together(tmp_path: Path) -> None:
    factors = {"s": np.ones(4, np.float32), "b": np.zeros(4, np.float32)}
    graph = one_op(tmp_path, "GroupNormalization", {"x": [2, 4, 3]}, factors, opset=21, num_groups=2, epsilon=0.0)
    op, values, made = lowered_with_runtime(tmp_path, graph)
    points = fetched(op, op.reads[0], values["x"])
    inner = tuple(i for i, dim in enumerate(op.dims) if dim.role == "reduction")
    normal = (points - points.mean(axis=inner, keepdims=True)) / points.std(axis=inner, keepdims=True)
    np.testing.assert_allclose(
        stored(op, op.writes[0], normal, (2, 4, 3), np.add, 0.0), made["y"], rtol=1e-4, atol=1e-5
    )


def test_gathered_rows_are_anywhere_in_the_table_and_other_axes_follow_the_output(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "Gather", {"x": [5, 3], "i": [2, 4]}, order=["x", "i"], dtypes={"i": TensorProto.INT64})
    op, _, _ = lowered_with_runtime(tmp_path, graph)
    table, index = op.reads
    assert table.axes is not None and index.axes is not None
    assert [axis.whole for axis in table.axes] == [True, False]
    assert table.axes[1].terms == (("d2", 1),)
    assert [axis.terms for axis in index.axes] == [(("d0", 1),), (("d1", 1),)]

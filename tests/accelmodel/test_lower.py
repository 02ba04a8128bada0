"""Lowering on tiny shapes, checked by hand: kind, engine, dims, flops, bytes, precision, and what falls back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from accelmodel.errors import InputError
from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_graph
from accelmodel.lower import RULES, lower
from accelmodel.lower_elementwise import FLOPS, TRANSCENDENTAL
from accelmodel.plan import KINDS, Lowered, LoweredOp
from accelmodel.settings import LoweringSettings
from tests.accelmodel.importers.models import one_op, save
from tests.accelmodel.targets import bundled

A100 = bundled("a100-40gb")
NPU = bundled("edge-npu")
CPU = bundled("server-cpu")


def lowered_op(graph: Graph, settings: LoweringSettings | None = None, target: str = "a100-40gb") -> LoweredOp:
    (op,) = lower(graph, settings or LoweringSettings(), bundled(target)).ops
    return op


def dims_of(op: LoweredOp) -> list[tuple[str, int, str]]:
    return [(dim.name, dim.size, dim.role[:3]) for dim in op.dims]


def moved_bytes(lowered: Lowered) -> float:
    """Bytes of all operands and results of all ops, each once."""
    return sum(lowered.tensor_bytes(a.tensor) for op in lowered.ops for a in (*op.reads, *op.writes))


def test_a_matmul_has_parallel_rows_and_columns_and_a_reduction(tmp_path: Path) -> None:
    op = lowered_op(one_op(tmp_path, "MatMul", {"a": [2, 3, 4], "b": [4, 5]}))
    assert (op.kind, op.engine, op.launches) == ("contraction", "vector", 1)
    assert dims_of(op) == [("b0", 2, "par"), ("m", 3, "par"), ("n", 5, "par"), ("k", 4, "red")]
    assert op.flops == 2 * 2 * 3 * 4 * 5


def test_a_convolution_counts_two_flops_a_multiply_accumulate(tmp_path: Path) -> None:
    op = lowered_op(one_op(tmp_path, "Conv", {"x": [1, 2, 6, 6], "w": [4, 2, 3, 3]}, strides=[2, 2], pads=[1, 1, 1, 1]))
    assert dims_of(op) == [
        ("n", 1, "par"), ("oc", 4, "par"), ("o0", 3, "par"), ("o1", 3, "par"), ("ic", 2, "red"), ("k0", 3, "red"),
        ("k1", 3, "red"),
    ]  # fmt: skip
    assert op.flops == 2 * (4 * 3 * 3) * (2 * 3 * 3)


def test_a_depthwise_convolution_has_one_channel_dim(tmp_path: Path) -> None:
    op = lowered_op(one_op(tmp_path, "Conv", {"x": [1, 8, 4, 4], "w": [8, 1, 3, 3]}, group=8))
    assert [dim.name for dim in op.dims] == ["n", "g", "o0", "o1", "k0", "k1"]
    assert op.flops == 2 * 8 * 2 * 2 * 9


def test_the_bytes_of_an_op_are_those_of_its_operands_and_results(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "Gemm", {"a": [3, 4], "b": [4, 5], "c": [5]})
    assert moved_bytes(lower(graph, LoweringSettings(), A100)) == 4 * (12 + 20 + 5 + 15)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "opset", "flops"),
    [
        ("Add", {"a": [2, 3], "b": [3]}, {}, 17, 6),
        ("Relu", {"x": [2, 3]}, {}, 17, 6),
        ("Erf", {"x": [2, 3]}, {}, 17, 6 * TRANSCENDENTAL),
        ("Gelu", {"x": [2, 3]}, {}, 20, 6 * (TRANSCENDENTAL + 4)),
        ("Sum", {"a": [2, 3], "b": [2, 3], "c": [1]}, {}, 17, 12),
        ("Mean", {"a": [2, 3], "b": [2, 3], "c": [1]}, {}, 17, 18),
        ("Clip", {"x": [2, 3], "low": []}, {}, 17, 6),
        ("Clip", {"x": [2, 3]}, {"min": 0.0, "max": 6.0}, 6, 12),
        ("Where", {"c": [2, 1], "a": [2, 3], "b": [3]}, {}, 17, 6),
        ("BatchNormalization", {"x": [2, 3, 4], "s": [3], "b": [3], "m": [3], "v": [3]}, {}, 17, 48),
    ],
)
def test_element_wise_ops_run_on_the_vector_engine_at_so_many_flops_an_element(
    tmp_path: Path, op_type: str, inputs: dict[str, list[int]], attributes: dict[str, object], opset: int, flops: int
) -> None:
    types = {"c": TensorProto.BOOL} if op_type == "Where" else None
    op = lowered_op(one_op(tmp_path, op_type, inputs, opset=opset, dtypes=types, **attributes))
    assert (op.kind, op.engine, op.flops, op.precision) == ("elementwise", "vector", flops, "float32")
    assert {dim.role for dim in op.dims} == {"parallel"}


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "reduced", "flops"),
    [
        ("Softmax", {"x": [2, 3, 4]}, {"axis": 1}, {"d1"}, 24 * (TRANSCENDENTAL + 4)),
        ("LogSoftmax", {"x": [2, 3, 4]}, {}, {"d2"}, 24 * (TRANSCENDENTAL + 4)),
        ("LayerNormalization", {"x": [2, 3, 4], "s": [4], "b": [4]}, {}, {"d2"}, 24 * 7),
        ("LayerNormalization", {"x": [2, 3, 4], "s": [3, 4]}, {"axis": 1}, {"d1", "d2"}, 24 * 6),
        ("InstanceNormalization", {"x": [1, 2, 3, 4], "s": [2], "b": [2]}, {}, {"d2", "d3"}, 24 * 7),
        ("ReduceMean", {"x": [2, 3, 4]}, {"axes": [-1]}, {"d2"}, 24 + 6),
        ("ReduceL2", {"x": [2, 3, 4]}, {"axes": [0, 1], "keepdims": 0}, {"d0", "d1"}, 48 + 4 * TRANSCENDENTAL),
        ("ReduceProd", {"x": [2, 3]}, {}, {"d0", "d1"}, 6),
        ("ArgMax", {"x": [2, 3]}, {"axis": 1}, {"d1"}, 6),
        ("AveragePool", {"x": [1, 2, 4, 4]}, {"kernel_shape": [2, 2], "strides": [2, 2]}, {"k0", "k1"}, 8 * 5),
        ("MaxPool", {"x": [1, 2, 4, 4]}, {"kernel_shape": [2, 2], "strides": [2, 2]}, {"k0", "k1"}, 8 * 4),
        ("GlobalAveragePool", {"x": [1, 2, 4, 4]}, {}, {"d2", "d3"}, 32 + 2),
        ("LRN", {"x": [1, 6, 2, 2]}, {"size": 3}, {"w"}, 24 * (6 + TRANSCENDENTAL + 3)),
    ],
)
def test_reductions_name_the_dims_they_combine(
    tmp_path: Path,
    op_type: str,
    inputs: dict[str, list[int]],
    attributes: dict[str, object],
    reduced: set[str],
    flops: int,
) -> None:
    op = lowered_op(one_op(tmp_path, op_type, inputs, **attributes))
    assert (op.kind, op.engine, op.flops) == ("reduction", "vector", flops)
    assert {dim.name for dim in op.dims if dim.role == "reduction"} == reduced


def test_softmax_of_an_old_opset_takes_all_axes_from_the_given_one_as_one(tmp_path: Path) -> None:
    op = lowered_op(one_op(tmp_path, "Softmax", {"x": [2, 3, 4]}, opset=9))
    assert [dim.role for dim in op.dims] == ["parallel", "reduction", "reduction"]


def test_an_axis_that_softmax_keeps_is_indexed_by_its_reduction_dim(tmp_path: Path) -> None:
    op = lowered_op(one_op(tmp_path, "Softmax", {"x": [2, 3]}))
    assert op.writes[0].axes is not None
    assert [axis.terms for axis in op.writes[0].axes] == [(("d0", 1),), (("d1", 1),)]
    assert op.dims[1].role == "reduction"


def test_axes_of_a_reduction_may_come_as_a_constant_input(tmp_path: Path) -> None:
    op = lowered_op(one_op(tmp_path, "ReduceMean", {"x": [2, 3]}, {"axes": np.array([0])}, opset=18))
    assert {dim.name for dim in op.dims if dim.role == "reduction"} == {"d0"}
    assert [read.tensor for read in op.reads] == ["x"]


def test_statistics_of_a_layer_normalisation_have_one_element_a_row(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "LayerNormalization", {"x": [2, 4], "s": [4]}, outputs=["y", "mean"])
    (_, mean) = lowered_op(graph).writes
    assert mean.axes is not None
    assert [axis.terms for axis in mean.axes] == [(("d0", 1),), ()]


def test_scales_of_a_quantised_axis_follow_that_axis(tmp_path: Path) -> None:
    op = lowered_op(one_op(tmp_path, "QuantizeLinear", {"x": [2, 3], "s": [3]}, axis=1))
    assert (op.kind, op.precision, op.flops) == ("elementwise", "float32", 30)
    assert op.reads[1].axes is not None
    assert op.reads[1].axes[0].terms == (("d1", 1),)


@pytest.mark.parametrize(
    ("op_type", "inputs", "weights", "attributes"),
    [
        ("Reshape", {"x": [2, 6]}, {"s": [3, 4]}, {}),
        ("Flatten", {"x": [2, 3, 4]}, {}, {}),
        ("Squeeze", {"x": [2, 1]}, {"a": [1]}, {}),
        ("Unsqueeze", {"x": [2, 3]}, {"a": [0]}, {}),
        ("Identity", {"x": [2]}, {}, {}),
        ("Dropout", {"x": [2]}, {}, {}),
        ("Transpose", {"x": [1, 3, 4]}, {}, {"perm": [1, 0, 2]}),
        ("Pad", {"x": [2]}, {"p": [0, 0]}, {}),
        ("Slice", {"x": [3]}, {"s": [0], "e": [3]}, {}),
        ("Expand", {"x": [3]}, {"s": [3]}, {}),
        ("Tile", {"x": [3]}, {"r": [1]}, {}),
        ("Concat", {"x": [3]}, {}, {"axis": 0}),
        ("Cast", {"x": [3]}, {}, {"to": TensorProto.FLOAT}),
    ],
)
def test_what_moves_nothing_is_a_view_of_its_input(
    tmp_path: Path,
    op_type: str,
    inputs: dict[str, list[int]],
    weights: dict[str, list[int]],
    attributes: dict[str, object],
) -> None:
    values = {name: np.array(value, dtype=np.int64) for name, value in weights.items()}
    lowered = lower(one_op(tmp_path, op_type, inputs, values, **attributes), LoweringSettings(), A100)
    (op,) = lowered.ops
    assert (op.kind, op.launches, op.flops, op.kernel) == ("view", 0, 0, "")
    assert op.reads[0].axes is None
    assert lowered.storage["y"] == "x"


def test_a_slice_that_reverses_is_no_view_though_the_shape_stays(tmp_path: Path) -> None:
    weights = {"s": np.array([-1]), "e": np.array([-9]), "a": np.array([0]), "t": np.array([-1])}
    assert lowered_op(one_op(tmp_path, "Slice", {"x": [3]}, weights)).kind == "movement"


def test_a_chain_of_views_shares_the_memory_of_its_first_input(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["a"]),
        helper.make_node("Identity", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    graph = read_graph(save(tmp_path / "m.onnx", nodes, {"x": [2, 3, 4]}, {"y": None}), {})
    storage = lower(graph, LoweringSettings(), A100).storage
    assert storage == {"x": "x", "a": "x", "b": "x", "y": "y"}


def test_a_result_without_elements_is_no_work(tmp_path: Path) -> None:
    lowered = lower(one_op(tmp_path, "Relu", {"x": [2, 0]}), LoweringSettings(), A100)
    assert (lowered.ops[0].kind, lowered.ops[0].launches) == ("view", 0)
    assert lowered.storage["y"] == "y"


def test_an_empty_operand_of_a_concatenation_is_not_read(tmp_path: Path) -> None:
    op = lowered_op(one_op(tmp_path, "Concat", {"past": [2, 0], "x": [2, 3]}, axis=1))
    assert [read.tensor for read in op.reads] == ["x"]


# --- engines and precisions ---


def test_a_contraction_runs_on_the_matrix_engine_where_it_has_the_precision(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "MatMul", {"a": [2, 2], "b": [2, 2]})
    half = lowered_op(graph, LoweringSettings(precision="float16"))
    single = lowered_op(graph)
    assert (half.engine, half.precision, half.notes) == ("matrix", "float16", ())
    assert (single.engine, single.precision) == ("vector", "float32")
    assert "the matrix engine has no float32" in single.notes[0]


def test_movement_is_the_data_engines_in_any_type(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "Transpose", {"x": [2, 3]}, dtypes={"x": TensorProto.INT64, "y": TensorProto.INT64})
    assert (lowered_op(graph).engine, lowered_op(graph).precision) == ("data", "int64")


def test_a_side_at_half_precision_stores_half_the_bytes_and_leaves_integers(tmp_path: Path) -> None:
    types = {"i": TensorProto.INT64}
    graph = one_op(tmp_path, "Gather", {"x": [4, 8], "i": [2]}, order=["x", "i"], dtypes=types)
    lowered = lower(graph, LoweringSettings(precision="float16"), A100)
    assert lowered.element_bytes == {"x": 2.0, "i": 8.0, "y": 2.0}


def test_an_engine_without_a_precision_works_in_the_next_wider_one_and_says_so(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "Relu", {"x": [2]})
    op = lowered_op(graph, LoweringSettings(precision="bfloat16"), "server-cpu")
    assert (op.engine, op.precision) == ("vector", "float32")
    assert op.notes == ("bfloat16 is worked in float32: the vector engine has no bfloat16",)


def test_a_condition_does_not_decide_the_precision(tmp_path: Path) -> None:
    types = {"c": TensorProto.BOOL}
    op = lowered_op(one_op(tmp_path, "Where", {"c": [2], "a": [2], "b": [2]}, dtypes=types), target="edge-npu")
    assert op.precision == "float32"


def test_integers_are_worked_in_a_type_that_holds_them(tmp_path: Path) -> None:
    types = dict.fromkeys(("a", "b", "y"), TensorProto.INT64)
    op = lowered_op(one_op(tmp_path, "Add", {"a": [2], "b": [2]}, dtypes=types))
    assert (op.kind, op.engine, op.precision) == ("elementwise", "vector", "float32")


@pytest.mark.parametrize(
    ("op_type", "precision", "accumulator"),
    [("MatMul", "float16", "float32"), ("MatMul", "float64", "float64"), ("Add", "float16", "float16")],
)
def test_contractions_accumulate_no_narrower_than_they_work(
    tmp_path: Path, op_type: str, precision: str, accumulator: str
) -> None:
    graph = one_op(tmp_path, op_type, {"a": [2, 2], "b": [2, 2]})
    assert lowered_op(graph, LoweringSettings(precision=precision)).accumulator == accumulator


def test_an_accumulator_of_the_storage_type_is_kept_as_asked(tmp_path: Path) -> None:
    settings = LoweringSettings(precision="float16", accumulator="float16")
    assert lowered_op(one_op(tmp_path, "MatMul", {"a": [2, 2], "b": [2, 2]}), settings).accumulator == "float16"


def test_a_model_whose_type_no_engine_works_in_falls_back_with_the_reason(tmp_path: Path) -> None:
    types = dict.fromkeys(("a", "b", "y"), TensorProto.DOUBLE)
    op = lowered_op(one_op(tmp_path, "MatMul", {"a": [2, 3], "b": [3, 4]}, dtypes=types), target="edge-npu")
    assert (op.kind, op.engine, op.launches, op.kernel) == ("fallback", "host", 0, "")
    assert op.fallback_reason == "no engine of edge-npu works in float64 or a wider type"
    assert op.flops == 2 * 2 * 3 * 4


# --- what falls back, and what is refused ---


def test_an_op_without_a_rule_falls_back_and_touches_its_tensors_whole(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "CumSum", {"x": [2, 3]}, {"axis": np.array(0)})
    op = lowered_op(graph)
    assert (op.kind, op.engine, op.flops) == ("fallback", "host", 6)
    assert op.fallback_reason == "no lowering rule for CumSum"
    assert op.reads[0].axes is not None and all(axis.whole for axis in op.reads[0].axes)


def test_an_op_of_another_vendor_falls_back_by_its_full_name(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], domain="com.example")
    graph = read_graph(save(tmp_path / "m.onnx", [node], {"x": [2]}, {"y": [2]}), {})
    assert lowered_op(graph).fallback_reason == "no lowering rule for com.example.Relu"


def test_an_op_type_without_a_kernel_on_this_side_falls_back_at_its_real_flops(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "Softmax", {"x": [2, 3]})
    op = lowered_op(graph, LoweringSettings(no_kernel=("Softmax",)))
    assert op.kind == "fallback"
    assert op.fallback_reason == "this side has no kernel for Softmax (settings.lowering.no_kernel)"
    assert op.flops == lowered_op(graph).flops


def test_a_batch_normalisation_in_training_falls_back_with_the_reason(tmp_path: Path) -> None:
    inputs = {"x": [2, 3], "s": [3], "b": [3], "m": [3], "v": [3]}
    graph = one_op(tmp_path, "BatchNormalization", inputs, outputs=["y", "mean", "var"], training_mode=1)
    assert "training mode" in str(lowered_op(graph).fallback_reason)


def test_a_resize_that_interpolates_falls_back_with_the_reason(tmp_path: Path) -> None:
    scales = {"k": np.array([1, 1, 2, 2], np.float32)}
    graph = one_op(tmp_path, "Resize", {"x": [1, 1, 2, 2]}, scales, order=["x", "", "k"], mode="linear")
    assert lowered_op(graph).fallback_reason == "Resize with interpolation 'linear'"


def test_a_mask_that_something_reads_makes_a_dropout_fall_back(tmp_path: Path) -> None:
    nodes = [helper.make_node("Dropout", ["x"], ["y", "mask"]), helper.make_node("Not", ["mask"], ["z"])]
    types = {"z": TensorProto.BOOL}
    graph = read_graph(save(tmp_path / "m.onnx", nodes, {"x": [2]}, {"y": None, "z": None}, dtypes=types), {})
    assert lower(graph, LoweringSettings(), A100).ops[0].kind == "fallback"


@pytest.mark.parametrize("precision", ["float64", "int8", "float8_e4m3fn", "half"])
def test_a_precision_that_the_target_lacks_is_refused_with_those_it_has(tmp_path: Path, precision: str) -> None:
    graph = one_op(tmp_path, "Relu", {"x": [2]})
    with pytest.raises(InputError) as caught:
        lower(graph, LoweringSettings(precision=precision), NPU)
    assert "edge-npu" in str(caught.value)
    assert repr(precision) in str(caught.value)
    assert "float16, bfloat16, float32" in str(caught.value)


def test_an_accumulator_that_is_no_floating_point_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="accumulator"):
        lower(one_op(tmp_path, "Relu", {"x": [2]}), LoweringSettings(accumulator="int32"), CPU)


def test_lowering_keeps_ops_and_their_names_in_order(tmp_path: Path) -> None:
    nodes = [helper.make_node(t, [a], [b], name=f"{t}!") for t, a, b in (("Relu", "x", "a"), ("CumSum", "a", "b"))]
    nodes[1].input.append("axis")
    path = save(tmp_path / "m.onnx", nodes, {"x": [2]}, {"b": None}, {"axis": np.array(0)})
    graph = read_graph(path, {})
    lowered = lower(graph, LoweringSettings(), A100)
    assert [op.name for op in lowered.ops] == ["Relu!", "CumSum!"]
    assert lowered.graph == graph
    assert all(op.kind in KINDS for op in lowered.ops)


def test_legacy_broadcasting_aligns_axes_from_the_one_given(tmp_path: Path) -> None:
    graph = one_op(tmp_path, "Add", {"a": [2, 3, 4], "b": [3]}, opset=6, broadcast=1, axis=1)
    assert lowered_op(graph).reads[1].axes == (replace(lowered_op(graph).writes[0].axes[1]),)  # type: ignore[index]


def test_every_element_wise_op_of_the_table_has_a_rule_and_costs_something() -> None:
    assert set(FLOPS) <= set(RULES)
    assert min(FLOPS.values()) >= 1

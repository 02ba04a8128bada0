"""ONNX models into graphs: shapes bound, constants folded, names unique, and the same again every time."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accelmodel.errors import InputError
from accelmodel.generate import write_model
from accelmodel.importers.onnx import inspect, read_graph, read_weights
from tests.accelmodel.importers.models import save

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def transformer(folder: Path) -> Path:
    return write_model("transformer_block", folder / "block.onnx", hidden=8, heads=2, feed_forward=16)


def test_symbolic_dims_take_the_sizes_given_to_them(tmp_path: Path) -> None:
    graph = read_graph(transformer(tmp_path), {"batch": 3, "sequence": 5})
    assert graph.tensors["input"].shape == (3, 5, 8)
    assert graph.tensors["layer0/attention/scores:0"].shape == (3, 2, 5, 5)
    assert graph.tensors["output"].shape == (3, 5, 8)


def test_every_tensor_has_the_role_it_plays(tmp_path: Path) -> None:
    graph = read_graph(transformer(tmp_path), {"batch": 1, "sequence": 2})
    roles = {name: graph.tensors[name].role for name in ("input", "output", "layer0/expand/weight", "layer0/gelu:0")}
    assert roles == {
        "input": "input", "output": "output", "layer0/expand/weight": "weight", "layer0/gelu:0": "activation",
    }  # fmt: skip


def test_a_graph_carries_the_name_asked_for_and_else_its_own(tmp_path: Path) -> None:
    sizes = {"batch": 1, "sequence": 1}
    assert read_graph(transformer(tmp_path), sizes, name="mine").name == "mine"
    assert read_graph(transformer(tmp_path), sizes).name == "transformer_block"


def test_reading_twice_gives_equal_graphs(tmp_path: Path) -> None:
    sizes = {"batch": 2, "sequence": 4}
    assert read_graph(transformer(tmp_path), sizes) == read_graph(transformer(tmp_path), sizes)


def test_a_shape_computed_from_a_bound_shape_is_folded_away(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Gather", ["dims", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["batch1"]),
        helper.make_node("Mul", ["six", "two"], ["twelve"]),
        helper.make_node("Concat", ["batch1", "twelve"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {
        "zero": np.array(0), "axis": np.array([0]), "six": np.array([6]), "two": np.array([2]),
    }  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", 3, 4]}, {"y": ["n", 12]}, weights)
    graph = read_graph(path, {"n": 7})
    assert [op.op_type for op in graph.ops] == ["Reshape"]
    assert graph.tensors["y"].shape == (7, 12)
    assert graph.tensors["target"].role == "weight"
    assert graph.constants == {"target": (7, 12)}
    assert read_weights(path, {"n": 7})["target"].tolist() == [7, 12]


def test_constants_that_only_fed_folded_ops_leave_the_graph(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    one = np.ones(2, dtype=np.float32)
    path = save(tmp_path / "m.onnx", nodes, {"x": [2]}, {"y": [2]}, {"a": one, "b": one})
    assert set(read_graph(path, {}).tensors) == {"x", "c", "y"}
    np.testing.assert_array_equal(read_weights(path)["c"], [2.0, 2.0])


def test_a_large_constant_is_a_weight_whose_value_is_made_only_when_asked_for(tmp_path: Path) -> None:
    nodes = [
        helper.make_node(
            "ConstantOfShape", ["shape"], ["w"], value=numpy_helper.from_array(np.array([0.5], np.float32))
        ),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, 512]}, {"y": [1, 512]}, {"shape": np.array([512, 512])})
    graph = read_graph(path, {})
    assert graph.tensors["w"].role == "weight"
    assert graph.tensors["w"].shape == (512, 512)
    assert float(read_weights(path)["w"].sum()) == 512 * 512 * 0.5


def test_a_constant_of_terabytes_is_sized_and_never_allocated(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"]),
        helper.make_node("Mul", ["w", "w"], ["w2"]),
        helper.make_node("ReduceSum", ["w2"], ["s"], keepdims=0),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": [1]}, {"y": [1]}, {"shape": np.array([2**18, 2**18])})
    assert [op.op_type for op in read_graph(path, {}).ops] == ["Add"]
    with pytest.raises(InputError, match="weights: expected at most"):
        read_weights(path)


def test_more_elements_than_any_memory_holds_are_refused_by_op(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], name="huge"),
        helper.make_node("Add", ["x", "w"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": [1]}, {"y": None}, {"shape": np.array([10**6, 10**6])})
    with pytest.raises(InputError, match="huge"):
        read_graph(path, {})


def test_ops_without_a_name_are_named_by_type_and_output_and_all_names_differ(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], name="twice"),
        helper.make_node("Relu", ["b"], ["c"], name="twice"),
        helper.make_node("Relu", ["c"], ["y"], name="Relu:a"),
    ]
    graph = read_graph(save(tmp_path / "m.onnx", nodes, {"x": [2]}, {"y": [2]}), {})
    assert [op.name for op in graph.ops] == ["Relu:a", "twice", "Relu:c", "Relu:y"]


def test_an_optional_output_that_nothing_reads_is_absent(tmp_path: Path) -> None:
    node = helper.make_node("Dropout", ["x"], ["y", "mask"], name="drop")
    graph = read_graph(save(tmp_path / "m.onnx", [node], {"x": [2]}, {"y": [2]}, opset=9), {})
    assert graph.ops[0].outputs == ("y", "")


def test_attributes_become_plain_values(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2], name="conv")
    weights = {"w": np.zeros((1, 1, 3, 3), np.float32)}
    (op,) = read_graph(save(tmp_path / "m.onnx", [node], {"x": [1, 1, 4, 4]}, {"y": None}, weights), {}).ops
    assert op.attribute("auto_pad") == "SAME_UPPER"
    assert op.attribute("strides") == (2, 2)
    assert op.attribute("group") is None


def test_a_declared_shape_serves_where_the_shape_is_computed_from_data(tmp_path: Path) -> None:
    node = helper.make_node("Expand", ["x", "target"], ["y"])
    path = save(
        tmp_path / "m.onnx", [node], {"x": [1, 3], "target": [2]}, {"y": [5, 3]}, dtypes={"target": TensorProto.INT64}
    )
    assert read_graph(path, {}).tensors["y"].shape == (5, 3)


def test_an_op_of_another_vendor_takes_the_shape_that_the_file_declares(tmp_path: Path) -> None:
    node = helper.make_node("FusedThing", ["x"], ["y"], domain="com.example", name="fused")
    path = save(tmp_path / "m.onnx", [node], {"x": [2]}, {"y": [2, 4]})
    graph = read_graph(path, {})
    assert graph.tensors["y"].shape == (2, 4)
    assert graph.ops[0].domain == "com.example"


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Neg", ["b"], ["c"])]
    function = helper.make_function("local", "Both", ["a"], ["c"], body, [helper.make_opsetid("", 17)])
    path = save(tmp_path / "m.onnx", [helper.make_node("Both", ["x"], ["y"], domain="local")], {"x": [2]}, {"y": [2]})
    model = onnx.load(path)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    onnx.save(model, path)
    assert [op.op_type for op in read_graph(path, {}).ops] == ["Relu", "Neg"]


@pytest.mark.parametrize("name", ["resnet50", "densenet121", "squeezenet", "shufflenet", "bvlc_alexnet"])
def test_real_networks_of_an_old_opset_are_read_with_all_their_weights(name: str) -> None:
    path = LIGHT / f"light_{name}.onnx"
    graph = read_graph(path, {})
    assert graph.opset == 9
    assert len(graph.inputs) == 1
    assert graph.tensors[graph.outputs[0]].elements == 1000
    weights = {tensor.name for tensor in graph.tensors.values() if tensor.role == "weight"}
    values = read_weights(path)
    assert set(values) == weights
    assert all(values[weight].shape == graph.tensors[weight].shape for weight in weights)
    assert not any(op.op_type == "ConstantOfShape" for op in graph.ops)


def test_resnet_has_the_parameters_that_its_paper_states() -> None:
    graph = read_graph(LIGHT / "light_resnet50.onnx", {})
    read_by = {name for op in graph.ops if op.op_type in ("Conv", "Gemm") for name in op.inputs}
    parameters = sum(t.elements for t in graph.tensors.values() if t.role == "weight" and t.name in read_by)
    assert parameters == pytest.approx(25.5e6, rel=0.01)


def test_inspect_lists_inputs_open_dims_and_op_types(tmp_path: Path) -> None:
    info = inspect(transformer(tmp_path))
    assert [(item.name, item.dtype, item.shape) for item in info.inputs] == [
        ("input", "float32", ("batch", "sequence", 8))
    ]
    assert info.symbolic_dims == ("batch", "sequence")
    assert info.outputs == ("output",)
    assert info.opset == 20
    assert info.op_counts[0] == ("Add", 8)
    assert ("MatMul", 8) in info.op_counts


def test_a_dim_without_a_name_is_called_by_its_input_and_axis(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": ["", 3]}, {"y": None})
    assert inspect(path).symbolic_dims == ("x.0",)
    assert read_graph(path, {"x.0": 4}).tensors["y"].shape == (4, 3)


def test_weights_can_be_read_with_dims_left_open(tmp_path: Path) -> None:
    assert "layer0/expand/weight" in read_weights(transformer(tmp_path))


def test_a_negative_size_in_the_file_is_an_open_dim_and_zero_is_a_size(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": [-1, 0]}, {"y": None})
    assert inspect(path).inputs[0].shape == ("x.0", 0)
    assert read_graph(path, {"x.0": 2}).tensors["y"].shape == (2, 0)
    assert read_weights(path) == {}


def test_the_declared_shape_of_a_custom_op_may_name_a_dim_that_is_bound(tmp_path: Path) -> None:
    nodes = [helper.make_node("Foo", ["x"], ["h"], domain="my"), helper.make_node("Relu", ["h"], ["y"])]
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "xhy"}
    graph = helper.make_graph(nodes, "g", [infos["x"]], [infos["y"]], value_info=[infos["h"]])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    assert read_graph(path, {"batch": 5}).tensors["h"].shape == (5, 3)

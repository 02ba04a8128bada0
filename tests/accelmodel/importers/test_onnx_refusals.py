"""Model files that cannot be used: each is refused with the file, the object in it, and the remedy."""

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accelmodel.errors import InputError
from accelmodel.generate import write_model
from accelmodel.importers.onnx import inspect, read_graph, read_weights
from tests.accelmodel.importers.models import save


def refused(path: Path, shapes: dict[str, int] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_graph(path, shapes or {})
    message = str(caught.value)
    assert str(path) in message
    assert caught.value.remedy in message
    return message


def small(folder: Path) -> Path:
    return save(folder / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch", 3]}, {"y": ["batch", 3]})


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert "no file" in refused(tmp_path / "absent.onnx")
    assert "a folder" in refused(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x00" * 64, "modèle".encode("latin-1")])
def test_bytes_that_are_no_model_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert "ONNX" in refused(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_model_is_refused(tmp_path: Path, share: float) -> None:
    whole = write_model("convolution_block", tmp_path / "whole.onnx", channels=8, size=4).read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: int(len(whole) * share)])
    refused(path, {"batch": 1})


def test_damaged_bytes_are_read_or_refused_and_nothing_else(tmp_path: Path) -> None:
    whole = write_model("transformer_block", tmp_path / "m.onnx", hidden=8, heads=2, feed_forward=8).read_bytes()
    choose, refusals = random.Random(0), 0
    path = tmp_path / "damaged.onnx"
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(choose.choice((1, 2, 8))):
            damaged[choose.randrange(len(damaged))] = choose.randrange(256)
        path.write_bytes(damaged)
        try:
            read_graph(path, dict.fromkeys(inspect(path).symbolic_dims, 2))
            read_weights(path)
        except InputError:
            refusals += 1
    assert 0 < refusals < 300


def test_a_symbolic_dim_without_a_size_is_named(tmp_path: Path) -> None:
    assert "none for batch" in refused(small(tmp_path))


@pytest.mark.parametrize("size", [0, -1, 2**31, True, 1.0])
def test_a_size_that_is_no_size_is_refused_by_dim(tmp_path: Path, size: int) -> None:
    assert "dim 'batch'" in refused(small(tmp_path), {"batch": size})


def test_a_dim_that_the_model_has_not_is_named_with_those_it_has(tmp_path: Path) -> None:
    message = refused(small(tmp_path), {"batch": 1, "sequence": 2})
    assert "dim 'sequence'" in message
    assert "(batch)" in message


def test_a_batch_for_a_model_of_fixed_batch_is_refused_with_the_fixed_shape(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 3]}, {"y": [1, 3]})
    message = refused(path, {"batch": 8})
    assert "dim 'batch'" in message
    assert "x is 1 x 3" in message


def test_sizes_that_contradict_one_another_are_refused_by_op(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"], name="product")
    path = save(tmp_path / "m.onnx", [node], {"a": [2, "k"], "b": [3, 2]}, {"y": None})
    message = refused(path, {"k": 4})
    assert "product" in message
    assert "a [2, 4], b [3, 2]" in message


def test_an_output_of_another_size_than_declared_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch", 3]}, {"y": [1, 3]})
    assert "output 'y'" in refused(path, {"batch": 2})


def test_an_op_that_reads_what_no_op_makes_is_named(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Add", ["x", "ghost"], ["y"], name="sum")], {"x": [1]}, {"y": None}
    )
    message = refused(path)
    assert "sum" in message
    assert "ghost" in message


def test_an_op_that_onnx_does_not_define_is_named(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Relux", ["x"], ["y"], name="odd")], {"x": [1]}, {"y": None})
    assert "odd" in refused(path)


def test_an_op_newer_than_the_opset_is_named(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Gelu", ["x"], ["y"], name="new")], {"x": [1]}, {"y": None})
    message = refused(path)
    assert "new" in message
    assert "opset 17" in message


def test_control_flow_is_refused_by_op(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"])],
        "branch",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, [1])],
    )
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch, else_branch=branch)
    path = save(tmp_path / "m.onnx", [node], {"x": [1], "c": []}, {"y": [1]}, dtypes={"c": TensorProto.BOOL})
    message = refused(path)
    assert "choice" in message
    assert "subgraph" in message


def test_sequences_and_text_are_refused_by_op(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["s"], name="gathered"),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    assert "gathered" in refused(save(tmp_path / "m.onnx", nodes, {"x": [1]}, {"y": None}))
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING, name="spelled")
    path = save(tmp_path / "m.onnx", [node], {"x": [1]}, {"y": None}, dtypes={"y": TensorProto.STRING})
    assert "spelled" in refused(path)


def test_a_size_that_hangs_on_data_is_refused_by_op(tmp_path: Path) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"], name="found")
    path = save(tmp_path / "m.onnx", [node], {"x": [4]}, {"y": None}, dtypes={"y": TensorProto.INT64})
    assert "found" in refused(path)


def test_a_weight_with_fewer_bytes_than_its_shape_needs_is_named(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, {"y": [4]},
        {"w": np.zeros(4, np.float32)},
    )  # fmt: skip
    model = onnx.load(path)
    model.graph.initializer[0].raw_data = b"1234"
    path.write_bytes(model.SerializeToString())
    message = refused(path)
    assert "weight 'w'" in message
    assert "16 bytes" in message


def test_functions_that_multiply_without_end_are_counted_and_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("f0", ["x"], ["y"], domain="local")], {"x": [1]}, {"y": None})
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("local", 1))
    for level in range(30):
        inner = f"f{level + 1}" if level < 29 else "Relu"
        domain = "local" if level < 29 else ""
        body = [
            helper.make_node(inner, ["a"], ["b"], domain=domain),
            helper.make_node(inner, ["b"], ["c"], domain=domain),
        ]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
        model.functions.append(helper.make_function("local", f"f{level}", ["a"], ["c"], body, opsets))
    path.write_bytes(model.SerializeToString())
    assert f"{2**30:,}" in refused(path)
    model.functions[-1].node[0].op_type, model.functions[-1].node[0].domain = "f0", "local"
    path.write_bytes(model.SerializeToString())
    assert "cycle" in refused(path)


def external(folder: Path, location: str, offset: str = "0", length: str = "16") -> Path:
    """A model in folder/inner whose weight is said to lie at `location`."""
    inner = folder / "inner"
    inner.mkdir(exist_ok=True)
    path = save(
        inner / "m.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, {"y": [4]},
        {"w": np.zeros(4, np.float32)},
    )  # fmt: skip
    model = onnx.load(path)
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_beside_the_model_is_read(tmp_path: Path) -> None:
    path = external(tmp_path, "w.bin", offset="4")
    (path.parent / "w.bin").write_bytes(np.arange(5, dtype=np.float32).tobytes())
    assert read_graph(path, {}).tensors["w"].shape == (4,)
    np.testing.assert_array_equal(read_weights(path)["w"], [1, 2, 3, 4])


@pytest.mark.parametrize(
    "location", ["../secret", "/etc/passwd", "a/../../secret", "..\\secret", "C:\\secret", "", "a\0b"]
)
def test_external_data_outside_the_folder_of_the_model_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 64)
    message = refused(external(tmp_path, location))
    assert "weight 'w', external data" in message
    assert "own folder" in message


def test_external_data_behind_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 64)
    path = external(tmp_path, "w.bin")
    (path.parent / "w.bin").symlink_to(tmp_path / "secret")
    assert "link" in refused(path)


def test_external_data_that_is_missing_or_short_is_named(tmp_path: Path) -> None:
    assert "no file 'w.bin'" in refused(external(tmp_path, "w.bin"))
    path = external(tmp_path, "w.bin", offset="8")
    (path.parent / "w.bin").write_bytes(b"x" * 16)
    assert "offset 8" in refused(path)


@pytest.mark.parametrize(("offset", "length"), [("-4", "16"), ("x", "16"), ("0", "9" * 30), ("0", "12")])
def test_external_data_with_a_wrong_extent_is_refused(tmp_path: Path, offset: str, length: str) -> None:
    path = external(tmp_path, "w.bin", offset, length)
    (path.parent / "w.bin").write_bytes(b"x" * 64)
    assert "weight 'w', external data" in refused(path)


def test_a_window_larger_than_its_input_makes_a_negative_dim_and_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[20, 20])
    path = save(tmp_path / "m.onnx", [node], {"x": ["batch", 3, 8, 8]}, {"y": None})
    message = refused(path, {"batch": 2})
    assert "'pool'" in message and "expected dims from 0, found [2, 3, -11, -11]" in message


def test_more_axes_than_arrays_have_are_refused(tmp_path: Path) -> None:
    shape = [1] * 33
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, {"y": shape})
    assert "at most 32 axes a tensor, found 33" in refused(path)

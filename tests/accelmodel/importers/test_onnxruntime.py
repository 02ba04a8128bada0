"""The reference run: what ONNX Runtime cannot run on the CPU is told from a model that is wrong."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from accelmodel.errors import InputError
from accelmodel.importers.onnx import read_graph
from accelmodel.importers.onnxruntime import NoReferenceError, run_reference
from accelmodel.samples import seeded_inputs
from tests.accelmodel.importers.models import save


@pytest.mark.parametrize(("op_type", "dtype"), [
    ("Relu", TensorProto.BFLOAT16), ("Identity", TensorProto.FLOAT8E4M3FN), ("Identity", TensorProto.INT4),
])  # fmt: skip
def test_types_without_a_kernel_or_an_array_have_no_reference(tmp_path: Path, op_type: str, dtype: int) -> None:
    node = helper.make_node(op_type, ["x"], ["y"])
    types = dict.fromkeys("xy", dtype)
    path = save(tmp_path / "m.onnx", [node], {"x": [2, 4]}, {"y": [2, 4]}, opset=21, dtypes=types)
    with pytest.raises(NoReferenceError) as caught:
        run_reference(path, seeded_inputs(read_graph(path, {}), 0))
    assert str(path) in caught.value.where and caught.value.found


def test_inputs_that_do_not_fit_are_an_error_and_no_missing_reference(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 4]}, {"y": [2, 4]})
    with pytest.raises(InputError) as caught:
        run_reference(path, {"x": np.zeros((3, 4), np.float32)})
    assert not isinstance(caught.value, NoReferenceError)

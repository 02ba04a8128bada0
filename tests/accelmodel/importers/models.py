"""Small ONNX models for the tests of the importer and of lowering."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_graph

Dims = Sequence[int | str]


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims],
    outputs: Mapping[str, Dims | None],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    dtypes: Mapping[str, int] | None = None,
) -> Path:
    """Write a model; tensors are float32 where `dtypes` does not say otherwise."""
    types = dtypes or {}
    graph = helper.make_graph(
        list(nodes), "small",
        [helper.make_tensor_value_info(n, types.get(n, TensorProto.FLOAT), list(dims)) for n, dims in inputs.items()],
        [helper.make_tensor_value_info(n, types.get(n, TensorProto.FLOAT), dims) for n, dims in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def one_op(
    folder: Path,
    op_type: str,
    inputs: Mapping[str, Dims],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    outputs: Sequence[str] = ("y",),
    order: Sequence[str] | None = None,
    dtypes: Mapping[str, int] | None = None,
    **attributes: object,
) -> Graph:
    """The graph of a model with one op, named `op`, that reads `order` (inputs, then weights) and makes `outputs`."""
    names = list(order) if order is not None else [*inputs, *(weights or {})]
    node = helper.make_node(op_type, names, list(outputs), name="op", **attributes)
    open_outputs = dict.fromkeys(outputs)
    path = save(folder / "one.onnx", [node], inputs, open_outputs, weights, opset, dtypes)
    return read_graph(path, {})

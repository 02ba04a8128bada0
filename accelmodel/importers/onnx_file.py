"""One ONNX file from disk, with its guards: what the bytes claim is checked before anything rests on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]  # protobuf ships no types
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # the same
from numpy.typing import NDArray
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, inliner, numpy_helper

from accelmodel.errors import InputError
from accelmodel.graph import ELEMENT_BYTES

MAX_FILE_BYTES = 2**31  # protobuf can hold no more in one message
MAX_NODES = 200_000
MAX_FUNCTIONS = 1000
MAX_ELEMENTS = 2**36  # of one tensor; more than any target's memory holds
MAX_RANK = 32  # axes of one tensor; arrays of more have no numeric rules

# ONNX element type -> ours. Types that are missing here (text, complex numbers) have no size on an accelerator.
ELEMENT_TYPES: Mapping[int, str] = {
    TensorProto.DOUBLE: "float64", TensorProto.FLOAT: "float32", TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16", TensorProto.FLOAT8E4M3FN: "float8_e4m3fn", TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.INT64: "int64", TensorProto.INT32: "int32", TensorProto.INT16: "int16", TensorProto.INT8: "int8",
    TensorProto.INT4: "int4", TensorProto.UINT64: "uint64", TensorProto.UINT32: "uint32",
    TensorProto.UINT16: "uint16", TensorProto.UINT8: "uint8", TensorProto.UINT4: "uint4", TensorProto.BOOL: "bool",
}  # fmt: skip

_EXPORT = "Export the model to ONNX again, and check it with onnx.checker.check_model(path, full_check=True)."


def wrong(path: Path, at: str, expected: str, found: str, remedy: str = _EXPORT) -> InputError:
    """The one shape of every error about a model file: file, object in it, expected, found, remedy."""
    where = f"model {path}, {at}" if at else f"model {path}"
    return InputError(stage="ingress", where=where, expected=expected, found=found, remedy=remedy)


def load_model(path: Path) -> ModelProto:
    """The model of a file, local functions inlined; weights in external files stay there.

    Everything that later code relies on holds: sizes of tensors match their data, external data lies in the model's
    folder, there is no control flow, and there are at most MAX_NODES nodes.
    """
    model = _parse(path)
    _check_texts(path, model)
    size = _inlined_nodes(path, model)
    if size > MAX_NODES:
        raise wrong(path, "graph", f"at most {MAX_NODES:,} nodes, functions inlined", f"{size:,}")
    if model.functions:
        model = _inlined(path, model)
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise wrong(path, f"weight {name!r}", "a dense tensor", "a sparse tensor", "Export it as a dense tensor.")
    for node in model.graph.node:
        _check_attributes(path, node)
    for tensor in model.graph.initializer:
        _check_tensor(path, tensor)
    return model


def _parse(path: Path) -> ModelProto:
    if not os.path.isfile(path):  # noqa: PTH113  (False, not an error, for what can be no path)
        found = "a folder" if os.path.isdir(path) else "no file"  # noqa: PTH112
        raise wrong(path, "", "an ONNX file", found, "Correct the path of the model in the candidate file.")
    size = path.stat().st_size
    if size >= MAX_FILE_BYTES:
        remedy = (
            "Save the weights as external data beside the model: onnx.save(model, path, save_as_external_data=True)."
        )
        raise wrong(path, "", f"less than {MAX_FILE_BYTES:,} bytes", f"{size:,} bytes", remedy)
    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise wrong(path, "", "an ONNX model", f"bytes that are not one, or a truncated one ({error})") from error
    # any few bytes, and none at all, can parse: only a graph with outputs and a version is a model
    if not model.opset_import or not model.graph.output or not model.ir_version:
        raise wrong(path, "", "an ONNX model with a graph, outputs and an opset", f"none ({size:,} bytes)")
    return model


def _check_texts(path: Path, message: Message) -> None:
    """Every text is UTF-8: the parser lets others through, as bytes or as an error at the first use."""
    try:
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                for inner in value if field.is_repeated else (value,):
                    _check_texts(path, inner)
            elif field.type == FieldDescriptor.TYPE_STRING:
                texts = value if field.is_repeated else (value,)
                if any(isinstance(text, bytes) for text in texts):
                    raise wrong(path, f"field {field.full_name}", "UTF-8 text", repr(value)[:80])
    except UnicodeDecodeError as error:
        raise wrong(path, type(message).__name__, "UTF-8 text", str(error)) from error


def _inlined_nodes(path: Path, model: ModelProto) -> int:
    """Nodes of the graph once its functions are inlined, counted without doing it: a few may call up a great many."""
    bodies = {(item.domain, item.name): item.node for item in model.functions}
    if len(bodies) > MAX_FUNCTIONS:
        raise wrong(path, "functions", f"at most {MAX_FUNCTIONS:,}", f"{len(bodies):,}")
    counts: dict[tuple[str, str], int] = {}
    while len(counts) < len(bodies):
        ready = {
            key: sum(counts.get(_called(node), 1) for node in nodes)
            for key, nodes in bodies.items()
            if key not in counts and all(_called(node) in counts or _called(node) not in bodies for node in nodes)
        }
        if not ready:
            names = ", ".join(name for key in bodies if key not in counts for name in key[1:])
            raise wrong(path, "functions", "functions that do not call themselves", f"a cycle among {names}"[:200])
        counts.update(ready)
    return sum(counts.get(_called(node), 1) for node in model.graph.node)


def _called(node: NodeProto) -> tuple[str, str]:
    return node.domain, node.op_type


def _inlined(path: Path, model: ModelProto) -> ModelProto:
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError) as error:
        raise wrong(path, "functions", "functions that can be inlined", str(error)) from error


def default_opset(model: ModelProto) -> int:
    """Version of the default ONNX domain; 1 where a model imports only others."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)


def node_label(node: NodeProto) -> str:
    """How a message names a node, which may have no name of its own."""
    named = node.name or (node.output[0] if node.output else "")
    return f"op {named!r} ({node.op_type})"


def _check_attributes(path: Path, node: NodeProto) -> None:
    for attribute in node.attribute:
        at = f"{node_label(node)}, attribute {attribute.name!r}"
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            remedy = "Export the model with the branch taken or the loop unrolled (torch.onnx.export traces it so)."
            raise wrong(path, at, "an op without control flow", "a subgraph", remedy)
        if attribute.type in (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS, AttributeProto.TENSORS):
            raise wrong(path, at, "a dense tensor", "sparse tensors or several tensors")
        if attribute.type == AttributeProto.TENSOR:
            if attribute.t.data_location == TensorProto.EXTERNAL:
                raise wrong(path, at, "a value inside the model file", "a reference to external data")
            _check_tensor(path, attribute.t)


def _check_tensor(path: Path, tensor: TensorProto) -> None:
    at = f"weight {tensor.name!r}"
    if any(dim < 0 for dim in tensor.dims) or prod(tensor.dims) > MAX_ELEMENTS:
        raise wrong(path, at, f"sizes from 0, at most {MAX_ELEMENTS:,} elements", f"{list(tensor.dims)}")
    if tensor.data_type not in ELEMENT_TYPES:
        return  # refused where an op reads it, with the name of the op
    if tensor.data_location == TensorProto.EXTERNAL:
        _external(path, tensor)
        return
    expected = stored_bytes(tensor)
    if tensor.raw_data or not prod(tensor.dims):
        found, unit = len(tensor.raw_data), "bytes"
    else:
        found, unit = len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type))), "values"
        packed = ELEMENT_BYTES[ELEMENT_TYPES[tensor.data_type]] < 1
        expected = -(-prod(tensor.dims) // 2) if packed else prod(tensor.dims)
    if found != expected:
        shape = " x ".join(map(str, tensor.dims))
        raise wrong(path, at, f"{expected:,} {unit} for its shape {shape}", f"{found:,}")


def stored_bytes(tensor: TensorProto) -> int:
    """Bytes of the tensor's raw data; elements of half a byte are packed in pairs."""
    halves = round(2 * ELEMENT_BYTES[ELEMENT_TYPES[tensor.data_type]])
    return (int(prod(tensor.dims)) * halves + 1) // 2


def _external(path: Path, tensor: TensorProto) -> tuple[Path, int]:
    """File and offset of an external tensor, once it is known to lie whole in a file of the model's folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location, at = entries.get("location", ""), f"weight {tensor.name!r}, external data"
    folder = path.parent.resolve()
    inside = "a file in the model's own folder"
    remedy = "Put the data file itself (no link) beside the model, and name it without folders that lead outside."
    parts = (*PurePosixPath(location).parts, *PureWindowsPath(location).parts)
    rooted = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor != ""
    if not location or "\0" in location or rooted or ".." in parts:
        raise wrong(path, at, inside, f"location {location!r}", remedy)
    file = (folder / location).resolve()
    if not file.is_relative_to(folder):
        raise wrong(path, at, inside, f"location {location!r}, a link that leads to {file}", remedy)
    if not os.path.isfile(file):  # noqa: PTH113
        raise wrong(path, at, inside, f"no file {location[:200]!r}", remedy)
    offset, length = (
        _whole(path, at, key, entries.get(key, default)) for key, default in (("offset", "0"), ("length", "-1"))
    )
    need, size = stored_bytes(tensor), file.stat().st_size
    if length not in (-1, need) or offset + need > size:
        found = f"offset {offset:,}, length {length:,} in a file of {size:,} bytes"
        raise wrong(
            path, at, f"{need:,} bytes within {location!r}", found, "Copy the data file again, or export again."
        )
    return file, offset


def _whole(path: Path, at: str, key: str, text: str) -> int:
    digits = text.removeprefix("-") if key == "length" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise wrong(path, at, f"a whole number as {key}", repr(text[:40]))
    return int(text)


def read_tensor(path: Path, tensor: TensorProto) -> NDArray[np.generic]:
    """Value of a stored tensor, wherever its bytes are."""
    if tensor.data_type not in ELEMENT_TYPES:
        known = ", ".join(ELEMENT_TYPES.values())
        raise wrong(path, f"weight {tensor.name!r}", f"an element type of {known}", f"ONNX type {tensor.data_type}")
    if tensor.data_location != TensorProto.EXTERNAL:
        return _array(tensor)
    file, offset = _external(path, tensor)
    with file.open("rb") as stream:
        stream.seek(offset)
        raw = stream.read(stored_bytes(tensor))
    inner = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)
    return _array(inner)


def _array(tensor: TensorProto) -> NDArray[np.generic]:
    value: NDArray[np.generic] = numpy_helper.to_array(tensor)
    return value

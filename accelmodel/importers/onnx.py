"""ONNX models, read into our Graph with every shape bound. The file is untrusted: see onnx_file for its guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from accelmodel.graph import AttributeValue, Graph, Op, Tensor
from accelmodel.importers.onnx_file import ELEMENT_TYPES, default_opset, load_model, node_label, wrong
from accelmodel.importers.onnx_walk import Walk, dims_of, walk, weights_of

MAX_WEIGHT_BYTES = 2**33
_MAX_DIM = 2**31 - 1
_CONSTANT_ELEMENTS = 2**12  # longer integer tensors are tables, not shapes, axes or pads


@dataclass(frozen=True, slots=True)
class InputInfo:
    """One input of a model: dims that the file leaves open have a name instead of a size."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a file says about itself. symbolic_dims: names to give sizes to, in order of appearance. op_counts: op types
    with how often each occurs, most frequent first, before anything is folded."""

    name: str
    opset: int
    inputs: tuple[InputInfo, ...]
    outputs: tuple[str, ...]
    symbolic_dims: tuple[str, ...]
    op_counts: tuple[tuple[str, int], ...]


def inspect(path: Path) -> ModelInfo:
    """Inputs, symbolic dims and op types of a model, with nothing bound."""
    model = load_model(path)
    inputs = tuple(InputInfo(info.name, _dtype(path, info), _open_shape(path, info)) for info in _inputs(model))
    counts = Counter(_qualified(node) for node in model.graph.node)
    return ModelInfo(
        name=model.graph.name or path.stem,
        opset=default_opset(model),
        inputs=inputs,
        outputs=tuple(info.name for info in model.graph.output),
        symbolic_dims=_symbolic(inputs),
        op_counts=tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
    )


def read_graph(path: Path, shapes: Mapping[str, int], name: str | None = None) -> Graph:
    """The graph of a model file. `shapes`: a size for each symbolic dim, by name.

    A dim without a name in the file is called `<input>.<axis>`. Ops whose inputs are all known before the run are
    folded: their results are tensors of the role `weight`.
    """
    model = load_model(path)
    state = walk(path, model, _bound_inputs(path, model, shapes, partly=False), shapes)
    _compare_outputs(state, model)
    used = _used(state, model)
    ops = tuple(_ops(state, used))
    inputs = tuple(info.name for info in _inputs(model) if info.name not in state.known)
    outputs = tuple(info.name for info in model.graph.output)
    made_by = {made: node for node, op in zip(state.ops, ops, strict=True) for made in op.outputs if made}
    roles = {**dict.fromkeys(state.known, "weight"), **dict.fromkeys(inputs, "input")}
    roles = {**dict.fromkeys(set(outputs) - set(roles), "output"), **roles}
    tensors = {
        tensor: _tensor(state, tensor, roles.get(tensor, "activation"), made_by.get(tensor))
        for tensor in (*inputs, *sorted(used & state.known), *made_by)
    }
    return Graph(
        name=name or model.graph.name or path.stem,
        ops=ops,
        tensors=tensors,
        inputs=inputs,
        outputs=outputs,
        opset=state.opset,
        constants=_constants(state, used),
    )


def read_weights(path: Path, shapes: Mapping[str, int] | None = None) -> dict[str, NDArray[np.generic]]:
    """Value of every tensor of the role `weight`, stored or folded, by name; together at most MAX_WEIGHT_BYTES.

    `shapes` as in read_graph. Without them symbolic dims stay open, and constants that rest on them are left out.
    """
    model = load_model(path)
    state = walk(path, model, _bound_inputs(path, model, shapes or {}, partly=shapes is None), shapes or {})
    return weights_of(state, frozenset(_used(state, model) & state.known), MAX_WEIGHT_BYTES)


def _inputs(model: ModelProto) -> Iterator[ValueInfoProto]:
    """Inputs proper: files of IR version 3 list their weights among the inputs too."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return (info for info in model.graph.input if info.name not in stored)


def _dtype(path: Path, info: ValueInfoProto) -> str:
    kind = info.type.WhichOneof("value") or "nothing"
    if kind != "tensor_type":
        raise wrong(path, f"input {info.name!r}", "a tensor", kind.removesuffix("_type"))
    element = info.type.tensor_type.elem_type
    if element not in ELEMENT_TYPES:
        raise wrong(
            path, f"input {info.name!r}", f"an element type of {', '.join(ELEMENT_TYPES.values())}", str(element)
        )
    return ELEMENT_TYPES[element]


def _open_shape(path: Path, info: ValueInfoProto) -> tuple[int | str, ...]:
    if not info.type.tensor_type.HasField("shape"):
        raise wrong(path, f"input {info.name!r}", "a shape (its dims may be symbolic)", "no shape")
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or f"{info.name}.{axis}"
        for axis, dim in enumerate(info.type.tensor_type.shape.dim)
    )


def _symbolic(inputs: Iterable[InputInfo]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(dim for item in inputs for dim in item.shape if isinstance(dim, str)))


def _bound_inputs(path: Path, model: ModelProto, shapes: Mapping[str, int], partly: bool) -> dict[str, TypeProto]:
    """Types of the inputs with their dims bound; every name in `shapes` must be a symbolic dim, and the reverse."""
    inputs = tuple(InputInfo(info.name, _dtype(path, info), _open_shape(path, info)) for info in _inputs(model))
    symbolic = _symbolic(inputs)
    for dim, size in shapes.items():
        if dim not in symbolic:
            said = "; ".join(f"{item.name} is {' x '.join(map(str, item.shape))}" for item in inputs)
            raise wrong(
                path, f"dim {dim!r}", f"one of its symbolic dims ({', '.join(symbolic) or 'it has none'})",
                f"no such dim: {said}", "Leave this dim out of shapes, or export the model with it as a dynamic axis.",
            )  # fmt: skip
        if type(size) is not int or not 1 <= size <= _MAX_DIM:
            raise wrong(path, f"dim {dim!r}", "a whole number from 1", repr(size), "Correct it in shapes.")
    missing = [dim for dim in symbolic if dim not in shapes]
    if missing and not partly:
        example = ", ".join(f"{dim}: 1" for dim in missing)
        raise wrong(
            path, f"dim {missing[0]!r}", "a size for each symbolic dim", f"none for {', '.join(missing)}",
            f"Give them under shapes, e.g. {{{example}}}.",
        )  # fmt: skip
    types: dict[str, TypeProto] = {}
    for info, item in zip(_inputs(model), inputs, strict=True):
        types[info.name] = kind = TypeProto()
        kind.CopyFrom(info.type)
        for proto, open_dim in zip(kind.tensor_type.shape.dim, item.shape, strict=True):
            if isinstance(open_dim, str):
                proto.Clear()
            if isinstance(open_dim, str) and open_dim in shapes:
                proto.dim_value = shapes[open_dim]
    return types


def _compare_outputs(state: Walk, model: ModelProto) -> None:
    """The sizes that the file declares for its outputs are those that follow from its inputs."""
    for info in model.graph.output:
        if info.name not in state.types:
            raise wrong(state.path, f"output {info.name!r}", "an op that makes it", "none")
        found = dims_of(state.types[info.name])
        declared = info.type.tensor_type.shape.dim if info.type.tensor_type.HasField("shape") else None
        if found is None or declared is None:
            continue
        agree = len(found) == len(declared) and all(
            not dim.dim_value or dim.dim_value == size for dim, size in zip(declared, found, strict=True)
        )
        if not agree:
            said = " x ".join(str(dim.dim_value) if dim.dim_value else dim.dim_param or "?" for dim in declared)
            raise wrong(
                state.path, f"output {info.name!r}", f"the declared shape {said}", " x ".join(map(str, found)),
                "Bind shapes that the model was exported for, or export it with this axis dynamic.",
            )  # fmt: skip


def _used(state: Walk, model: ModelProto) -> set[str]:
    read = {name for node in state.ops for name in node.input if name}
    return read | {info.name for info in model.graph.output}


def _tensor(state: Walk, name: str, role: str, maker: NodeProto | None) -> Tensor:
    at = f"{node_label(maker)}, output {name!r}" if maker else f"tensor {name!r}"
    kind = state.types.get(name, TypeProto())
    case = kind.WhichOneof("value")
    if case not in (None, "tensor_type"):
        raise wrong(state.path, at, "a tensor", f"a {case.removesuffix('_type')}", "Export without sequences and maps.")
    dims = dims_of(kind)
    if dims is None:
        raise wrong(
            state.path, at, "a shape that follows from the input shapes", "one that depends on the values of data",
            "Export the part of the model before this op, or with this size fixed.",
        )  # fmt: skip
    if kind.tensor_type.elem_type not in ELEMENT_TYPES:
        found = f"ONNX element type {kind.tensor_type.elem_type}"
        raise wrong(state.path, at, f"an element type of {', '.join(ELEMENT_TYPES.values())}", found)
    return Tensor(name, dims, ELEMENT_TYPES[kind.tensor_type.elem_type], role)


def _ops(state: Walk, used: set[str]) -> Iterator[Op]:
    """The nodes that are left to run. An optional output that nothing reads (a Dropout mask) is absent, as "" says."""
    taken: set[str] = set()
    for node in state.ops:
        first = next(filter(None, node.output), "")
        name = node.name if node.name and node.name not in taken else f"{node.op_type}:{first}"
        while name in taken:
            name += "'"
        taken.add(name)
        domain = "" if node.domain == "ai.onnx" else node.domain
        attributes = tuple(
            (attribute.name, value) for attribute in node.attribute if (value := _attribute(attribute)) is not None
        )
        outputs = tuple(made if made == first or made in used else "" for made in node.output)
        yield Op(name, node.op_type, domain, tuple(node.input), outputs, attributes)


def _attribute(attribute: AttributeProto) -> AttributeValue | None:
    """Plain value of an attribute; None for tensors, which no op that is left to run needs for its shape."""
    match attribute.type:
        case AttributeProto.INT:
            return attribute.i
        case AttributeProto.FLOAT:
            return attribute.f
        case AttributeProto.STRING:
            return attribute.s.decode("utf-8", errors="replace")
        case AttributeProto.INTS:
            return tuple(attribute.ints)
        case AttributeProto.FLOATS:
            return tuple(attribute.floats)
        case AttributeProto.STRINGS:
            return tuple(text.decode("utf-8", errors="replace") for text in attribute.strings)
        case _:
            return None


def _constants(state: Walk, used: set[str]) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(int(item) for item in value.ravel())
        for name, value in sorted(state.values.items())
        if name in used and value.dtype.kind in "iub" and value.size <= _CONSTANT_ELEMENTS
    }


def _qualified(node: NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"

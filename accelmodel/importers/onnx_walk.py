"""One pass over a model in its order: the shape of every tensor, and which tensors are known before the run.

Shapes come from the inference rule that ONNX itself has for each op at the model's opset. An op is *folded* when all
its inputs are known before the run: small results are computed on the spot, because shapes may rest on them; large ones
stay recipes, which `read_weights` evaluates. So an input of a few bytes that asks for terabytes costs nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, prod
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError, infer_node_outputs

from accelmodel.graph import ELEMENT_BYTES
from accelmodel.importers.onnx_file import (
    ELEMENT_TYPES,
    MAX_ELEMENTS,
    MAX_RANK,
    default_opset,
    node_label,
    read_tensor,
    wrong,
)

Array = NDArray[np.generic]

SMALL_ELEMENTS = 2**16  # computed on the spot up to this size, and up to the budget in all
_BUDGET_ELEMENTS = 2**25
_SHAPE_ELEMENTS = 2**10  # the most that an inference rule needs to see of a constant

# Ops that fold: exact in the reference evaluator at every opset from 1. Softmax and BatchNormalization are not (old
# opsets read wrong), random ops have no fixed value, and DequantizeLinear stays: unfolded, its weight is stored small.
# fmt: off
_FOLDABLE = frozenset((
    "Abs", "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Exp",
    "Expand", "Flatten", "Floor", "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual",
    "Log", "MatMul", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pad", "Pow", "Range", "Reciprocal",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "ScatterND", "Slice", "Split",
    "Sqrt", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
))
# fmt: on
_OF_SHAPE = frozenset(("Shape", "Size"))
_SAME_SHAPE = frozenset(("GroupNormalization", "MeanVarianceNormalization"))  # ONNX has no inference rule for these
_EVALUATION_ERRORS = (ValueError, TypeError, IndexError, KeyError, ArithmeticError, RuntimeError, NotImplementedError)


@dataclass(slots=True)
class Walk:
    """What one pass found. types: by tensor. values: small tensors known before the run. stored: initializers.
    recipes: folded nodes without a value yet, in order. ops: nodes that are left to run, in order. budget: elements
    that may still be computed on the spot."""

    path: Path
    opset: int
    opsets: list[onnx.OperatorSetIdProto]
    ir_version: int
    declared: Mapping[str, TypeProto]
    types: dict[str, TypeProto] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    stored: dict[str, TensorProto] = field(default_factory=dict)
    recipes: list[NodeProto] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    ops: list[NodeProto] = field(default_factory=list)
    budget: int = _BUDGET_ELEMENTS


def walk(path: Path, model: ModelProto, inputs: Mapping[str, TypeProto], sizes: Mapping[str, int]) -> Walk:
    """Infer and fold. `inputs`: types of the graph inputs, with the dims that are bound; `sizes`: of these, by name."""
    graph = model.graph
    state = Walk(
        path=path, opset=default_opset(model), opsets=list(model.opset_import), ir_version=model.ir_version,
        declared={info.name: _bound(info.type, sizes) for info in (*graph.value_info, *graph.output)},
        types=dict(inputs),
    )  # fmt: skip
    for tensor in graph.initializer:
        state.types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        state.stored[tensor.name] = tensor
        state.known.add(tensor.name)
        if prod(tensor.dims) <= SMALL_ELEMENTS and tensor.data_type in ELEMENT_TYPES:
            state.values[tensor.name] = read_tensor(path, tensor)
    for name, kind in state.types.items():
        _check_size(state, f"tensor {name!r}", name, kind)
    for node in graph.node:
        _visit(state, node)
    return state


def _bound(declared: TypeProto, sizes: Mapping[str, int]) -> TypeProto:
    """A declared type with the dims that have a size by name."""
    kind = TypeProto()
    kind.CopyFrom(declared)
    for dim in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        if dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]
    return kind


def _visit(state: Walk, node: NodeProto) -> None:
    for name in filter(None, node.input):
        if name not in state.types:
            raise wrong(state.path, node_label(node), f"input {name!r} made by an earlier op", "none that makes it")
    outputs = {name: _completed(state, name, kind) for name, kind in _infer(state, node).items()}
    for name, kind in outputs.items():
        _check_size(state, node_label(node), name, kind)
    state.types.update(outputs)
    if not _folds(state, node):
        state.ops.append(node)
        return
    state.known.update(filter(None, node.output))
    if _is_small(state, node):
        values = evaluate(state, node, state.values)
        state.values.update(values)
        for name, value in values.items():
            state.budget -= value.size
            state.types[name] = helper.make_tensor_type_proto(state.types[name].tensor_type.elem_type, value.shape)
    else:
        state.recipes.append(node)


def _check_size(state: Walk, at: str, name: str, kind: TypeProto) -> None:
    """No tensor has a negative dim, too many axes or more elements than any memory holds."""
    dims = kind.tensor_type.shape.dim
    if len(dims) > MAX_RANK:
        raise wrong(state.path, at, f"at most {MAX_RANK} axes a tensor", f"{len(dims)} in {name!r}")
    if any(dim.dim_value < 0 for dim in dims):
        remedy = "Bind larger shapes, or repair the op: its window, slice or split takes more than there is."
        raise wrong(state.path, at, "dims from 0", f"{_said(kind)} for {name!r}", remedy)
    elements = prod(dims_of(kind) or ())
    if elements > MAX_ELEMENTS:
        found = f"{elements:,} elements in {name!r}"
        raise wrong(state.path, at, f"at most {MAX_ELEMENTS:,} elements a tensor", found)


def _infer(state: Walk, node: NodeProto) -> dict[str, TypeProto]:
    """Types of the outputs, by ONNX's own rule for this op at this opset."""
    named = tuple(filter(None, node.output))
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = max((entry.version for entry in state.opsets if entry.domain in (domain, node.domain)), default=1)
    if not onnx.defs.has(node.op_type, domain) and domain:
        return _declared(state, node, named)
    if not onnx.defs.has(node.op_type, version, domain):
        found = f"none in opset {version} of domain {domain or 'ai.onnx'!r}"
        raise wrong(state.path, node_label(node), "an op that ONNX defines", found)
    if node.op_type in _SAME_SHAPE:
        return dict.fromkeys(named, state.types[node.input[0]])
    constants = {
        name: numpy_helper.from_array(state.values[name], name)
        for name in node.input
        if name in state.values and state.values[name].size <= _SHAPE_ELEMENTS
    }
    try:
        return infer_node_outputs(
            onnx.defs.get_schema(node.op_type, version, domain), node,
            {name: state.types[name] for name in node.input if name}, constants,
            opset_imports=state.opsets, ir_version=state.ir_version,
        )  # fmt: skip
    except (InferenceError, ValidationError, ValueError, RuntimeError) as error:
        shapes = ", ".join(f"{name} {_said(state.types[name])}" for name in node.input if name)
        raise wrong(state.path, node_label(node), "inputs whose shapes agree", f"{error} Inputs: {shapes}.") from error


def _completed(state: Walk, name: str, kind: TypeProto) -> TypeProto:
    """The inferred type, or the declared one where the rule leaves dims open (a shape computed from data)."""
    declared = state.declared.get(name)
    return declared if declared is not None and dims_of(kind) is None and dims_of(declared) is not None else kind


def _declared(state: Walk, node: NodeProto, named: tuple[str, ...]) -> dict[str, TypeProto]:
    """Types of an op that ONNX does not define, as the file declares them."""
    for name in named:
        if name not in state.declared:
            raise wrong(
                state.path, f"{node_label(node)} of domain {node.domain!r}", f"a declared shape of output {name!r}",
                "none, and ONNX has no rule for this op", "Export with value_info for every output of custom ops.",
            )  # fmt: skip
    return {name: state.declared[name] for name in named}


def _folds(state: Walk, node: NodeProto) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in _OF_SHAPE:
        return dims_of(state.types[node.input[0]]) is not None
    legacy = any(attribute.name == "broadcast" for attribute in node.attribute)  # opset < 7 aligned axes otherwise
    return node.op_type in _FOLDABLE and not legacy and all(name in state.known for name in node.input if name)


def _is_small(state: Walk, node: NodeProto) -> bool:
    if node.op_type in _OF_SHAPE:
        return True
    if any(name not in state.values for name in node.input if name):
        return False
    dims = [dims_of(state.types[name]) if name in state.types else None for name in node.output if name]
    sizes = [prod(known) if known is not None else MAX_ELEMENTS for known in dims]
    return max(sizes) <= SMALL_ELEMENTS and sum(sizes) <= state.budget


def evaluate(state: Walk, node: NodeProto, values: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of a folded node, by name. `values` holds its inputs."""
    if node.op_type in _OF_SHAPE:
        return {node.output[0]: _shape_value(state, node)}
    names = list(dict.fromkeys(filter(None, node.input)))
    graph = helper.make_graph(
        [node], "fold",
        [helper.make_value_info(name, state.types[name]) for name in names],
        [helper.make_value_info(name, state.types[name]) for name in node.output if name],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=state.opsets, ir_version=state.ir_version)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, {name: values[name] for name in names})
    except _EVALUATION_ERRORS as error:
        found = f"{type(error).__name__}: {error}"
        raise wrong(state.path, node_label(node), "a constant that can be computed", found) from error
    return {name: np.asarray(value) for name, value in zip(filter(None, node.output), results, strict=True)}


def _shape_value(state: Walk, node: NodeProto) -> Array:
    dims = dims_of(state.types[node.input[0]])
    assert dims is not None  # _folds asked
    if node.op_type == "Size":
        return np.array(prod(dims), dtype=np.int64)
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(dims[bounds.get("start", 0) : bounds.get("end", len(dims))], dtype=np.int64)


def dims_of(kind: TypeProto) -> tuple[int, ...] | None:
    """The dims of a tensor type where all are known, else None."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None


def _said(kind: TypeProto) -> str:
    dims = (
        dim.dim_param or (str(dim.dim_value) if dim.HasField("dim_value") else "?")
        for dim in kind.tensor_type.shape.dim
    )
    return f"[{', '.join(dims)}]"


def weights_of(state: Walk, names: frozenset[str], limit_bytes: int) -> dict[str, Array]:
    """Values of tensors known before the run. The sizes are added up before anything is allocated."""
    closure = set(names)
    for node in reversed(state.recipes):
        if closure.intersection(node.output):
            closure.update(filter(None, node.input))
    total = sum(_bytes_at_most(state, name) for name in closure)
    if total > limit_bytes:
        raise wrong(
            state.path, "weights", f"at most {limit_bytes:,} bytes in memory", f"{total:,} bytes",
            "Use a smaller model, or declare smaller quality shapes, for the numeric check.",
        )  # fmt: skip
    values = {name: state.values[name] for name in closure if name in state.values}
    for name in closure:
        if name in state.stored and name not in values:
            values[name] = read_tensor(state.path, state.stored[name])
    for node in state.recipes:
        if closure.intersection(node.output):
            values.update(evaluate(state, node, values))
    return {name: values[name] for name in sorted(names)}


def _bytes_at_most(state: Walk, name: str) -> int:
    dims = dims_of(state.types[name])
    if dims is None:
        raise wrong(state.path, f"weight {name!r}", "a known shape", "one that hangs on an unbound dim")
    element = ELEMENT_TYPES.get(state.types[name].tensor_type.elem_type, "float64")
    return ceil(prod(dims) * ELEMENT_BYTES[element])

"""Element-wise ops: operands broadcast to the output, and so many flops an output element.

The counts are a convention, not a measurement: 1 for what one instruction does; TRANSCENDENTAL for what takes range
reduction and a short polynomial (exp, log, tanh, erf, a root, a general power).
"""

from __future__ import annotations

from collections.abc import Mapping

from accelmodel.graph import Graph, Op
from accelmodel.lower_forms import (
    WHOLE,
    Form,
    NoRule,
    along,
    broadcast,
    elements,
    identity,
    present,
    shape_of,
    space,
    whole_number,
)
from accelmodel.plan import Access, Dim

TRANSCENDENTAL = 8

# op type -> flops an output element
FLOPS: Mapping[str, int] = {
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Relu", "Reciprocal", "Floor", "Ceil", "Round", "Sign", "Not",
         "And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Where", "Cast", "CastLike",
         "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "IsNaN", "IsInf", "ThresholdedRelu"), 1
    ),
    **dict.fromkeys(("LeakyRelu", "PRelu", "Clip", "Shrink", "DequantizeLinear"), 2),  # compare and multiply, and so on
    "HardSigmoid": 4,  # multiply, add, two bounds
    "HardSwish": 5,  # the same and one product
    "QuantizeLinear": 5,  # divide, round, add, two bounds
    **dict.fromkeys(
        ("Exp", "Log", "Sqrt", "Pow", "Tanh", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
         "Asinh", "Acosh", "Atanh"), TRANSCENDENTAL
    ),
    "Sigmoid": TRANSCENDENTAL + 2,  # negate is free; exp, add, divide
    "Softsign": 3,
    "Elu": TRANSCENDENTAL + 3,
    "Selu": TRANSCENDENTAL + 4,
    "Celu": TRANSCENDENTAL + 4,
    "Softplus": 2 * TRANSCENDENTAL + 1,
    "Swish": TRANSCENDENTAL + 3,
    "Mish": 3 * TRANSCENDENTAL + 2,
    "Gelu": TRANSCENDENTAL + 4,  # scale, erf or tanh, add, two products
}  # fmt: skip

VARIADIC = ("Sum", "Max", "Min", "Mean")


def elementwise(graph: Graph, op: Op) -> Form | NoRule:
    """Operands aligned with the last axes of the output (or, in opsets before 7, with those from `axis` on)."""
    shape = shape_of(graph, op.outputs[0])
    dims = space(shape)
    operands = [name for name in op.inputs if name]
    reads = tuple(broadcast(graph, name, dims, _legacy_start(graph, op, name)) for name in operands)
    each = FLOPS[op.op_type]
    return Form("elementwise", dims, reads, (identity(op.outputs[0], dims),), each * elements(shape))


def _legacy_start(graph: Graph, op: Op, name: str) -> int | None:
    legacy = name != op.inputs[0] and whole_number(op, "broadcast", 0) and op.attribute("axis") is not None
    return whole_number(op, "axis", 0) % max(1, len(shape_of(graph, op.inputs[0]))) if legacy else None


def variadic(graph: Graph, op: Op) -> Form | NoRule:
    """Sum, Max, Min and Mean of any number of operands: one flop for each after the first, one more for the mean."""
    shape = shape_of(graph, op.outputs[0])
    dims = space(shape)
    reads = tuple(broadcast(graph, name, dims) for name in op.inputs)
    each = len(reads) - 1 + (op.op_type == "Mean")
    return Form("elementwise", dims, reads, (identity(op.outputs[0], dims),), each * elements(shape))


def clip(graph: Graph, op: Op) -> Form | NoRule:
    """Bounds are scalars, attributes before opset 11; each that is there costs one flop."""
    shape = shape_of(graph, op.outputs[0])
    dims = space(shape)
    bounds = [name for name in op.inputs[1:] if name]
    count = len(bounds) + sum(op.attribute(key) is not None for key in ("min", "max"))
    reads = (identity(op.inputs[0], dims), *(broadcast(graph, name, dims) for name in bounds))
    return Form("elementwise", dims, reads, (identity(op.outputs[0], dims),), count * elements(shape))


def batch_normalization(graph: Graph, op: Op) -> Form | NoRule:
    """At inference a product and a sum for each element: scale and shift of a channel are made once."""
    if whole_number(op, "training_mode", 0):
        return NoRule("BatchNormalization in training mode computes statistics of the batch")
    if not whole_number(op, "spatial", 1):
        return NoRule("BatchNormalization with statistics for every position (spatial = 0)")
    shape = shape_of(graph, op.outputs[0])
    dims = space(shape)
    channel = dims[1].name if len(dims) > 1 else dims[0].name
    reads = (identity(op.inputs[0], dims), *(Access(name, (along(channel),)) for name in op.inputs[1:]))
    return Form("elementwise", dims, reads, (identity(op.outputs[0], dims),), 2 * elements(shape))


def quantize(graph: Graph, op: Op) -> Form | NoRule:
    """QuantizeLinear and DequantizeLinear: scale and zero point for the tensor, for each index of `axis`, or (opset
    21) for blocks, whose axis is read whole."""
    shape = shape_of(graph, op.outputs[0])
    dims = space(shape)
    axis = whole_number(op, "axis", 1) % max(1, len(shape))
    scales = (_scale_access(graph, name, dims, axis) for name in (present(op.inputs, 1), present(op.inputs, 2)) if name)
    reads = (identity(op.inputs[0], dims), *scales)
    flops = FLOPS[op.op_type] * elements(shape)
    return Form("elementwise", dims, reads, (identity(op.outputs[0], dims),), flops)


def _scale_access(graph: Graph, name: str, dims: tuple[Dim, ...], axis: int) -> Access:
    shape = shape_of(graph, name)
    if len(shape) < 2:
        return broadcast(graph, name, dims, axis if shape and len(dims) > 1 else None)
    axes = (along(dim.name) if size == dim.size else WHOLE for size, dim in zip(shape, dims, strict=True))
    return Access(name, tuple(axes))

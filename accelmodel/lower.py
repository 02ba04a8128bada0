"""Lowering: every op gets an iteration space, access maps, flops, an engine, a precision and a kernel.

Conventions that later stages rest on:
- `Lowered.ops[i]` lowers `graph.ops[i]`. What no kernel covers is a `fallback` op with its reason.
- A read or write has one AxisMap for each axis of its tensor, in order. Only the read of a view has none: its regions
  follow from the two shapes, in row-major order.
- An axis of the output that is indexed by a reduction dim (softmax, layer normalisation) is made whole by each tile.
- Indices may run past the tensor (padding, the other operands of a concatenation): regions are clipped to it.
- Strides may be negative (a reversed slice); an output axis of two terms is mixed radix, larger stride first.
- Parameters (axes, shapes, pads, repeats) belong to the kernel: they are not read.
- Contractions run on the matrix engine or, where it lacks the precision, on the vector engine; movement on data; the
  rest on vector. Where an engine lacks a precision it works in the next wider one that it has, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from accelmodel.errors import InputError
from accelmodel.graph import ELEMENT_BYTES, Graph, Op
from accelmodel.lower_checks import check_operands
from accelmodel.lower_contraction import conv, gemm, matmul
from accelmodel.lower_elementwise import (
    FLOPS,
    VARIADIC,
    batch_normalization,
    clip,
    elementwise,
    quantize,
    variadic,
)
from accelmodel.lower_forms import Form, NoRule, Rule, elements, identity, read_whole, shape_of, space, view
from accelmodel.lower_movement import (
    concat,
    depth_to_space,
    dropout,
    expand,
    gather,
    gather_elements,
    pad,
    rename,
    resize,
    slice_,
    space_to_depth,
    split,
    tile,
    transpose,
)
from accelmodel.lower_reduction import (
    REDUCTIONS,
    arg_reduce,
    global_pool,
    group_normalization,
    instance_normalization,
    layer_normalization,
    local_response,
    mean_variance,
    pool,
    reduce_axes,
    softmax,
)
from accelmodel.plan import Lowered, LoweredOp
from accelmodel.settings import LoweringSettings
from accelmodel.target import Target

FLOATS = ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32", "float64")
_INTEGERS = ("int8", "int16", "int32", "int64")

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(FLOPS, elementwise),
    **dict.fromkeys(VARIADIC, variadic),
    **dict.fromkeys(REDUCTIONS, reduce_axes),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"), rename),
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), layer_normalization),
    **dict.fromkeys(("MaxPool", "AveragePool"), pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), global_pool),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_reduce),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantize),
    **dict.fromkeys(("Resize", "Upsample"), resize),
    "BatchNormalization": batch_normalization,
    "Clip": clip,
    "Concat": concat,
    "Conv": conv,
    "DepthToSpace": depth_to_space,
    "Dropout": dropout,
    "Expand": expand,
    "Gather": gather,
    "GatherElements": gather_elements,
    "Gemm": gemm,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": local_response,
    "MatMul": matmul,
    "MeanVarianceNormalization": mean_variance,
    "Pad": pad,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Tile": tile,
    "Transpose": transpose,
}


def lower(graph: Graph, settings: LoweringSettings, target: Target) -> Lowered:
    """Lower every op of the graph for the target, at the side's precision."""
    _check_settings(settings, target)
    stored = {name: _stored(tensor.dtype, settings.precision) for name, tensor in graph.tensors.items()}
    ops = tuple(_lower_op(graph, op, settings, target, stored) for op in graph.ops)
    storage: dict[str, str] = {name: name for name in graph.tensors}
    for op in ops:
        if op.kind == "view" and op.reads:
            storage[op.writes[0].tensor] = storage[op.reads[0].tensor]
    return Lowered(graph, ops, {name: ELEMENT_BYTES[dtype] for name, dtype in stored.items()}, storage)


def _check_settings(settings: LoweringSettings, target: Target) -> None:
    available = tuple(dict.fromkeys(p for e in ("matrix", "vector") for p in target.engines[e].flops_per_ns))
    floats = [p for p in available if p in FLOATS]
    if settings.precision != "model" and settings.precision not in floats:
        raise InputError(
            stage="lowering", where=f"settings.lowering.precision on target {target.name!r}",
            expected=f"model, or a floating-point type that the target works in ({', '.join(floats)})",
            found=repr(settings.precision),
            remedy="Choose one of these; for integers quantise the model (QuantizeLinear and DequantizeLinear).",
        )  # fmt: skip
    if settings.accumulator not in FLOATS:
        raise InputError(
            stage="lowering", where="settings.lowering.accumulator", expected=f"one of {', '.join(FLOATS)}",
            found=repr(settings.accumulator), remedy="Choose a floating-point type; integers accumulate in int32.",
        )  # fmt: skip


def _stored(dtype: str, precision: str) -> str:
    """Element type in memory: floating-point tensors take the side's precision, others keep their own."""
    return dtype if precision == "model" or dtype not in FLOATS else precision


def _lower_op(graph: Graph, op: Op, settings: LoweringSettings, target: Target, stored: Mapping[str, str]) -> LoweredOp:
    form, reason = _form(graph, op, settings, stored)
    precision = _precision(form, stored)
    if form.kind == "view":
        return _finish(op, form, "data", precision, precision)
    chosen = _choose_engine(form.kind, precision, target) if reason is None else NoRule(reason)
    if isinstance(chosen, NoRule):
        return replace(
            _finish(op, form, "host", precision, precision),
            kind="fallback", kernel="", launches=0, fallback_reason=chosen.reason,
        )  # fmt: skip
    engine, worked, notes = chosen
    accumulator = _accumulator(form.kind, worked, settings.accumulator)
    return _finish(op, replace(form, notes=(*form.notes, *notes)), engine, worked, accumulator)


def _form(graph: Graph, op: Op, settings: LoweringSettings, stored: Mapping[str, str]) -> tuple[Form, str | None]:
    """The op's form, and why it must fall back where it must: then the form serves to price it on the host."""
    check_operands(graph, op)
    if all(not elements(shape_of(graph, name)) for name in op.outputs if name):
        return replace(view(graph, op, "no elements"), reads=()), None
    ours = op.domain == "" and op.op_type in RULES
    form = RULES[op.op_type](graph, op) if ours else NoRule(f"no lowering rule for {_qualified(op)}")
    if op.op_type in settings.no_kernel:
        reason = f"this side has no kernel for {op.op_type} (settings.lowering.no_kernel)"
        return (form if isinstance(form, Form) else _opaque(graph, op)), reason
    if isinstance(form, NoRule):
        return _opaque(graph, op), form.reason
    if form.kind != "view" and any(dim.size == 0 for dim in form.dims):
        return form, "it combines an axis of no elements"
    if op.op_type in ("Cast", "CastLike") and stored[op.inputs[0]] == stored[op.outputs[0]]:
        return view(graph, op, f"stored as {stored[op.inputs[0]]} on both sides"), None
    return form, None


def _opaque(graph: Graph, op: Op) -> Form:
    """An op of which only the tensors are known: it reads and writes them whole; one flop an output element."""
    made = [name for name in op.outputs if name]
    dims = space(shape_of(graph, made[0]))
    reads = tuple(read_whole(graph, name) for name in dict.fromkeys(op.inputs) if name)
    writes = (identity(made[0], dims), *(read_whole(graph, name) for name in made[1:]))
    flops = sum(elements(shape_of(graph, name)) for name in made)
    return Form("fallback", dims, reads, writes, flops, ("flops unknown: one an output element is assumed",))


def _precision(form: Form, stored: Mapping[str, str]) -> str:
    """The type the op works in: of its first floating-point operand or result; else of its first operand that is not
    bool (a condition); else bool."""
    types = [stored[access.tensor] for access in (*form.reads, *form.writes)]
    floats = [dtype for dtype in types if dtype in FLOATS]
    return next(iter((*floats, *(dtype for dtype in types if dtype != "bool"), "bool")))


def _choose_engine(kind: str, precision: str, target: Target) -> tuple[str, str, tuple[str, ...]] | NoRule:
    """Engine, the precision it works in, and notes."""
    if kind == "movement":
        return "data", precision, ()
    rates = {name: target.engines[name].flops_per_ns for name in ("matrix", "vector")}
    if kind == "contraction" and precision in rates["matrix"]:
        return "matrix", precision, ()
    notes = (f"on the vector engine: the matrix engine has no {precision}",) if kind == "contraction" else ()
    if precision in rates["vector"]:
        return "vector", precision, notes
    wider = next((dtype for dtype in _wider(precision) if dtype in rates["vector"]), None)
    if wider is None:
        return NoRule(f"no engine of {target.name} works in {precision} or a wider type")
    return "vector", wider, (*notes, f"{precision} is worked in {wider}: the vector engine has no {precision}")


def _wider(precision: str) -> tuple[str, ...]:
    """Types that hold every value of this one, narrowest first; integers may also be worked in float32."""
    if precision in FLOATS:
        own = ELEMENT_BYTES[precision]
        return tuple(dtype for dtype in FLOATS if ELEMENT_BYTES[dtype] > own)
    own = ELEMENT_BYTES[precision] * (2 if precision.startswith("uint") else 1)
    exact = tuple(dtype for dtype in _INTEGERS if ELEMENT_BYTES[dtype] >= own)
    return (*exact, "float32", "int32")  # 64-bit integers on a machine without them: two 32-bit steps, charged as one


def _accumulator(kind: str, precision: str, chosen: str) -> str:
    """Contractions and reductions accumulate in the side's type, never narrower than they work in; integers in int32
    or wider. Other ops have no accumulator but their own type."""
    if kind not in ("contraction", "reduction"):
        return precision
    if precision not in FLOATS:
        return precision if ELEMENT_BYTES[precision] > ELEMENT_BYTES["int32"] else "int32"
    return precision if ELEMENT_BYTES[precision] > ELEMENT_BYTES[chosen] else chosen


def _finish(op: Op, form: Form, engine: str, precision: str, accumulator: str) -> LoweredOp:
    launches = 0 if form.kind == "view" else 1
    return LoweredOp(
        name=op.name, op_type=op.op_type, kind=form.kind, engine=engine, dims=form.dims, reads=form.reads,
        writes=form.writes, flops=form.flops, precision=precision, accumulator=accumulator,
        kernel=f"{op.op_type.lower()}_{precision}" if launches else "", launches=launches, notes=form.notes,
    )  # fmt: skip


def _qualified(op: Op) -> str:
    return f"{op.domain}.{op.op_type}" if op.domain else op.op_type

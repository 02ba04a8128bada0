"""Ops that combine elements along axes: reductions, softmax, normalisations, pools and windows.

Where such an op keeps the full axis (softmax, layer normalisation), the axis of its output is indexed by the reduction
dim itself: a tile makes that axis whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accelmodel.graph import Graph, Op
from accelmodel.lower_contraction import Window
from accelmodel.lower_elementwise import TRANSCENDENTAL
from accelmodel.lower_forms import (
    SINGLE,
    Form,
    NoRule,
    along,
    broadcast,
    elements,
    identity,
    known,
    parallel,
    reduction,
    shape_of,
    space,
    view,
    whole_number,
    whole_numbers,
)
from accelmodel.plan import Access, AxisMap, Dim

# op type -> flops an input element, flops an output element
REDUCTIONS: Mapping[str, tuple[int, int]] = {
    "ReduceSum": (1, 0),
    "ReduceMean": (1, 1),
    "ReduceMax": (1, 0),
    "ReduceMin": (1, 0),
    "ReduceProd": (1, 0),
    "ReduceL1": (2, 0),
    "ReduceL2": (2, TRANSCENDENTAL),
    "ReduceSumSquare": (2, 0),
    "ReduceLogSum": (1, TRANSCENDENTAL),
    "ReduceLogSumExp": (TRANSCENDENTAL + 3, TRANSCENDENTAL + 1),
}

# flops an element: maximum, subtract, exp, sum, divide; the logarithm takes one more subtraction instead of a division
_SOFTMAX_FLOPS = TRANSCENDENTAL + 4
# flops an element: mean 1, subtract 1, squares 2, times 1 / deviation 1; scale and bias are 1 each
_NORM_FLOPS = 5


def reduce_axes(graph: Graph, op: Op) -> Form | NoRule:
    """Reduce*: axes by attribute or, in newer opsets, by input; none means all."""
    shape = shape_of(graph, op.inputs[0])
    axes = known(graph, op, 1, "axes")
    if isinstance(axes, NoRule):
        return axes
    if not axes and whole_number(op, "noop_with_empty_axes", 0):
        return view(graph, op, "no axes: nothing is reduced")
    per_input, per_output = REDUCTIONS[op.op_type]
    return _reduced(graph, op, axes or range(len(shape)), per_input, per_output)


def arg_reduce(graph: Graph, op: Op) -> Form | NoRule:
    """ArgMax and ArgMin: one comparison an element."""
    return _reduced(graph, op, (whole_number(op, "axis", 0),), 1, 0)


def _reduced(graph: Graph, op: Op, axes: Iterable[int], per_input: int, per_output: int) -> Form:
    shape = shape_of(graph, op.inputs[0])
    reduced = frozenset(axis % len(shape) for axis in axes) if shape else frozenset()
    dims = space(shape, reduced)
    kept = [SINGLE if i in reduced else along(dim.name) for i, dim in enumerate(dims)]
    if not whole_number(op, "keepdims", 1):
        kept = [axis for i, axis in enumerate(kept) if i not in reduced]
    flops = per_input * elements(shape) + per_output * elements(shape_of(graph, op.outputs[0]))
    return Form("reduction", dims, (identity(op.inputs[0], dims),), (Access(op.outputs[0], tuple(kept)),), flops)


def softmax(graph: Graph, op: Op) -> Form | NoRule:
    """Softmax and LogSoftmax over one axis; before opset 13 over all axes from `axis` on, taken as one."""
    shape = shape_of(graph, op.inputs[0])
    old = graph.opset < 13
    axis = whole_number(op, "axis", 1 if old else -1)
    axis += len(shape) if axis < 0 else 0
    dims = space(shape, range(axis, len(shape)) if old else (axis,))
    flops = _SOFTMAX_FLOPS * elements(shape)
    return Form("reduction", dims, (identity(op.inputs[0], dims),), (identity(op.outputs[0], dims),), flops)


def layer_normalization(graph: Graph, op: Op) -> Form | NoRule:
    """LayerNormalization and RMSNormalization over the axes from `axis` on; the statistics may be outputs too."""
    shape = shape_of(graph, op.inputs[0])
    axis = whole_number(op, "axis", -1) % len(shape)
    dims = space(shape, range(axis, len(shape)))
    factors = [name for name in op.inputs[1:] if name]
    reads = (identity(op.inputs[0], dims), *(broadcast(graph, name, dims) for name in factors))
    statistics = (*(along(dim.name) for dim in dims[:axis]), *(SINGLE for _ in dims[axis:]))
    writes = (identity(op.outputs[0], dims), *(Access(name, statistics) for name in op.outputs[1:] if name))
    each = (3 if op.op_type == "RMSNormalization" else _NORM_FLOPS) + len(factors)
    return Form("reduction", dims, reads, writes, each * elements(shape))


def instance_normalization(graph: Graph, op: Op) -> Form | NoRule:
    """[n, c, ...] normalised over all axes after the channel."""
    shape = shape_of(graph, op.inputs[0])
    dims = space(shape, range(2, len(shape)))
    reads = (identity(op.inputs[0], dims), *(Access(name, (along("d1"),)) for name in op.inputs[1:]))
    return Form("reduction", dims, reads, (identity(op.outputs[0], dims),), (_NORM_FLOPS + 2) * elements(shape))


def group_normalization(graph: Graph, op: Op) -> Form | NoRule:
    """[n, g x c, ...] normalised over the channels of a group and all later axes; factors by channel or by group."""
    shape, groups = shape_of(graph, op.inputs[0]), whole_number(op, "num_groups", 1)
    size = shape[1] // groups
    later = tuple(reduction(f"d{i}", shape[i]) for i in range(2, len(shape)))
    dims = (parallel("n", shape[0]), parallel("g", groups), reduction("c", size), *later)
    channel = AxisMap((("g", size), ("c", 1)))
    axes = (along("n"), channel, *(along(dim.name) for dim in later))
    factors = (
        Access(name, (channel if shape_of(graph, name)[0] == shape[1] else along("g"),)) for name in op.inputs[1:]
    )
    reads = (Access(op.inputs[0], axes), *factors)
    return Form("reduction", dims, reads, (Access(op.outputs[0], axes),), (_NORM_FLOPS + 2) * elements(shape))


def pool(graph: Graph, op: Op) -> Form | NoRule:
    """MaxPool and AveragePool: one flop an element of each window, one more an output for the mean."""
    image, result = shape_of(graph, op.inputs[0]), shape_of(graph, op.outputs[0])
    kernel = whole_numbers(op.attribute("kernel_shape") or ())
    window = Window.of(op, image[2:], result[2:], kernel)
    outer = (parallel("n", image[0]), parallel("c", image[1]))
    dims = (*outer, *_spatial(result[2:]), *(reduction(f"k{i}", size) for i, size in enumerate(kernel)))
    axes = (along("n"), along("c"), *(along(f"o{i}") for i in range(len(kernel))))
    read = Access(op.inputs[0], (along("n"), along("c"), *window.axes()))
    writes = tuple(Access(name, axes) for name in op.outputs if name)
    each = elements(kernel) + (op.op_type == "AveragePool")
    return Form("reduction", dims, (read,), writes, each * elements(result))


def _spatial(shape: Iterable[int]) -> tuple[Dim, ...]:
    return tuple(parallel(f"o{i}", size) for i, size in enumerate(shape))


def global_pool(graph: Graph, op: Op) -> Form | NoRule:
    """[n, c, ...] -> [n, c, 1, ...]: one flop an element, one more an output for the mean."""
    shape = shape_of(graph, op.inputs[0])
    dims = space(shape, range(2, len(shape)))
    write = Access(op.outputs[0], (along("d0"), along("d1"), *(SINGLE for _ in shape[2:])))
    flops = elements(shape) + (elements(shape[:2]) if op.op_type == "GlobalAveragePool" else 0)
    return Form("reduction", dims, (identity(op.inputs[0], dims),), (write,), flops)


def local_response(graph: Graph, op: Op) -> Form | NoRule:
    """LRN: x / (bias + alpha / size x sum of squares over `size` channels) ^ beta."""
    shape, size = shape_of(graph, op.inputs[0]), whole_number(op, "size", 1)
    dims = (*space(shape), reduction("w", size))
    front = (size - 1) // 2
    channels = AxisMap((("d1", 1), ("w", 1)), -front)
    axes = tuple(channels if i == 1 else along(f"d{i}") for i in range(len(shape)))
    each = 2 * size + TRANSCENDENTAL + 3
    write = identity(op.outputs[0], dims[:-1])
    return Form("reduction", dims, (Access(op.inputs[0], axes),), (write,), each * elements(shape))


def mean_variance(graph: Graph, op: Op) -> Form | NoRule:
    """MeanVarianceNormalization over `axes`, by default batch and space, without factors."""
    shape = shape_of(graph, op.inputs[0])
    axes = whole_numbers(op.attribute("axes") or (0, 2, 3))
    dims = space(shape, (axis % len(shape) for axis in axes))
    flops = _NORM_FLOPS * elements(shape)
    return Form("reduction", dims, (identity(op.inputs[0], dims),), (identity(op.outputs[0], dims),), flops)

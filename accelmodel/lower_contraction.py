"""Convolutions and matrix products. Flops are 2 x multiply-accumulates; a bias rides in the accumulator for nothing."""

from __future__ import annotations

from math import prod

from accelmodel.graph import Graph, Op
from accelmodel.lower_forms import (
    SINGLE,
    Form,
    NoRule,
    along,
    parallel,
    present,
    reduction,
    shape_of,
    whole_number,
    whole_numbers,
)
from accelmodel.plan import Access, AxisMap, Dim


def matmul(graph: Graph, op: Op) -> Form | NoRule:
    """[..., m, k] @ [..., k, n] -> [..., m, n], batch axes broadcast; vectors have no m, or no n."""
    left, right = shape_of(graph, op.inputs[0]), shape_of(graph, op.inputs[1])
    result = shape_of(graph, op.outputs[0])
    rows, columns = len(left) > 1, len(right) > 1
    batch = [parallel(f"b{i}", size) for i, size in enumerate(result[: len(result) - rows - columns])]
    m = [parallel("m", left[-2])] if rows else []
    n = [parallel("n", right[-1])] if columns else []
    dims = (*batch, *m, *n, reduction("k", left[-1]))
    inner = [along(dim.name) for dim in (*m, *n)]
    reads = (
        Access(op.inputs[0], (*_batch_axes(left[:-2], batch), *(along(dim.name) for dim in m), along("k"))),
        Access(op.inputs[1], (*_batch_axes(right[:-2], batch), along("k"), *(along(dim.name) for dim in n))),
    )
    write = Access(op.outputs[0], (*(along(dim.name) for dim in batch), *inner))
    return Form("contraction", dims, reads, (write,), _macs(dims) * 2)


def _batch_axes(shape: tuple[int, ...], batch: list[Dim]) -> tuple[AxisMap, ...]:
    under = batch[len(batch) - len(shape) :]
    return tuple(along(dim.name) if size == dim.size else SINGLE for size, dim in zip(shape, under, strict=True))


def gemm(graph: Graph, op: Op) -> Form | NoRule:
    """alpha A' B' + beta C, where A' and B' may be transposed and C broadcasts to [m, n]."""
    left, right = shape_of(graph, op.inputs[0]), shape_of(graph, op.inputs[1])
    flip_left, flip_right = whole_number(op, "transA", 0), whole_number(op, "transB", 0)
    m, k = (left[1], left[0]) if flip_left else (left[0], left[1])
    n = right[0] if flip_right else right[1]
    dims = (parallel("m", m), parallel("n", n), reduction("k", k))
    reads = [
        Access(op.inputs[0], (along("k"), along("m")) if flip_left else (along("m"), along("k"))),
        Access(op.inputs[1], (along("n"), along("k")) if flip_right else (along("k"), along("n"))),
    ]
    bias = present(op.inputs, 2)
    if bias:
        reads.append(Access(bias, _batch_axes(shape_of(graph, bias), [dims[0], dims[1]])))
    write = Access(op.outputs[0], (along("m"), along("n")))
    return Form("contraction", dims, tuple(reads), (write,), _macs(dims) * 2)


def conv(graph: Graph, op: Op) -> Form | NoRule:
    """[n, c, i...] * [o, c / groups, k...] -> [n, o, o...]. Dims: n, g (groups), oc and ic (channels of one group),
    o0, o1 ... over the output map, k0, k1 ... over the kernel. A depthwise one has g alone, without oc and ic."""
    image, weight = shape_of(graph, op.inputs[0]), shape_of(graph, op.inputs[1])
    result = shape_of(graph, op.outputs[0])
    if len(image) < 3:
        return NoRule(f"convolution over {len(image) - 2} spatial axes")
    groups, rank = whole_number(op, "group", 1), len(image) - 2
    channels_in, channels_out = weight[1], weight[0] // groups
    window = Window.of(op, image[2:], result[2:], weight[2:])
    dims = (
        parallel("n", image[0]),
        *([parallel("g", groups)] if groups > 1 else []),
        *([parallel("oc", channels_out)] if groups == 1 or channels_out > 1 else []),
        *(parallel(f"o{i}", result[2 + i]) for i in range(rank)),
        *([reduction("ic", channels_in)] if groups == 1 or channels_in > 1 else []),
        *(reduction(f"k{i}", weight[2 + i]) for i in range(rank)),
    )
    names = frozenset(dim.name for dim in dims)
    inputs = _channels(names, "ic", channels_in)
    outputs = _channels(names, "oc", channels_out)
    within = along("ic") if "ic" in names else SINGLE
    reads = [
        Access(op.inputs[0], (along("n"), inputs, *window.axes())),
        Access(op.inputs[1], (outputs, within, *(along(f"k{i}") for i in range(rank)))),
    ]
    bias = present(op.inputs, 2)
    if bias:
        reads.append(Access(bias, (outputs,)))
    write = Access(op.outputs[0], (along("n"), outputs, *(along(f"o{i}") for i in range(rank))))
    return Form("contraction", dims, tuple(reads), (write,), _macs(dims) * 2)


def _channels(names: frozenset[str], inner: str, size: int) -> AxisMap:
    """Index of a channel: group x size + channel of the group, as far as these dims exist."""
    group = (("g", size),) if "g" in names else ()
    return AxisMap((*group, *(((inner, 1),) if inner in names else ())))


class Window:
    """Sliding windows: input index = stride x o + dilation x k - padding at the front, on each spatial axis."""

    def __init__(self, strides: tuple[int, ...], dilations: tuple[int, ...], fronts: tuple[int, ...]) -> None:
        self.strides, self.dilations, self.fronts = strides, dilations, fronts

    @classmethod
    def of(cls, op: Op, image: tuple[int, ...], result: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
        """From the attributes of Conv and the pools; `auto_pad` puts an odd element at the end (UPPER) or front."""
        ones = (1,) * len(kernel)
        strides = whole_numbers(op.attribute("strides") or ones)
        dilations = whole_numbers(op.attribute("dilations") or ones)
        mode = op.attribute("auto_pad", "NOTSET")
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            spans = ((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
            totals = [
                max(0, (o - 1) * s + span - i) for o, s, span, i in zip(result, strides, spans, image, strict=True)
            ]
            fronts = tuple(total // 2 if mode == "SAME_UPPER" else total - total // 2 for total in totals)
        elif mode == "VALID":
            fronts = (0,) * len(kernel)
        else:
            fronts = whole_numbers(op.attribute("pads") or (0,) * 2 * len(kernel))[: len(kernel)]
        return cls(strides, dilations, fronts)

    def axes(self) -> tuple[AxisMap, ...]:
        columns = zip(self.strides, self.dilations, self.fronts, strict=True)
        return tuple(AxisMap(((f"o{i}", s), (f"k{i}", d)), -front) for i, (s, d, front) in enumerate(columns))


def _macs(dims: tuple[Dim, ...]) -> int:
    return prod(dim.size for dim in dims)

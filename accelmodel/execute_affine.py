"""Regions and views of tensors under affine access maps, for one tile with integer bounds.

A box is the part of an op's iteration space that a tile works on: one half-open range a dim, in the order of the op's
dims. A region is the part of a tensor: one half-open range an axis. Both may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from accelmodel.graph import Graph
from accelmodel.plan import Access, LoweredOp

Array = npt.NDArray[Any]
Range = tuple[int, int]
Box = tuple[Range, ...]
Region = tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a tensor: terms (number of the dim, stride), offset, size. whole: any index may be touched."""

    terms: tuple[tuple[int, int], ...]
    offset: int
    whole: bool
    size: int

    def span(self, box: Box) -> Range:
        """Indices that the box touches, from the lowest to one past the highest; they may lie outside the tensor."""
        if self.whole:
            return (0, self.size)
        low = high = self.offset
        for dim, stride in self.terms:
            begin, end = box[dim]
            low += stride * begin if stride > 0 else stride * (end - 1)
            high += stride * (end - 1) if stride > 0 else stride * begin
        return (low, high + 1)


@dataclass(frozen=True, slots=True)
class Plain:
    """The common access, which slices and transposes: each axis is indexed by one dim, or by none at index 0.

    dims: dim of each axis, -1 for none. offsets: added to it. order: permutation that sorts the axes with a dim by it;
    None where they are sorted. spread: index that puts an axis of size 1 where a dim has none; None where all have.
    """

    dims: tuple[int, ...]
    offsets: tuple[int, ...]
    order: tuple[int, ...] | None
    spread: tuple[slice | None, ...] | None


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor with its axes in terms of an op's dims. `axes` is None for the read of a view; `plain` where the access
    is not of the common kind."""

    tensor: str
    shape: tuple[int, ...]
    axes: tuple[Axis, ...] | None
    plain: Plain | None = None


def operand(access: Access, op: LoweredOp, graph: Graph) -> Operand:
    """An access of `op`, its dims numbered in the op's order."""
    shape = graph.tensors[access.tensor].shape
    if access.axes is None:
        return Operand(access.tensor, shape, None)
    number = {dim.name: i for i, dim in enumerate(op.dims)}
    axes = tuple(
        Axis(tuple((number[name], stride) for name, stride in axis.terms), axis.offset, axis.whole, size)
        for axis, size in zip(access.axes, shape, strict=True)
    )
    return Operand(access.tensor, shape, axes, _plain(axes, len(op.dims)))


def _plain(axes: tuple[Axis, ...], rank: int) -> Plain | None:
    dims = [axis.terms[0][0] if axis.terms else -1 for axis in axes]
    kept = [dim for dim in dims if dim >= 0]
    common = all(
        not axis.whole and (axis.terms[0][1] == 1 and len(axis.terms) == 1 if axis.terms else axis.offset == 0)
        for axis in axes
    )
    if not common or len(set(kept)) < len(kept):
        return None
    order = tuple(kept.index(dim) for dim in sorted(kept))
    spread = tuple(slice(None) if dim in kept else None for dim in range(rank))
    return Plain(
        tuple(dims), tuple(axis.offset for axis in axes), order if kept != sorted(kept) else None,
        spread if len(kept) < rank else None,
    )  # fmt: skip


def whole_region(shape: Sequence[int]) -> Region:
    return tuple((0, size) for size in shape)


def is_empty(region: Region) -> bool:
    return any(low >= high for low, high in region)


def union(first: Region, second: Region) -> Region:
    """The smallest region that holds both."""
    if is_empty(first):
        return second
    if is_empty(second):
        return first
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(first, second, strict=True))


def cut(block: Array, region: Region, wanted: Region) -> Array:
    """The part `wanted` of a block that holds `region`; no copy."""
    bounds = zip(region, wanted, strict=True)
    return block[tuple(slice(low - start, high - start) for (start, _), (low, high) in bounds)]


def needed(read: Operand, box: Box) -> Region:
    """Region of the operand that the box reads, clipped to the tensor; empty where it reads only padding."""
    if read.plain is not None:
        ranges = _plain_ranges(read.plain, box)
        return ranges if _lies_in(ranges, read.shape) else _clipped(ranges, read.shape)
    assert read.axes is not None
    return _clipped([axis.span(box) for axis in read.axes], read.shape)


def _plain_ranges(plain: Plain, box: Box) -> Region:
    return tuple([
        (box[dim][0] + offset, box[dim][1] + offset) if dim >= 0 else (0, 1)
        for dim, offset in zip(plain.dims, plain.offsets, strict=True)
    ])  # fmt: skip


def _lies_in(region: Region, shape: Sequence[int]) -> bool:
    return all(low >= 0 and high <= size for (low, high), size in zip(region, shape, strict=True))


def _clipped(region: Sequence[Range], shape: Sequence[int]) -> Region:
    """The part of a region that lies in a tensor of this shape."""
    return tuple((max(0, low), max(0, low, min(high, size))) for (low, high), size in zip(region, shape, strict=True))


def dims_for(write: Operand, region: Region, sizes: Sequence[int]) -> dict[int, Range]:
    """Ranges of the dims that make at least this region of an output. Dims that it does not tell of are left out."""
    assert write.axes is not None
    ranges: dict[int, Range] = {}
    for axis, (low, high) in zip(write.axes, region, strict=True):
        rest = (low - axis.offset, high - axis.offset - 1)  # first and last index, in what is left of the radix
        full = False
        for dim, stride in axis.terms:
            first, last = rest[0] // stride, rest[1] // stride
            begin, end = (0, sizes[dim]) if full else (max(0, first), min(sizes[dim], last + 1))
            ranges[dim] = (begin, max(begin, end))
            rest = (rest[0] - first * stride, rest[1] - last * stride)
            full = full or last > first  # several of the outer dim: all of the inner ones
    return ranges


def view(block: Array, region: Region, read: Operand, box: Box, fill: float) -> Array:
    """The operand laid out over the dims of the op: one axis a dim, of size 1 where the operand does not vary with it.

    block: values of `region`, which holds all that the box needs. Indices outside the tensor give `fill`. No copy but
    where there is padding. Axes read whole have no such layout and are not allowed here.
    """
    assert read.axes is not None
    spans = [axis.span(box) for axis in read.axes]
    inside = cut(block, region, needed(read, box))
    padded = _pad(inside, spans, read.shape, fill)
    extents, strides, starts = [1] * len(box), [0] * len(box), []
    for axis, (low, _), step in zip(read.axes, spans, padded.strides, strict=True):
        starts.append(axis.offset - low + sum(stride * box[dim][0] for dim, stride in axis.terms))
        for dim, stride in axis.terms:
            extents[dim] = box[dim][1] - box[dim][0]
            strides[dim] += stride * step
    origin = padded[tuple(slice(start, None) for start in starts)]
    return as_strided(origin, extents, strides, writeable=False)


def _pad(inside: Array, spans: Sequence[Range], shape: Sequence[int], fill: float) -> Array:
    """The block with `fill` around it, so that it holds the spans, where these reach outside the tensor."""
    fronts = [min(-low, high - low) if low < 0 else 0 for low, high in spans]
    wanted = tuple(high - low for low, high in spans)
    if inside.shape == wanted:
        return inside
    padded = np.full(wanted, fill, dtype=inside.dtype)
    if inside.size:
        places = zip(fronts, inside.shape, strict=True)
        padded[tuple(slice(front, front + extent) for front, extent in places)] = inside
    return padded


def pieces(value: Array, box: Box, write: Operand) -> Iterator[tuple[Region, Array]]:
    """Where the values of a box go in an output: regions with their blocks, clipped to the tensor.

    value: one axis a dim of the op, of size 1 where it does not vary. One piece, unless an axis of several dims (a
    channel = group x size + channel of the group) is worked on in part: then one for each outer index.
    """
    if write.plain is not None:
        region = _plain_ranges(write.plain, box)
        if _lies_in(region, write.shape):
            yield region, _in_axis_order(value, write.plain, region)
            return
    assert write.axes is not None
    for axis in write.axes:
        for outer, inner in zip(axis.terms, axis.terms[1:], strict=False):
            begin, end = box[outer[0]]
            inner_extent = box[inner[0]][1] - box[inner[0]][0]
            if end - begin > 1 and inner_extent * inner[1] < outer[1]:
                for i in range(begin, end):
                    part = np.take(value, [i - begin], axis=outer[0])
                    yield from pieces(part, (*box[: outer[0]], (i, i + 1), *box[outer[0] + 1 :]), write)
                return
    yield _piece(value, box, write)


def _in_axis_order(value: Array, plain: Plain, region: Region) -> Array:
    """Values over the dims of the op as a block of the output: axes of size 1 dropped, the others in its order."""
    if plain.order is not None:
        kept = [dim for dim in plain.dims if dim >= 0]
        value = value.transpose([*kept, *(dim for dim in range(value.ndim) if dim not in kept)])
    return value.reshape([high - low for low, high in region])


def _piece(value: Array, box: Box, write: Operand) -> tuple[Region, Array]:
    assert write.axes is not None
    order = [dim for axis in write.axes for dim, _ in axis.terms]
    rest = [dim for dim in range(len(box)) if dim not in order]
    extents = [prod(box[dim][1] - box[dim][0] for dim, _ in axis.terms) for axis in write.axes]
    block = value.transpose(order + rest).reshape(extents)
    lows = [axis.offset + sum(stride * box[dim][0] for dim, stride in axis.terms) for axis in write.axes]
    region = tuple((low, low + extent) for low, extent in zip(lows, extents, strict=True))
    inside = _clipped(region, write.shape)
    return inside, cut(block, region, inside)

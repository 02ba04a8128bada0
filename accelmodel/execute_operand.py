"""Operands of one tile, from their blocks as stored to arrays over the dims of the op in the type it works in."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from accelmodel.execute_affine import Box, Operand, Plain, Region, cut, needed, view
from accelmodel.precision import load

Array = npt.NDArray[Any]
Block = tuple[Region, Array]


def lay_out(read: Operand, block: Block, box: Box, working: str, fill: float) -> Array:
    """What the box reads of a block, one axis a dim, of size 1 where it does not vary; `fill` outside the tensor."""
    region, values = block
    if read.plain is not None:
        part = _sliced(read.plain, read.shape, region, values, box)
        if part is not None:
            return _spread(load(part, working), read.plain)
    wanted = needed(read, box)
    return view(load(cut(values, region, wanted), working), wanted, read, box, fill)


def _sliced(plain: Plain, shape: tuple[int, ...], region: Region, values: Array, box: Box) -> Array | None:
    """The part of a block that a plain access reads; None where that reaches outside the tensor."""
    index: list[slice | int] = []
    for dim, offset, (start, _), size in zip(plain.dims, plain.offsets, region, shape, strict=True):
        if dim < 0:
            index.append(-start)
            continue
        begin, end = box[dim][0] + offset, box[dim][1] + offset
        if begin < 0 or end > size:
            return None
        index.append(slice(begin - start, end - start))
    return values[tuple(index)]


def _spread(part: Array, plain: Plain) -> Array:
    ordered = part if plain.order is None else part.transpose(plain.order)
    return ordered if plain.spread is None else ordered[plain.spread]

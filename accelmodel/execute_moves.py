"""Ops that move elements, on one tile: by their access maps where these say everything, else by index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.errors import InputError
from accelmodel.execute_affine import Box, Operand, Region, cut, is_empty, needed, view

Array = npt.NDArray[Any]
Block = tuple[Region, Array]


def concat(reads: Sequence[Operand], blocks: Sequence[Block], box: Box) -> Array:
    """Each operand fills its own part of the box."""
    result = np.zeros([end - begin for begin, end in box], dtype=blocks[0][1].dtype)
    for read, (region, values) in zip(reads, blocks, strict=True):
        wanted = needed(read, box)
        if is_empty(wanted):
            continue
        assert read.axes is not None
        places = tuple(
            slice(low - axis.offset - begin, high - axis.offset - begin)
            for axis, (low, high), (begin, _) in zip(read.axes, wanted, box, strict=True)
        )
        result[places] = cut(values, region, wanted)
    return result


def gather(reads: Sequence[Operand], blocks: Sequence[Block], box: Box) -> Array:
    """Rows of a table by index; negative indices count from the end."""
    axis, size = _whole_axis(reads[0])
    table, indices = _block(reads[0], blocks[0], box), _block(reads[1], blocks[1], box)
    return np.take(table, _from_zero(indices, size), axis=axis)


def gather_elements(reads: Sequence[Operand], blocks: Sequence[Block], box: Box) -> Array:
    axis, size = _whole_axis(reads[0])
    table, indices = _block(reads[0], blocks[0], box), _block(reads[1], blocks[1], box)
    return np.take_along_axis(table, _from_zero(indices, size), axis=axis)


def _from_zero(indices: Array, size: int) -> Array:
    """Indices from the start of an axis; those below 0 count from its end."""
    if indices.size and not (int(indices.min()) >= -size and int(indices.max()) < size):
        raise InputError(
            stage="execution", where="a Gather", expected=f"indices from {-size} to {size - 1}",
            found=f"indices from {indices.min()} to {indices.max()}",
            remedy="Repair what computes the indices, or the table that they point into.",
        )  # fmt: skip
    return np.where(indices < 0, indices + size, indices)


def repeat(reads: Sequence[Operand], blocks: Sequence[Block], box: Box) -> Array:
    """Tile: an axis read whole repeats; one of size 1 is stretched."""
    values = _block(reads[0], blocks[0], box)
    for axis, (begin, end) in enumerate(box):
        if values.shape[axis] != end - begin or _is_whole(reads[0], axis):
            values = np.take(values, np.arange(begin, end) % values.shape[axis], axis=axis)
    return values


def _block(read: Operand, block: Block, box: Box) -> Array:
    """The part of the operand that the box reads."""
    region, values = block
    return cut(values, region, needed(read, box))


def _is_whole(read: Operand, axis: int) -> bool:
    return read.axes is not None and read.axes[axis].whole


def _whole_axis(read: Operand) -> tuple[int, int]:
    assert read.axes is not None
    return next((i, axis.size) for i, axis in enumerate(read.axes) if axis.whole)


# Ops whose reads do not all have one index for each point of the box.
INDEXED: Mapping[str, Callable[[Sequence[Operand], Sequence[Block], Box], Array]] = {
    "Concat": concat, "Gather": gather, "GatherElements": gather_elements, "Tile": repeat,
}  # fmt: skip
MAPPED = ("Transpose", "Expand", "Slice", "Split", "Pad", "DepthToSpace", "SpaceToDepth", "Resize", "Upsample")


def move(op_type: str, reads: Sequence[Operand], blocks: Sequence[Block], box: Box, fill: float) -> Array:
    """The operand, or the operands, laid out over the dims of the op. fill: value of what lies outside (Pad)."""
    if op_type in INDEXED:
        return INDEXED[op_type](reads, blocks, box)
    region, values = blocks[0]
    return view(values, region, reads[0], box, fill)

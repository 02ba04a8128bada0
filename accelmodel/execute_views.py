"""Regions and blocks through views: the same elements in row-major order under another shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.execute_affine import Region, is_empty

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


def view_region(region: Region, shape: Shape, source: Shape) -> Region:
    """The region of a tensor of shape `source` that holds `region` of its view of shape `shape`; maybe more."""
    if is_empty(region):
        return tuple((0, 0) for _ in source)
    result = [(0, 1)] * len(source)
    for axes, source_axes in _runs(shape, source):
        low, high = (_flat([region[i][end] - end for i in axes], [shape[i] for i in axes]) for end in (0, 1))
        for axis, bounds in zip(source_axes, _spread(low, high, [source[i] for i in source_axes]), strict=True):
            result[axis] = bounds
    return tuple(result)


def view_block(block: Array, held: Region, source: Shape, region: Region, shape: Shape) -> Array:
    """Values of `region` of the view from a block that holds the region `held` of the tensor of shape `source`."""
    extents = tuple(high - low for low, high in region)
    if block.size == prod(extents):  # as many elements, in the same order: the same elements
        return block.reshape(extents)
    index = np.zeros((1,) * len(shape), dtype=np.int64)
    for axis, (low, high) in enumerate(region):
        along = np.arange(low, high).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        index = index + along * prod(shape[axis + 1 :])
    places = np.unravel_index(index, source) if source else ()
    return block[tuple(place - low for place, (low, _) in zip(places, held, strict=True))]


@lru_cache(maxsize=4096)
def _runs(shape: Shape, source: Shape) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Axes of both shapes in the shortest runs that hold equally many elements; axes of size 1 belong to none."""
    runs = []
    mine, theirs = [i for i, n in enumerate(shape) if n != 1], [i for i, n in enumerate(source) if n != 1]
    while mine and theirs:
        a, b = [mine.pop(0)], [theirs.pop(0)]
        while (left := prod(shape[i] for i in a)) != (right := prod(source[i] for i in b)):
            if left < right:
                a.append(mine.pop(0))
            else:
                b.append(theirs.pop(0))
        runs.append((tuple(a), tuple(b)))
    return tuple(runs)


def _flat(index: Sequence[int], sizes: Sequence[int]) -> int:
    """Row-major number of an index."""
    flat = 0
    for i, size in zip(index, sizes, strict=True):
        flat = flat * size + i
    return flat


def _spread(low: int, high: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges on several axes that hold the flat numbers low .. high, both included: from the axis on which they first
    differ, all later ones are whole."""
    ranges = []
    differ = False
    for i, size in enumerate(sizes):
        inner = prod(sizes[i + 1 :])
        first, last = low // inner, high // inner
        ranges.append((0, size) if differ else (first, last + 1))
        differ = differ or first != last
        low, high = low - first * inner, high - last * inner
    return ranges

"""Regions through views: a view renames memory in row-major order, so its axes are splits and merges of its input's.

Extents are of a bounding box: exact where a tile covers whole inner axes or divides them, else the box that holds it.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Axes = tuple[int, ...]


def map_extents(extents: list[FloatArray], source: Axes, shape: Axes, exact_rows: int) -> list[FloatArray]:
    """Extents of a region on axes of `source` -> extents on axes of `shape`; both shapes hold the same elements.

    extents: one array [rows] an axis. The first `exact_rows` rows are whole tiles, whose boxes are rounded outwards;
    the other rows are means over tiles, which are divided smoothly.
    """
    rows = extents[0].shape if extents else (0,)
    result = [np.ones(rows) for _ in shape]
    for merged, parts in axis_blocks(source, shape):
        flat = _flat_extent([extents[i] for i in merged], tuple(source[i] for i in merged))
        # A run of one axis begins at a multiple of the tile; one over several axes anywhere.
        split = split_extent(flat, tuple(shape[i] for i in parts), exact_rows, anywhere=len(merged) > 1)
        for axis, extent in zip(parts, split, strict=True):
            result[axis] = extent
    return result


def map_masks(masks: list[int], source: Axes, shape: Axes) -> list[int]:
    """The root dims that each axis of `shape` depends on, given those of `source`, as bit masks."""
    result = [0] * len(shape)
    for merged, parts in axis_blocks(source, shape):
        union = 0
        for axis in merged:
            union |= masks[axis]
        for axis in parts:
            result[axis] = union
    return result


def map_starts(starts: list[float], source: Axes, shape: Axes) -> list[float]:
    """First index on each axis of `shape`, given that on each axis of `source`."""
    result = [0.0] * len(shape)
    for merged, parts in axis_blocks(source, shape):
        flat = sum(starts[axis] * prod(source[i] for i in merged[k + 1 :]) for k, axis in enumerate(merged))
        for k, axis in enumerate(parts):
            inner = prod(shape[i] for i in parts[k + 1 :])
            result[axis] = flat // inner if k == 0 else flat // inner % shape[axis]
    return result


@lru_cache(maxsize=4096)
def axis_blocks(source: Axes, shape: Axes) -> tuple[tuple[Axes, Axes], ...]:
    """Shortest runs of axes with equal products: ((2, 6), (2, 2, 3)) -> axis 0 with 0, axis 1 with 1 and 2.

    Axes of size 1 carry nothing and are left out.
    """
    left = [i for i, size in enumerate(source) if size != 1]
    right = [i for i, size in enumerate(shape) if size != 1]
    blocks: list[tuple[Axes, Axes]] = []
    a, b = 0, 0
    while a < len(left) and b < len(right):
        start = (a, b)
        a, b = a + 1, b + 1
        products = (source[left[a - 1]], shape[right[b - 1]])
        while products[0] != products[1] and (a < len(left) or b < len(right)):
            grow_left = (products[0] < products[1] and a < len(left)) or b == len(right)
            a, b = (a + 1, b) if grow_left else (a, b + 1)
            products = (prod(source[i] for i in left[start[0] : a]), prod(shape[i] for i in right[start[1] : b]))
        blocks.append((tuple(left[start[0] : a]), tuple(right[start[1] : b])))
    return tuple(blocks)


def _flat_extent(extents: list[FloatArray], sizes: Axes) -> FloatArray:
    """Span of a box in the flattened axis: 1 + sum (extent - 1) x row-major stride."""
    span = np.ones_like(extents[0])
    for i, extent in enumerate(extents):
        span += (extent - 1) * prod(sizes[i + 1 :])
    return span


def split_extent(flat: FloatArray, sizes: Axes, exact_rows: int, *, anywhere: bool = False) -> list[FloatArray]:
    """Box on several axes, outermost first, that holds a run of `flat` elements of their row-major product. One axis:
    the run itself. anywhere: the run may begin at any element, not only at multiples of its length."""
    rest, loose = flat, np.full(exact_rows, anywhere)
    result: list[FloatArray] = []
    for size in reversed(sizes[1:]):
        inner = np.minimum(rest, size)
        outer = np.maximum(rest / size, 1.0)
        exact = rest[:exact_rows]
        remainder = np.where(exact < size, np.mod(size, exact), np.mod(exact, size))
        straddles = (exact > 1) & (loose | (remainder > 0))
        # Such a run takes the axis whole, and one more row outside.
        inner[:exact_rows][straddles] = size
        outer[:exact_rows][straddles] = np.floor((exact[straddles] - 2) / size) + 2
        result.append(inner)
        rest, loose = outer, loose | straddles
    if sizes:
        result.append(np.minimum(rest, sizes[0]) if len(sizes) > 1 else rest)
    return result[::-1]

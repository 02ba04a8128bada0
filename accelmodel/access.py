"""Which positions of a tensor axis an access reads, counted exactly.

Counting takes closed forms: the memory it needs follows from the smaller dims (a kernel, a stride), not from the size
of a tensor. Where more than MAX_SUMS sums would have to be told apart, the fewest that are certain are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from accelmodel.plan import Access, AxisMap

IntArray = npt.NDArray[np.int64]
Terms = tuple[tuple[int, int], ...]  # (stride, size) of each dim that moves along the axis

MAX_SUMS = 2**20


def positions_in_range(axis: AxisMap, sizes: Mapping[str, int], axis_size: int) -> tuple[int, int, int]:
    """(distinct positions read, reads in range, reads in all) of one axis over the whole iteration space.

    Reads out of range are padding, or belong to another input of a concatenation. An axis read whole, or broadcast,
    counts as one read of each of its positions.
    """
    if axis.whole or not axis.terms:
        count = axis_size if axis.whole else min(1, axis_size)
        return count, count, max(1, count)
    strides = tuple((stride, sizes[name]) for name, stride in axis.terms)
    return _counted(strides, axis.offset, axis_size)


def picked_axis(access: Access) -> bool:
    """The access picks positions that only the data decide (rows of a table)."""
    return any(axis.whole for axis in access.axes or ())


@lru_cache(maxsize=4096)
def _counted(strides: Terms, offset: int, axis_size: int) -> tuple[int, int, int]:
    every = prod(size for _, size in strides)
    if not every:
        return 0, 0, 1
    still = prod(size for stride, size in strides if stride == 0)  # reads of the same position
    first = offset + sum(stride * (size - 1) for stride, size in strides if stride < 0)
    terms = tuple(sorted((abs(stride), size) for stride, size in strides if stride and size > 1))
    distinct = _distinct(terms, first, axis_size)
    reads = _points(terms, first, axis_size)
    return distinct, max(distinct, 0 if reads is None else reads * still), every


def _points(terms: Terms, first: int, axis_size: int) -> int | None:
    """How many points of the iteration space fall on the axis: all dims but the longest are gone through one by one.
    None where these are too many."""
    reach = sum(stride * (size - 1) for stride, size in terms)
    if first >= 0 and first + reach < axis_size:
        return prod(size for _, size in terms)
    *others, (stride, size) = sorted(terms, key=lambda term: term[1]) or [(1, 1)]
    if prod(n for _, n in others) > MAX_SUMS:
        return None
    starts: IntArray = np.full(1, first, np.int64)
    for step, n in others:
        starts = np.add.outer(starts, step * np.arange(n, dtype=np.int64)).ravel()
    low = np.maximum(0, -(starts // stride))  # the first index at or beyond 0
    high = np.minimum(size, (axis_size - 1 - starts) // stride + 1)
    return int(np.maximum(0, high - low).sum())


def _distinct(terms: Terms, first: int, axis_size: int) -> int:
    """How many positions on the axis are reached."""
    runs = _runs(terms)
    if all(stride > sum(s * (n - 1) for s, n in runs[:i]) for i, (stride, _) in enumerate(runs)):
        points = _points(runs, first, axis_size)  # each point has a position of its own
        if points is not None:
            return points
    positions: IntArray = np.full(1, first, np.int64)
    for stride, size in runs:
        if len(positions) * size > MAX_SUMS:
            return max(_points((run,), first, axis_size) or 0 for run in runs)
        positions = np.unique(np.add.outer(positions, stride * np.arange(size, dtype=np.int64)))
    return int(((positions >= 0) & (positions < axis_size)).sum())


def _runs(terms: Terms) -> Terms:
    """Dims whose sums are evenly spaced without a gap, taken as one. terms: by ascending stride."""
    runs: list[tuple[int, int]] = []
    for stride, size in terms:
        step, length = runs[-1] if runs else (0, 0)
        if step and stride % step == 0 and stride <= step * length:
            runs[-1] = (step, length + stride // step * (size - 1))
        else:
            runs.append((stride, size))
    return tuple(runs)

"""Which positions of a tensor axis an access reads, counted exactly."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from accelmodel.plan import Access, AxisMap

IntArray = npt.NDArray[np.int64]


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
def _counted(strides: tuple[tuple[int, int], ...], offset: int, axis_size: int) -> tuple[int, int, int]:
    positions: IntArray = np.full(1, offset, np.int64)
    weights: IntArray = np.ones(1, np.int64)  # iteration points that read each position
    every = 1
    for stride, size in strides:
        positions, weights = _added(positions, weights, stride * np.arange(size, dtype=np.int64))
        every *= size
    inside = (positions >= 0) & (positions < axis_size)
    return int(inside.sum()), int(weights[inside].sum()), max(1, every)


def _added(positions: IntArray, weights: IntArray, shifts: IntArray) -> tuple[IntArray, IntArray]:
    """All sums of a position and a shift, each once, with the number of ways to reach it."""
    if len(positions) == 1 and (len(shifts) < 2 or shifts[1] != shifts[0]):
        return positions + shifts, np.repeat(weights, len(shifts))
    sums = np.add.outer(positions, shifts).ravel()
    distinct, index = np.unique(sums, return_inverse=True)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, index.ravel(), np.repeat(weights, len(shifts)))
    return distinct, counts

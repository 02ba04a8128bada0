"""Backward propagation of tile regions through a group, for many candidate tiles at once.

A tile of the root's parallel dims is carried back through the accesses of the group: the extent of each tensor axis is
1 + sum of stride x (extent of dim - 1), clipped to the tensor; reduction dims are whole, but for one contraction's
reduction that may be streamed by `k_tile`. A tensor that several ops of the group read takes the largest extent on
each axis. Outputs that the root does not depend on are derived forward from a tensor that the root's side also
touches; where that is impossible they stay whole, and then no dim may be cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from accelmodel.boundary import Boundary, Same, boundary, storage_of
from accelmodel.plan import Access, Group
from accelmodel.region_walk import FloatArray, Points, Reach, Touch, Walk

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Nest:
    """Iteration space of one group: the root's parallel dims and, where one is streamed, a reduction inside it.

    dims, sizes: the root's parallel dims. tileable: may be cut without recompute: every op of the group works on a
    region that depends on it (overlap by halo allowed). stream: (step of a contraction, its reduction dim, size):
    blocks of that reduction are made inside the group and consumed at once; None where no such loop exists.
    loop: steps inside that loop, the contraction included.
    """

    edge: Boundary
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    tileable: tuple[bool, ...]
    stream: tuple[int, str, int] | None
    loop: frozenset[int]


@dataclass(frozen=True, slots=True)
class Tiles:
    """Candidate tiles. tile: [C, dims] sizes on the root's parallel dims. k_tile: [C] block of the streamed reduction
    (its size, or 1, where none is streamed). trips: [C, dims + 1] number of tiles on each dim, then of blocks."""

    tile: IntArray
    k_tile: IntArray
    trips: IntArray

    @property
    def count(self) -> int:
        return len(self.tile)


@dataclass(frozen=True, slots=True)
class Regions:
    """Regions of all ops of a group, by step; views have none.

    points: extents of the dims of each op. reads: each read of the op with its region. makes: storage -> region that
    a tile makes. shared: mask of the dims on which every use of everything made here depends.
    """

    points: Mapping[int, Points]
    reads: Mapping[int, tuple[tuple[Access, Touch], ...]]
    makes: Mapping[str, Touch]
    shared: int


def nest_of(edge: Boundary) -> Nest:
    """Iteration space of a group with at least one launching op; ValueError for a group of views."""
    if edge.root < 0:
        raise ValueError(f"group {edge.group.name} holds views only: nothing to tile")
    return _nest(Same(edge.lowered), edge.group.ops)


@lru_cache(maxsize=512)
def _nest(lowered: Same, ops: tuple[int, ...]) -> Nest:
    """Kept, since the tile search, the cost model and the floors of fusion ask for the same group in turn."""
    edge = boundary(lowered.value, Group("", ops))
    parallel = [d for d in edge.ops[edge.root].dims if d.role == "parallel"]
    dims, sizes = tuple(d.name for d in parallel), tuple(max(1, d.size) for d in parallel)
    uncut = Nest(edge, dims, sizes, (False,) * len(dims), None, frozenset())
    probe = propagate(uncut, whole_tile(uncut))
    nest = replace(uncut, tileable=tuple(bool(probe.shared >> d & 1) for d in range(len(dims))))
    stream = _stream(edge, probe)
    if stream is None:
        return nest
    streamed = replace(nest, stream=stream)
    looped = propagate(streamed, whole_tile(streamed)).points
    loop = frozenset(step for step, points in looped.items() if any(r.mask >> len(dims) & 1 for r in points.values()))
    return replace(streamed, loop=loop) if len(loop) > 1 else nest


def whole_tile(nest: Nest) -> Tiles:
    """The one candidate that cuts nothing."""
    return make_tiles(nest, np.array(nest.sizes, np.int64).reshape(1, -1), None)


def make_tiles(nest: Nest, tile: IntArray, k_tile: IntArray | None) -> Tiles:
    """Candidates with their trips. tile: [C, dims]; k_tile: [C], or None for the whole reduction."""
    size = nest.stream[2] if nest.stream else 1
    k = np.full(len(tile), size, np.int64) if k_tile is None else k_tile
    trips = -(-np.array([*nest.sizes, size], np.int64) // np.column_stack([tile, k]))
    return Tiles(tile, k, trips)


def propagate(nest: Nest, tiles: Tiles) -> Regions:
    """Regions of every op of the group for each candidate."""
    edge, bits = nest.edge, len(nest.dims)
    root = {
        name: Reach(_rows(tiles.tile[:, d], tiles.trips[:, d], nest.sizes[d]), 1 << d, 0.0)
        for d, name in enumerate(nest.dims)
    }
    stream = None
    if nest.stream is not None:
        step, name, size = nest.stream
        stream = (step, name, Reach(_rows(tiles.k_tile, tiles.trips[:, -1], size), 1 << bits, 0.0))
    walk = Walk(edge, tiles.count, stream)
    walk.backward({edge.root: root})
    missed = [s for s, op in enumerate(edge.ops) if op.kind != "view" and s not in walk.points]
    if missed:
        walk.backward({edge.root: root, **walk.forward(missed)})
    return Regions(walk.points, walk.reads, walk.makes, walk.shared)


def _rows(tile: IntArray, trips: IntArray, size: int) -> FloatArray:
    """Whole tiles, means over tiles, and the whole dim. [2 C + 1]"""
    return np.concatenate([tile, size / trips, [size]]).astype(np.float64)


def _stream(edge: Boundary, probe: Regions) -> tuple[int, str, int] | None:
    """The last contraction up to the root that reads, along one reduction dim, what the group itself makes."""
    for step in range(edge.root, -1, -1):
        op = edge.ops[step]
        if op.kind != "contraction" or step not in probe.points:
            continue
        reductions = {d.name: d.size for d in op.dims if d.role == "reduction" and d.size > 1}
        for access in op.reads:
            if storage_of(edge.lowered, access.tensor) not in edge.made or access.axes is None:
                continue
            pure = (a.terms[0][0] for a in access.axes if len(a.terms) == 1 and a.terms[0][1] == 1)
            streamed = next((name for name in pure if name in reductions), None)
            if streamed is not None:
                return step, streamed, reductions[streamed]
    return None


# --- what a region weighs ---


def tile_elements(touch: Touch, count: int) -> FloatArray:
    """Elements of the region of one whole tile. [C]"""
    result = np.ones(count)
    for axis in touch.axes:
        result = result * axis.extent[:count]
    return result


def accessed_elements(touch: Touch, shape: tuple[int, ...]) -> float:
    """Elements of the tensor that the whole iteration space touches, as a box."""
    return float(prod(min(float(axis.extent[-1]), float(size)) for axis, size in zip(touch.axes, shape, strict=True)))


def pass_elements(touch: Touch, shape: tuple[int, ...], trips: IntArray) -> FloatArray:
    """Elements fetched when every distinct region is fetched once, halo included. trips: [C, dims + 1] -> [C].

    On one axis n tiles of mean extent e fetch n e, since extents are linear in the tile, less what the whole space has
    beyond the tensor (padding, or the other inputs of a concatenation), which is never fetched. Exact where each dim
    drives one axis and no tile is narrower than the padding (then some padding is counted as fetched); where two axes
    share a dim (a diagonal, a view that splits it): mean region x number of regions.
    """
    count = len(trips)
    total = np.ones(count)
    if sum(mask.bit_count() for mask in touch.masks) != touch.mask.bit_count():
        for axis, size in zip(touch.axes, shape, strict=True):
            total = total * np.minimum(axis.extent[count : 2 * count], size)
        return total * region_count(touch.mask, trips)
    for axis, size in zip(touch.axes, shape, strict=True):
        regions = region_count(axis.mask, trips)
        beyond = max(0.0, float(axis.extent[-1]) - size)
        total = total * np.minimum(regions * axis.extent[count : 2 * count] - beyond, regions * size)
    return total


def region_count(mask: int, trips: IntArray) -> FloatArray:
    """Number of distinct regions of a tensor that depends on the dims of `mask`. [C]"""
    chosen = [d for d in range(trips.shape[1]) if mask >> d & 1]
    count: FloatArray = np.prod(trips[:, chosen], axis=1, dtype=np.float64)
    return count

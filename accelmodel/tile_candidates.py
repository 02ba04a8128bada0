"""Candidate tiles of one group.

Along one dim of size D, a tile size matters only through ceil(D / size) trips: of all sizes with the same trips the
smallest, rounded up to the alignment, needs the least space and pads the least. So for each number of trips that some
aligned size has, there is one candidate, imperfect ones included, and the whole dim. Alignment: the engine's native
block along the last dim of each role of the contraction nearest to the root (on a vector engine rows come by eights),
1 along the others, whose product is padded as one; the lanes along the innermost dim where there is no contraction.

Where the product of all dims exceeds the limit, the longest list is thinned to every other size, ends kept, until it
fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from accelmodel.contraction import roles_of
from accelmodel.regions import IntArray, Nest, Regions, Tiles, make_tiles
from accelmodel.settings import TilingSettings
from accelmodel.target import Target

STREAM_DEPTHS = (1, 2, 4, 8)
VECTOR_ROWS = 8
ELEMENTWISE_LIMIT = 512  # groups without a contraction reuse little: fewer sizes lose next to nothing


@dataclass(frozen=True, slots=True)
class Candidates:
    """tiles: [C] tiles; depth: [C] native blocks or rows of one transfer; thinned: sizes were left out."""

    tiles: Tiles
    depth: IntArray
    thinned: bool


def candidates(nest: Nest, whole: Regions, target: Target, settings: TilingSettings) -> Candidates:
    """All candidates of a group. whole: its regions under the uncut tile (they tell which dims belong together)."""
    contraction = any(op.kind == "contraction" for op in nest.edge.ops)
    limit = settings.max_tiles if contraction else min(settings.max_tiles, ELEMENTWISE_LIMIT)
    aligned = alignments(nest, whole, target)
    sizes = [
        tile_sizes(size, align, settings.align) if cut else (size,)
        for size, cut, align in zip(nest.sizes, nest.tileable, aligned, strict=True)
    ]
    if nest.stream is None:
        blocks: tuple[int, ...] = (1,)
    else:
        native_k = target.engines[nest.edge.ops[nest.stream[0]].engine].native_tile[2]
        blocks = tile_sizes(nest.stream[2], native_k, settings.align)
    lists = [*sizes, blocks, STREAM_DEPTHS]
    kept = thin(lists, max(1, limit))
    grid = np.stack(np.meshgrid(*kept, indexing="ij"), axis=-1).reshape(-1, len(kept)).astype(np.int64)
    tiles = make_tiles(nest, grid[:, : len(nest.sizes)], grid[:, -2] if nest.stream else None)
    return Candidates(tiles, grid[:, -1], thinned=kept != lists)


@lru_cache(maxsize=4096)
def tile_sizes(size: int, align: int, aligned: bool) -> tuple[int, ...]:
    """Sizes worth trying along one dim, ascending, the whole dim last. Not `aligned`: powers of two instead."""
    if not aligned:
        return (*(2**i for i in range(size.bit_length()) if 2**i < size), size)
    blocks = ceil_div(size, align)
    found, trips = {size}, 1
    while trips <= blocks:
        tile = ceil_div(blocks, trips)
        found.add(min(size, tile * align))
        trips = ceil_div(blocks, tile - 1) if tile > 1 else blocks + 1  # the next number of trips with a smaller tile
    return tuple(sorted(found))


def ceil_div(size: int, part: int) -> int:
    return -(-size // part)


def thin(lists: list[tuple[int, ...]], limit: int) -> list[tuple[int, ...]]:
    """Every other size of the longest list, ends kept, until the product is within the limit."""
    kept = list(lists)
    while prod(len(sizes) for sizes in kept) > limit:
        longest = max(range(len(kept)), key=lambda i: len(kept[i]))
        sizes = kept[longest]
        if len(sizes) == 1:
            break
        kept[longest] = tuple(sorted({*sizes[::-2], sizes[0]})) if len(sizes) > 2 else sizes[-1:]
    return kept


def alignments(nest: Nest, whole: Regions, target: Target) -> tuple[int, ...]:
    """Alignment of each root dim."""
    result = [1] * len(nest.dims)
    ops = nest.edge.ops
    step = next((s for s in reversed(range(len(ops))) if ops[s].kind == "contraction" and s in whole.points), None)
    if step is None:
        if result:
            result[-1] = prod(target.engines[ops[nest.edge.root].engine].native_tile)
        return tuple(result)
    roles, native = roles_of(ops[step]), target.engines[ops[step].engine].native_tile
    rows = native[0] if ops[step].engine == "matrix" else VECTOR_ROWS
    for names, block in ((roles.m, rows), (roles.n, native[1])):
        mask = 0
        for name in names:
            mask |= whole.points[step][name].mask
        dims = [d for d in range(len(nest.dims)) if mask >> d & 1 and nest.sizes[d] > 1]
        if dims:
            result[dims[-1]] = block
    return tuple(result)

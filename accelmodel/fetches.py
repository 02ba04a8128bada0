"""How often each external operand moves: out of DRAM, and into the cores.

Without an L2 each core works off consecutive tiles, and a region that stays in its SRAM is not fetched again. With an
L2, tiles go to the cores in turn; what a wave of them shares leaves DRAM once, and so does an operand that stays in L2
from wave to wave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelmodel import cost_terms as terms
from accelmodel.cost_terms import BoolArray
from accelmodel.operands import Operand
from accelmodel.region_walk import FloatArray
from accelmodel.regions import IntArray, Tiles, region_count
from accelmodel.target import Target


def spans(
    outer: Sequence[Operand], trips: IntArray, loop_order: tuple[int, ...], target: Target
) -> tuple[FloatArray, ...]:
    """Consecutive uses of one region of each operand: over blocks of the streamed reduction and, without an L2, over
    tiles of one core. [C] each."""
    last = trips.shape[1] - 1
    tiles = () if target.l2 else loop_order
    return tuple(terms.reuse_span(trips, (*tiles, last) if o.looped else tiles, o.mask) for o in outer)


def into_cores(
    outer: Sequence[Operand],
    tiles: Tiles,
    cores: FloatArray,
    spans: Sequence[FloatArray],
    kept: Sequence[BoolArray],
) -> tuple[FloatArray, ...]:
    """Times that each operand moves into the cores as a whole. kept: where its region stays over its span. [C] each."""
    count = np.prod(tiles.trips[:, :-1], axis=1, dtype=np.float64)
    times = []
    for operand, span, keep in zip(outer, spans, kept, strict=True):
        over_tiles = np.maximum(span / _blocks_passed(operand, tiles), 1.0)
        fetches = terms.retained_fetches(count, cores, np.where(keep, over_tiles, 1.0))
        again = np.where(keep, 1.0, _blocks_passed(operand, tiles))
        times.append(np.maximum(fetches / _regions(operand, tiles), 1.0) * again)
    return tuple(times)


def out_of_dram(
    outer: Sequence[Operand],
    tiles: Tiles,
    loop_order: tuple[int, ...],
    cores: FloatArray,
    kept: Sequence[BoolArray],
    l2_bytes: int,
) -> tuple[FloatArray, ...]:
    """Times that each operand leaves DRAM as a whole where an L2 of this capacity serves the cores. [C] each.

    What a wave shares it fetches once. An operand that the streamed loop reads again for every block comes from L2
    where a whole wave's regions fit into it.
    """
    count = np.prod(tiles.trips[:, :-1], axis=1, dtype=np.float64)
    covered = terms.wave_coverage(tiles.trips, loop_order, cores)
    distinct = [_distinct(operand.mask, covered) for operand in outer]
    regions = [_regions(operand, tiles) for operand in outer]
    wave_bytes = [o.pass_bytes / n * d for o, n, d in zip(outer, regions, distinct, strict=True)]
    whole = terms.kept_in_l2([o.pass_bytes for o in outer], wave_bytes, l2_bytes)
    wave_fits = np.add.reduce(wave_bytes) <= l2_bytes
    times = []
    for operand, keep, stays, n, d in zip(outer, kept, whole, regions, distinct, strict=True):
        again = np.where(keep | wave_fits, 1.0, _blocks_passed(operand, tiles))
        shared = terms.shared_fetches(count, cores, n, d) / n
        times.append(np.where(stays, 1.0, shared * again))
    return tuple(times)


def _regions(operand: Operand, tiles: Tiles) -> FloatArray:
    """Distinct regions over the tiles. [C]"""
    last = tiles.trips.shape[1] - 1
    return region_count(operand.mask & ~(1 << last), tiles.trips)


def _blocks_passed(operand: Operand, tiles: Tiles) -> FloatArray:
    """Blocks of the streamed reduction that read the same region again, in one tile. [C]"""
    last = tiles.trips.shape[1] - 1
    passed = operand.looped and not operand.mask >> last & 1
    return tiles.trips[:, last].astype(np.float64) if passed else np.ones(tiles.count)


def _distinct(mask: int, covered: FloatArray) -> FloatArray:
    chosen = [d for d in range(covered.shape[1] - 1) if mask >> d & 1]
    distinct: FloatArray = np.prod(covered[:, chosen], axis=1)
    return distinct

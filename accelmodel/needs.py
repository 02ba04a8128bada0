"""Buffers that a tile needs on chip, step by step, were there room for all.

* A streamed operand holds one block, twice under double buffering; an operand that several steps read holds its whole
  region from the first to the last of them.
* A contraction's partial sums live in accumulator space, at the accumulator's width; what exceeds it lies in SRAM.
  Element-wise ops and row reductions that alone read them work on them in place. Where the whole reduction is on chip
  at once, results leave block by block and only a block is held.
* A result that another op of the group reads stays whole, at its own width, until its last reader; it is the
  accumulator itself where the widths agree.
* Results on their way to DRAM hold one block, twice under double buffering.

Each buffer says what a byte of it costs that does not stay on chip (residency.py decides which do): it is written
once, and read once for every time that a reader goes over it (sweeps.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from accelmodel.cost_terms import partial_sum_spill
from accelmodel.graph import ELEMENT_BYTES
from accelmodel.inplace import Chain, chains
from accelmodel.operands import Operand, Result, clean_reduction, reduction_block, stream_unit
from accelmodel.region_walk import FloatArray
from accelmodel.regions import IntArray, Nest, Regions, Tiles, tile_elements
from accelmodel.sweeps import sweeps
from accelmodel.target import Target


@dataclass(frozen=True, slots=True)
class Need:
    """One buffer. size_bytes: [C], aligned; 0 where the candidate has no such buffer. [start, end): steps that it lives
    for. spill_unit: [C] DRAM bytes moved for each of its bytes that does not stay on chip, in one tile. least_bytes:
    the part that must stay. in_accumulators: taken from the accumulator space first."""

    tensor: str
    role: str
    size_bytes: FloatArray
    start: int
    end: int
    spill_unit: FloatArray
    least_bytes: float
    in_accumulators: bool = False


def base_needs(
    nest: Nest,
    tiles: Tiles,
    regions: Regions,
    outer: Sequence[Operand],
    outs: Sequence[Result],
    depth: IntArray,
    target: Target,
    double_buffer: bool,
) -> tuple[Need, ...]:
    """Buffers of every candidate before any operand is retained between tiles."""
    copies = 2 if double_buffer else 1
    needs = [_operand_need(nest, regions, operand, target, copies) for operand in outer]
    needs += [
        Need(
            out.tensor, "output", aligned(out.block_bytes, target) * copies, out.step, out.step + 1,
            np.full(tiles.count, 2.0), _least(nest, out.step, out.tensor, target),
        )
        for out in outs
    ]  # fmt: skip
    for chain in chains(nest.edge):
        needs += _chain_needs(nest, tiles, regions, chain, depth, target)
    return tuple(needs)


def _operand_need(nest: Nest, regions: Regions, operand: Operand, target: Target, copies: int) -> Need:
    start, end = operand.steps[0], operand.steps[-1] + 1
    least = max(_least(nest, step, operand.tensor, target) for step in operand.steps)
    if len(operand.steps) == 1:
        size = aligned(operand.block_bytes, target) * copies
        return Need(operand.tensor, "stream", size, start, end, 2.0 * operand.blocks, least)
    if operand.looped:
        start, end = _over_loop(nest, start, end)
    varies = operand.mask != 0
    size = aligned(operand.tile_bytes, target) * (copies if varies else 1)
    read = [sweeps(nest, regions, step, operand.tensor, len(size), target) for step in operand.steps]
    again: FloatArray = np.add.reduce(read) - 1.0  # the first time is the operand's own traffic
    return Need(operand.tensor, "operand", size, start, end, again, least)


@dataclass(frozen=True, slots=True)
class _Made:
    """A chain of results in one candidate set. head, tail: steps that make its first and last storage; last: step of
    its last reader. elements: [C] of the largest region. visits: [C] times a tile makes it. readings: [C] times that
    later ops go over the last storage."""

    chain: Chain
    head: int
    tail: int
    last: int
    elements: FloatArray
    visits: FloatArray
    readings: FloatArray


def _chain_needs(
    nest: Nest, tiles: Tiles, regions: Regions, chain: Chain, depth: IntArray, target: Target
) -> list[Need]:
    """Buffers of results worked on in place: partial sums, then what is kept for later readers."""
    count, storages = tiles.count, chain.storages
    head, tail = nest.edge.made[storages[0]], nest.edge.made[storages[-1]]
    later = [sweeps(nest, regions, step, storages[-1], count, target) for step in chain.readers]
    made = _Made(
        chain=chain, head=head, tail=tail, last=max(chain.readers, default=tail),
        elements=np.maximum.reduce([tile_elements(regions.makes[s], count) for s in storages]),
        visits=tiles.trips[:, -1].astype(np.float64) if _repeats(nest, head) else np.ones(count),
        readings=np.add.reduce([np.zeros(count), *later]),
    )  # fmt: skip
    if nest.edge.ops[head].kind != "contraction":
        return [_kept(nest, made, head, target)] if tail > head or chain.readers else []
    sums = _sums(nest, made, _sum_blocks(nest, tiles, regions, head, depth, target), depth, target)
    apart = chain.readers and not _stays_sum(nest, made)
    return [sums, _kept(nest, made, tail, target)] if apart else [sums]


def _kept(nest: Nest, made: _Made, step: int, target: Target) -> Need:
    """Results kept from `step` on, at their own width: written once, read by every later op."""
    storages = made.chain.storages[-1:] if step == made.tail else made.chain.storages
    width = max(nest.edge.lowered.element_bytes[s] for s in storages)
    start, end = _kept_span(nest, step, made.last + 1)
    unit = (1.0 + np.maximum(1.0, made.readings)) * made.visits
    least = _least(nest, step, storages[0], target)
    return Need(storages[0], "intermediate", aligned(made.elements * width, target), start, end, unit, least)


def _sums(nest: Nest, made: _Made, blocks: FloatArray, depth: IntArray, target: Target) -> Need:
    """A contraction's partial sums, worked on in place to the end of the chain, or to its last reader where they are
    what is kept. blocks: [C] times that the contraction comes back to them in one tile."""
    op = nest.edge.ops[made.head]
    width, stays = ELEMENT_BYTES[op.accumulator], _stays_sum(nest, made)
    start = min(nest.loop) if nest.stream and made.head == nest.stream[0] else made.head
    unit = partial_sum_spill(blocks) * made.visits
    held, end = made.elements, made.tail + 1
    native = float(prod(target.engines[op.engine].native_tile[:2]))
    if stays:
        unit = unit + (1.0 + made.readings) * made.visits
        start, end = _kept_span(nest, start, made.last + 1)
    else:
        held = np.where(blocks > 1, held, np.minimum(held, depth * native))  # else they leave block by block
    return Need(
        made.chain.storages[0], "accumulator", aligned(held * width, target), start, end, np.maximum(unit, 2.0),
        native * width, in_accumulators=True,
    )  # fmt: skip


def _stays_sum(nest: Nest, made: _Made) -> bool:
    """Later ops read the accumulator itself: it is as wide as the result."""
    width = ELEMENT_BYTES[nest.edge.ops[made.head].accumulator]
    return bool(made.chain.readers) and nest.edge.lowered.element_bytes[made.chain.storages[-1]] == width


def _sum_blocks(nest: Nest, tiles: Tiles, regions: Regions, step: int, depth: IntArray, target: Target) -> FloatArray:
    """How often a contraction comes back to its partial sums in one tile. [C]"""
    if nest.stream is not None and step == nest.stream[0]:
        return tiles.trips[:, -1].astype(np.float64)
    op, points = nest.edge.ops[step], regions.points[step]
    unit = stream_unit(target.engines[op.engine].native_tile)
    clean, _ = clean_reduction(op, points, tiles.count)
    blocks: FloatArray = np.ceil(clean / reduction_block(op, points, tiles.count, depth, unit))
    return blocks


def _repeats(nest: Nest, step: int) -> bool:
    """The step runs once for every block of the streamed reduction."""
    return step in nest.loop and (nest.stream is None or step != nest.stream[0])


def _over_loop(nest: Nest, start: int, end: int) -> tuple[int, int]:
    return min(start, *nest.loop), max(end, max(nest.loop) + 1)


def _kept_span(nest: Nest, start: int, end: int) -> tuple[int, int]:
    """What is made before the streamed loop and read inside it lives through the loop."""
    if not nest.loop or start in nest.loop or end <= min(nest.loop) or start > max(nest.loop):
        return start, end
    return _over_loop(nest, start, end)


def _least(nest: Nest, step: int, tensor: str, target: Target) -> float:
    """One native block of the engine, at the tensor's width."""
    engine = target.engines[nest.edge.ops[step].engine]
    m, n, k = engine.native_tile
    return max(m * n, n * k, m * k) * nest.edge.lowered.element_bytes[tensor]


def aligned(size_bytes: FloatArray, target: Target) -> FloatArray:
    align = target.sram.alignment_bytes
    return np.ceil(size_bytes / align) * align

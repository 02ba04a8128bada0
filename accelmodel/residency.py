"""What a tile needs on chip, step by step, and what of it goes to DRAM and back when it does not fit.

Rules, in the order in which they shape a working set:

* A streamed operand holds one block, twice under double buffering; an operand that several steps read holds its whole
  region from the first to the last of them.
* A contraction's partial sums live in accumulator space, at the accumulator's width; what exceeds it lies in SRAM.
  Element-wise ops and row reductions that alone read them work on them in place. Where the whole reduction is on chip
  at once, results leave block by block and only a block is held.
* A result that another op of the group reads stays whole, at its own width, until its last reader; it is the
  accumulator itself where the widths agree.
* Results on their way to DRAM hold one block, twice under double buffering.
* An operand whose region several consecutive tiles (or blocks of a streamed reduction) share stays, where it fits
  beside everything else.
* What exceeds the capacity at a step is spilled, the cheapest bytes first (`Need.spill_unit`): written once, and read
  once for every time that a reader goes over it (sweeps.py), down to one native block of each buffer, through which
  the rest is worked. Where even those do not fit, the tile cannot run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelmodel.cost_terms import BoolArray, partial_sum_spill
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


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """needs: buffers in SRAM. peak_bytes: [C] most live at one step. spill_bytes: [C] DRAM bytes of one tile.
    short_bytes: [C] what is missing for the parts that must stay: above 0 the tile cannot run."""

    needs: tuple[Need, ...]
    peak_bytes: FloatArray
    spill_bytes: FloatArray
    short_bytes: FloatArray


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
            out.tensor, "output", _aligned(out.block_bytes, target) * copies, out.step, out.step + 1,
            np.full(tiles.count, 2.0), _least(nest, out.step, out.tensor, target),
        )
        for out in outs
    ]  # fmt: skip
    for chain in chains(nest.edge):
        needs += _chain_needs(nest, tiles, regions, chain, depth, target)
    return tuple(needs)


def fit(needs: Sequence[Need], steps: int, target: Target) -> WorkingSet:
    """Accumulators into their space, the peak, and the spill of what exceeds the SRAM."""
    in_sram = tuple(_beyond_accumulators(needs, target))
    count = len(needs[0].size_bytes) if needs else 1
    live = np.zeros((steps, count))
    for need in in_sram:
        live[need.start : need.end] += need.size_bytes
    peak = live.max(axis=0) if steps else np.zeros(count)
    capacity = float(target.sram.capacity_bytes)
    over = peak > capacity
    spill, short = np.zeros(count), np.zeros(count)
    if over.any():
        spill[over], short[over] = _spill([_rows(need, over) for need in in_sram], live[:, over], capacity)
    return WorkingSet(in_sram, peak, spill, short)


def retain(
    needs: Sequence[Need], outer: Sequence[Operand], spans: Sequence[FloatArray], steps: int, target: Target
) -> tuple[tuple[Need, ...], tuple[BoolArray, ...]]:
    """Keep operands whose region is used again at once, smallest first, as long as everything fits.

    spans: [C] consecutive uses of one region, for each operand. Returns the needs and, for each operand, where it is
    kept. needs[i] is the buffer of outer[i].
    """
    result = list(needs)
    kept: list[BoolArray] = [np.zeros(len(span), np.bool_) for span in spans]
    in_sram = _beyond_accumulators(needs, target)
    live = np.zeros((steps, len(spans[0]) if spans else 1))
    for need in in_sram:
        live[need.start : need.end] += need.size_bytes
    order = sorted(range(len(outer)), key=lambda i: (float(outer[i].tile_bytes.min()), i))
    for i in order:
        if not (spans[i] > 1).any():
            continue
        region, old = _aligned(outer[i].tile_bytes, target), result[i]
        after = live + region
        after[old.start : old.end] -= old.size_bytes
        kept[i] = (spans[i] > 1) & (after.max(axis=0) <= target.sram.capacity_bytes)
        live = np.where(kept[i], after, live)
        result[i] = replace(old, size_bytes=np.where(kept[i], 0.0, old.size_bytes))
        result.append(replace(old, role="operand", size_bytes=np.where(kept[i], region, 0.0), start=0, end=steps))
    return tuple(result), tuple(kept)


def _operand_need(nest: Nest, regions: Regions, operand: Operand, target: Target, copies: int) -> Need:
    start, end = operand.steps[0], operand.steps[-1] + 1
    least = max(_least(nest, step, operand.tensor, target) for step in operand.steps)
    if len(operand.steps) == 1:
        size = _aligned(operand.block_bytes, target) * copies
        return Need(operand.tensor, "stream", size, start, end, 2.0 * operand.blocks, least)
    if operand.looped:
        start, end = _over_loop(nest, start, end)
    varies = operand.mask != 0
    size = _aligned(operand.tile_bytes, target) * (copies if varies else 1)
    read = [sweeps(nest, regions, step, operand.tensor, len(size), target) for step in operand.steps]
    again: FloatArray = np.add.reduce(read) - 1.0  # the first time is the operand's own traffic
    return Need(operand.tensor, "operand", size, start, end, again, least)


def _chain_needs(
    nest: Nest, tiles: Tiles, regions: Regions, chain: Chain, depth: IntArray, target: Target
) -> list[Need]:
    """Buffers of results worked on in place: partial sums, then what is kept for later readers."""
    edge, count = nest.edge, tiles.count
    head, tail = edge.made[chain.storages[0]], edge.made[chain.storages[-1]]
    elements = np.maximum.reduce([tile_elements(regions.makes[s], count) for s in chain.storages])
    visits = tiles.trips[:, -1].astype(np.float64) if _repeats(nest, head) else np.ones(count)
    read = [sweeps(nest, regions, s, chain.storages[-1], count, target) for s in chain.readers if s != tail]
    readers: FloatArray = np.add.reduce([np.zeros(count), *read])
    last = max(chain.readers, default=tail)
    op = edge.ops[head]
    width = max(edge.lowered.element_bytes[s] for s in chain.storages)
    if op.kind != "contraction":
        if tail == head and not chain.readers:
            return []
        start, end = _kept_span(nest, head, max(tail, last) + 1)
        unit = (1.0 + np.maximum(1.0, readers)) * visits
        least = _least(nest, head, chain.storages[0], target)
        return [Need(chain.storages[0], "intermediate", _aligned(elements * width, target), start, end, unit, least)]
    sums_width = ELEMENT_BYTES[op.accumulator]
    blocks = _sum_blocks(nest, tiles, regions, head, depth, target)
    unit = partial_sum_spill(blocks) * visits
    kept_width = edge.lowered.element_bytes[chain.storages[-1]]
    merged = bool(chain.readers) and kept_width == sums_width
    start = min(nest.loop) if nest.stream and head == nest.stream[0] else head
    if not chain.readers or not merged:
        row = np.minimum(elements, depth * float(np.prod(target.engines[op.engine].native_tile[:2])))
        elements_held = np.where(blocks > 1, elements, row)
    else:
        elements_held = elements
    if merged:
        unit = unit + (1.0 + readers) * visits
    start, end = _kept_span(nest, start, (last if merged else tail) + 1) if merged else (start, tail + 1)
    least = float(np.prod(target.engines[op.engine].native_tile[:2])) * sums_width
    sums = Need(
        chain.storages[0], "accumulator", _aligned(elements_held * sums_width, target), start, end,
        np.maximum(unit, 2.0), least, in_accumulators=True,
    )  # fmt: skip
    if merged or not chain.readers:
        return [sums]
    start, end = _kept_span(nest, tail, last + 1)
    kept = tile_elements(regions.makes[chain.storages[-1]], count) * kept_width
    least = _least(nest, tail, chain.storages[-1], target)
    kept_unit: FloatArray = visits * (1.0 + np.maximum(1.0, readers))
    return [sums, Need(chain.storages[-1], "intermediate", _aligned(kept, target), start, end, kept_unit, least)]


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


def _aligned(size_bytes: FloatArray, target: Target) -> FloatArray:
    align = target.sram.alignment_bytes
    return np.ceil(size_bytes / align) * align


def _beyond_accumulators(needs: Sequence[Need], target: Target) -> list[Need]:
    """Accumulators take their space in order; the excess of each lies in SRAM. All others unchanged."""
    taken: list[tuple[Need, FloatArray]] = []
    result = []
    for need in needs:
        if not need.in_accumulators:
            result.append(need)
            continue
        beside = [space for other, space in taken if other.start < need.end and need.start < other.end]
        free = float(target.accumulator_bytes) - np.add.reduce([*beside, np.zeros(len(need.size_bytes))])
        space = np.clip(need.size_bytes, 0.0, np.maximum(free, 0.0))
        taken.append((need, space))
        result.append(replace(need, size_bytes=need.size_bytes - space))
    return result


def _rows(need: Need, chosen: BoolArray) -> Need:
    return replace(need, size_bytes=need.size_bytes[chosen], spill_unit=need.spill_unit[chosen])


def _spill(needs: Sequence[Need], live: FloatArray, capacity: float) -> tuple[FloatArray, FloatArray]:
    """Spilled traffic of one tile and what is still short, for candidates that overflow. live: [steps, C].

    At each step in order the cheapest bytes go first; what one step spills is gone at the others as well.
    """
    rows = np.arange(live.shape[1])
    sizes = np.array([need.size_bytes for need in needs])  # [needs, C]
    floors = np.minimum(sizes, np.array([[need.least_bytes] for need in needs]))
    units = np.array([need.spill_unit for need in needs])
    spans = np.array([[need.start <= step < need.end for step in range(len(live))] for need in needs])
    order = np.argsort(units, axis=0, kind="stable")
    spilled = np.zeros_like(sizes)
    short = np.zeros(live.shape[1])
    for step in range(len(live)):
        over = (np.where(spans[:, step, None], sizes - spilled, 0.0)).sum(axis=0) - capacity
        for rank in range(len(needs)):
            pick = order[rank]
            room = np.where(spans[pick, step], sizes[pick, rows] - floors[pick, rows] - spilled[pick, rows], 0.0)
            take = np.clip(over, 0.0, np.maximum(room, 0.0))
            spilled[pick, rows] += take
            over = over - take
        short = np.maximum(short, over)
    return (spilled * units).sum(axis=0), np.maximum(short, 0.0)

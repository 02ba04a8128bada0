"""What of a tile's buffers stays on chip, and what goes to DRAM and back.

* An operand whose region several consecutive tiles (or blocks of a streamed reduction) share stays, where it fits
  beside everything else.
* What exceeds the capacity at a step is spilled, the cheapest bytes first (`Need.spill_unit`), down to one native block
  of each buffer, through which the rest is worked. Where even those do not fit, the tile cannot run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelmodel.cost_terms import BoolArray
from accelmodel.needs import Need, aligned
from accelmodel.operands import Operand
from accelmodel.region_walk import FloatArray
from accelmodel.target import Target


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """needs: buffers in SRAM. peak_bytes: [C] most live at one step. spill_bytes: [C] DRAM bytes of one tile.
    short_bytes: [C] what is missing for the parts that must stay: above 0 the tile cannot run."""

    needs: tuple[Need, ...]
    peak_bytes: FloatArray
    spill_bytes: FloatArray
    short_bytes: FloatArray


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
        region, old = aligned(outer[i].tile_bytes, target), result[i]
        after = live + region
        after[old.start : old.end] -= old.size_bytes
        kept[i] = (spans[i] > 1) & (after.max(axis=0) <= target.sram.capacity_bytes)
        live = np.where(kept[i], after, live)
        result[i] = replace(old, size_bytes=np.where(kept[i], 0.0, old.size_bytes))
        result.append(replace(old, role="operand", size_bytes=np.where(kept[i], region, 0.0), start=0, end=steps))
    return tuple(result), tuple(kept)


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
    units = np.array([need.spill_unit for need in needs])  # [needs, C], as all below
    order = np.argsort(units, axis=0, kind="stable")
    sizes = np.take_along_axis(np.array([need.size_bytes for need in needs]), order, axis=0)
    floors = np.minimum(sizes, np.array([need.least_bytes for need in needs])[order])
    starts, ends = np.array([need.start for need in needs])[order], np.array([need.end for need in needs])[order]
    spilled, short = np.zeros_like(sizes), np.zeros(live.shape[1])
    for step in np.flatnonzero((live > capacity).any(axis=1)):
        alive = (starts <= step) & (step < ends)
        over = np.where(alive, sizes - spilled, 0.0).sum(axis=0) - capacity
        room = np.where(alive, sizes - floors - spilled, 0.0)
        cheaper = np.cumsum(room, axis=0) - room
        spilled += np.minimum(np.maximum(over - cheaper, 0.0), room)
        short = np.maximum(short, over - cheaper[-1] - room[-1])
    return (spilled * np.take_along_axis(units, order, axis=0)).sum(axis=0), np.maximum(short, 0.0)

"""The replay without an event loop, where requests start in the order in which they arrive and no kernel slows another.

One shared first-come queue, no batches, nothing rejected, DRAM never short: then the start of a request follows from
its arrival and the instants at which slots fall free (the recursion of Kiefer and Wolfowitz 1955 for G/G/c), and the
result is that of the event loop, to the picosecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelmodel.compiled import compiled
from accelmodel.replay.records import COMPLETED, COMPUTE, EVENT, NEVER, OCCUPIED, Work
from accelmodel.replay.slots import issue, step
from accelmodel.replay.tree import lowest, set_key


@compiled
def run_in_order(work: Work, start: Any, end: Any, slot_of: Any, status: Any, fixed: Any) -> None:
    """Run all requests, in place. start, end, slot_of, status [N]. fixed [P, 2 + D]: time, bytes and drivers of each
    program, but for the scale of its one kernel's compute time; no rows where more differs from request to request."""
    clock, free, idle = work.clocks[0], work.trees[EVENT], work.trees[OCCUPIED]
    now = work.arrival[0]
    for r in range(len(work.arrival)):
        now = max(now, work.arrival[r])
        if idle[1] == NEVER:
            now = max(now, free[1])
        while free[1] <= now:
            _release(work, lowest(free))
        s = lowest(idle)
        slot = work.slots[s]
        slot.program, slot.start, slot.head = work.program_of[work.bucket[r], 1], now, r
        if len(fixed) > 0:
            _take_fixed(work, slot, r, fixed)
        else:
            _take_steps(work, slot, s, r)
        set_key(idle, s, NEVER)
        set_key(free, s, slot.event)
        start[r], end[r], slot_of[r], status[r] = now, slot.event, s, COMPLETED
        clock.now = max(clock.now, slot.event)
    clock.arrived = clock.batches = len(work.arrival)
    clock.last_arrival = work.arrival[-1]
    while free[1] != NEVER:
        _release(work, lowest(free))


@compiled
def fix_programs(work: Work, fixed: Any) -> None:
    """Time, bytes and drivers of each program, which are the same for every request. fixed [P, 2 + D], zeros."""
    slot, clock, rule = work.slots[0], work.clocks[0], work.rules[0]
    scaled, rule.scaled = rule.scaled, 0
    for p in range(len(fixed)):
        slot.program = p
        for driver in work.drivers:
            work.spent[0, driver] = 0
        issue(work, 0, 0)
        step(work, slot, 0, NEVER)
        fixed[p, 0], fixed[p, 1] = slot.event, int(slot.demand)
        for row in range(len(work.drivers)):
            fixed[p, 2 + row] = work.spent[0, work.drivers[row]]
        slot.demand = 0.0
    clock.kernels, clock.moved, rule.scaled = 0, 0, scaled


@compiled
def _release(work: Work, s: int) -> None:
    slot = work.slots[s]
    slot.busy += slot.event - slot.start
    slot.filled += slot.event - slot.start
    slot.requests += 1
    set_key(work.trees[EVENT], s, NEVER)
    set_key(work.trees[OCCUPIED], s, slot.busy)


@compiled
def _take_fixed(work: Work, slot: Any, r: int, fixed: Any) -> None:
    p, more = slot.program, 0
    if work.rules[0].scaled:
        compute = work.kernels[work.first[p]].compute
        more = int(np.rint(compute * work.scale[r])) - compute
    slot.event = slot.start + fixed[p, 0] + more
    work.clocks[0].kernels += work.first[p + 1] - work.first[p]
    work.clocks[0].moved += fixed[p, 1]
    for row in range(len(work.drivers)):
        driver = work.drivers[row]
        work.runs[row, r] = fixed[p, 2 + row] + (more if driver == COMPUTE else 0)


@compiled
def _take_steps(work: Work, slot: Any, s: int, r: int) -> None:
    for driver in work.drivers:
        work.spent[s, driver] = 0
    issue(work, s, slot.start)
    step(work, slot, s, NEVER)
    slot.demand = 0.0
    for row in range(len(work.drivers)):
        work.runs[row, r] = work.spent[s, work.drivers[row]]


@compiled
def fill_bins(work: Work, start: Any, end: Any) -> None:
    """The profile over time, once all instants are known. The bytes of a program are spread evenly over its time."""
    clock, bins, arrival = work.clocks[0], work.bins, work.arrival
    while clock.now - clock.origin > clock.bin_width * len(bins):
        clock.bin_width *= 2
    width, origin, started = clock.bin_width, clock.origin, 0
    scale = 1.0 / width
    for r in range(len(arrival)):
        program = work.program_of[work.bucket[r], 1]
        rate = work.moved[program] / max(1, end[r] - start[r])
        if start[r] > arrival[r]:
            while start[started] <= arrival[r]:
                started += 1
            i = int((arrival[r] - origin) * scale)
            bins[i].peak = max(bins[i].peak, r + 1 - started)
            _deposit(bins, arrival[r] - origin, start[r] - origin, width, scale, 1.0, 0.0, 0.0)
        _deposit(bins, start[r] - origin, end[r] - origin, width, scale, 0.0, 1.0, rate)


@compiled
def _deposit(
    bins: Any, begin: int, end: int, width: int, scale: float, waiting: float, busy: float, rate: float
) -> None:
    """Add what went on from `begin` to `end` to the bins that it touches."""
    i = min(int(begin * scale), len(bins) - 1)
    while begin < end:
        edge = end if i == len(bins) - 1 else min(end, (i + 1) * width)
        row = bins[i]
        row.waiting += waiting * (edge - begin)
        row.busy += busy * (edge - begin)
        row.dram_bytes += rate * (edge - begin)
        begin = max(begin, edge)
        i += 1

"""The event loop of the replay, compiled with numba: what happens when, from the first arrival to the last completion.

Everything is deterministic. At one instant the order is: slots by index (kernels end, the next ones start, batches
complete), arrivals in order, batches whose wait is over, requests that leave, then dispatch of ready batches.
"""

from __future__ import annotations

from typing import Any

from accelmodel.compiled import compiled
from accelmodel.replay.heap import without_root
from accelmodel.replay.policies import ITERATION, JOIN_SHORTEST_QUEUE, choose_slot
from accelmodel.replay.records import (
    COMPLETED,
    DONE,
    ENDING,
    EVENT,
    IDLE,
    MORE_ARRIVALS,
    MORE_BATCHES,
    NEVER,
    NONE,
    OCCUPIED,
    RUNNING,
    Work,
)
from accelmodel.replay.slots import run_slot, share_bandwidth, start_program
from accelmodel.replay.tree import lowest, set_key
from accelmodel.replay.waiting import admit, count_load, expire, look_at, next_expiry, set_free, time_out


@compiled
def run(work: Work) -> int:
    """Run in place until all is done, or more arrivals or a larger pool of batches are needed; gives which."""
    clock, rule = work.clocks[0], work.rules[0]
    while True:
        if clock.arrived == clock.available and not clock.final:
            return MORE_ARRIVALS
        now = min(next_expiry(work), work.trees[EVENT, 1])
        if clock.arrived < clock.available:
            now = min(now, work.arrival[clock.arrived & rule.mask])
        if now == NEVER:
            return DONE
        _advance(clock, work.bins, len(work.slots), now)
        while work.trees[EVENT, 1] <= now:
            _settle(work, lowest(work.trees[EVENT]), now)
        while clock.arrived < clock.available and work.arrival[clock.arrived & rule.mask] == now:
            if clock.free == NONE:
                return MORE_BATCHES
            q = admit(work, clock.arrived)
            clock.arrived += 1
            clock.last_arrival = now
            if q != NONE and work.buckets[work.bucket[(clock.arrived - 1) & rule.mask]].limit == 1:
                _dispatch(work, q)
        expire(work)
        time_out(work)
        while clock.dirty > 0:
            clock.dirty -= 1
            q = work.dirty[clock.dirty]
            work.queues[q].dirty = 0
            _dispatch(work, q)
        if clock.shared_changed:
            share_bandwidth(work)


@compiled
def _advance(clock: Any, bins: Any, slot_count: int, now: int) -> None:
    """Move the clock, adding what happened since the last instant to the profile's bins (widened to fit)."""
    begin = clock.now
    clock.now = now
    if now == begin:
        return
    if clock.idle_slots > 0:
        clock.idle_time += now - begin
    while now - clock.origin > clock.bin_width * len(bins):
        _widen(bins)
        clock.bin_width *= 2
    while begin < now:
        i = (begin - clock.origin) // clock.bin_width
        end = min(now, clock.origin + (i + 1) * clock.bin_width)
        row = bins[i]
        row.dram_bytes += clock.granted * (end - begin)
        row.waiting += float(clock.waiting) * (end - begin)
        row.busy += float(slot_count - clock.idle_slots) * (end - begin)
        row.peak = max(row.peak, clock.waiting)
        begin = end


@compiled
def _widen(bins: Any) -> None:
    """Merge the bins two by two; the upper half becomes free. Their number is even."""
    half = len(bins) // 2
    for i in range(len(bins)):
        row = bins[i]
        if i >= half:
            row.dram_bytes, row.waiting, row.busy, row.peak = 0.0, 0.0, 0.0, 0
            continue
        low, high = bins[2 * i], bins[2 * i + 1]
        row.dram_bytes = low.dram_bytes + high.dram_bytes
        row.waiting = low.waiting + high.waiting
        row.busy = low.busy + high.busy
        row.peak = max(low.peak, high.peak)


@compiled
def _settle(work: Any, s: int, now: int) -> None:
    """Do everything that is due on the slot at this instant."""
    slot = work.slots[s]
    if slot.phase != ENDING:
        run_slot(work, s, now)
        if slot.phase != ENDING or slot.event > now:
            return
    _end_iteration(work, s, now)


@compiled
def _dispatch(work: Any, q: int) -> None:
    """Start ready batches of the queue while it has an idle slot."""
    queue = work.queues[q]
    while queue.root != NONE and work.clocks[0].idle_slots > 0:
        b = queue.root
        s = choose_slot(work, q, work.batches[b].first)
        if s == NONE:
            return
        slot, clock = work.slots[s], work.clocks[0]
        row = work.batches[b]
        slot.head, slot.run, slot.bucket, slot.start, slot.iteration = row.head, row.number, row.bucket, clock.now, 0
        slot.first, slot.size = NONE, 0
        for driver in work.drivers:
            work.spent[s, driver] = 0
        _take_on(work, s, b)
        if work.rules[0].batching == ITERATION:
            _let_join(work, s)
        clock.idle_slots -= 1
        set_key(work.trees[OCCUPIED], s, NEVER)
        slot.program = work.program_of[slot.bucket, slot.size]
        start_program(work, s, clock.now)


@compiled
def _take_on(work: Any, s: int, b: int) -> None:
    """Take the first ready batch, b, out of its queue and put its members on the slot."""
    clock, slot, row = work.clocks[0], work.slots[s], work.batches[b]
    work.queues[row.queue].root = without_root(work.batches, b)
    if work.open_batch[row.cell] == b:
        work.open_batch[row.cell] = NONE
    clock.virtual = max(clock.virtual, row.key)
    clock.waiting -= row.size
    if work.buckets[row.bucket].rank > work.buckets[slot.bucket].rank:
        slot.bucket = row.bucket
    place = row.first
    while place != NONE:
        request = work.requests[place]
        following = request.next
        ready = max(request.idle_at_arrival, row.idle_at_ready)  # it may have joined after the batch was ready
        request.start, request.status = clock.now, RUNNING
        request.imbalance, request.batching = clock.idle_time - ready, ready - request.idle_at_arrival
        request.slot, request.batch = s, slot.run
        request.left = work.iterations[place] if work.rules[0].batching == ITERATION else 1
        for column in range(len(work.drivers)):
            work.runs[column, place] = -work.spent[s, work.drivers[column]]
        work.streams[work.stream[place]].slot = s
        request.next = slot.first
        slot.first = place
        slot.size += 1
        place = following
    set_free(work, b)


@compiled
def _end_iteration(work: Any, s: int, now: int) -> None:
    """The program has ended: members that need no more complete, others join, and it runs again or the slot idles."""
    slot, rule, clock = work.slots[s], work.rules[0], work.clocks[0]
    if rule.solo and slot.demand > 0.0:
        clock.granted -= slot.demand
        slot.demand = 0.0
    slot.filled += slot.size / work.buckets[slot.bucket].width * (now - slot.since)
    _complete(work, s, now)
    if rule.batching == ITERATION:
        _let_join(work, s)
    if slot.size == 0:
        _become_idle(work, s, now)
        return
    slot.iteration += 1
    slot.program = work.program_of[slot.bucket, slot.size]
    start_program(work, s, now)


@compiled
def _complete(work: Any, s: int, now: int) -> None:
    """Members whose last iteration this was complete, with the slot's drivers since they joined."""
    slot, size = work.slots[s], work.slots[s].size
    kept, largest = NONE, NONE
    place = slot.first
    while place != NONE:
        request = work.requests[place]
        following = request.next
        request.left -= 1
        if request.left > 0:
            request.next = kept
            kept = place
            if largest == NONE or work.buckets[work.bucket[place]].rank > work.buckets[largest].rank:
                largest = work.bucket[place]
        else:
            request.end, request.status, request.batch_size, request.padded = now, COMPLETED, size, slot.program
            for column in range(len(work.drivers)):
                work.runs[column, place] += work.spent[s, work.drivers[column]]
            slot.size -= 1
            slot.requests += 1
            if work.rules[0].core == JOIN_SHORTEST_QUEUE:
                count_load(work, slot.queue, -1)
        place = following
    slot.first = kept
    if largest != NONE:
        slot.bucket = largest


@compiled
def _let_join(work: Any, s: int) -> None:
    """Let waiting requests of the same workload join, in the queue's order; none passes one that may not."""
    slot = work.slots[s]
    queue = work.queues[slot.queue]
    while slot.size > 0 and queue.root != NONE:
        bucket = work.buckets[work.batches[queue.root].bucket]
        if bucket.family != work.buckets[slot.bucket].family or slot.size >= bucket.width:
            return
        _take_on(work, s, queue.root)


@compiled
def _become_idle(work: Any, s: int, now: int) -> None:
    slot, clock = work.slots[s], work.clocks[0]
    slot.busy += now - slot.start
    slot.batches += 1
    slot.phase, slot.event = IDLE, NEVER
    set_key(work.trees[EVENT], s, NEVER)
    set_key(work.trees[OCCUPIED], s, slot.busy)
    clock.idle_slots += 1
    look_at(work, slot.queue)

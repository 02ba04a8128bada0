"""The event loop of the replay, compiled with numba: arrivals, admission, batches, and their dispatch to slots.

Everything is deterministic. At one instant the order is: slots by index (kernels end, the next ones start), arrivals
in order, batches whose wait is over, then dispatch of ready batches in the order in which they were opened.
"""

from __future__ import annotations

from typing import Any

from accelmodel.compiled import compiled
from accelmodel.replay_records import IDLE, NEVER, NONE
from accelmodel.replay_slots import settle, share_bandwidth, start_program


@compiled
def run(
    arrival: Any, bucket: Any, scale: Any, limit: Any, program_of: Any, first: Any, kernels: Any, rules: Any,
    slots: Any, queues: Any, open_batch: Any, batches: Any, batch_of: Any, idle_at_arrival: Any, bins: Any, clocks: Any,
) -> None:  # fmt: skip
    """Run all requests to their end, in place. arrival, bucket [N]; scale [N] or [0]; limit [B]; program_of
    [B, max batch + 1]; first [P + 1] rows of kernels; batches [N]; batch_of, idle_at_arrival [N]."""
    clock, rule = clocks[0], rules[0]
    work = (rule, slots, queues, open_batch, batches, kernels, first, program_of, scale)
    while True:
        now = _next_instant(clock, rule, arrival, slots, batches)
        if now == NEVER:
            return
        _advance(clock, bins, len(slots), now)
        for s in range(len(slots)):
            settle(clock, work, s)
        while clock.arrived < len(arrival) and arrival[clock.arrived] == now:
            request = clock.arrived
            clock.arrived += 1
            _admit(clock, work, request, bucket[request], limit, batch_of)
            idle_at_arrival[request] = clock.idle_time
            if limit[bucket[request]] == 1:
                _dispatch(clock, work)
        _expire(clock, rule, arrival, queues, batches)
        _dispatch(clock, work)
        if clock.shared_changed:
            share_bandwidth(clock, rule, slots)


@compiled
def _next_instant(clock: Any, rule: Any, arrival: Any, slots: Any, batches: Any) -> int:
    """Earliest instant at which anything happens; NEVER when all is done."""
    instant = NEVER
    if clock.arrived < len(arrival):
        instant = arrival[clock.arrived]
    while clock.expired < clock.batches and batches[clock.expired].ready != NEVER:
        clock.expired += 1
    if clock.expired < clock.batches:
        instant = min(instant, arrival[batches[clock.expired].head] + rule.max_wait)
    for s in range(len(slots)):
        instant = min(instant, slots[s].event)
    return instant


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
def _admit(clock: Any, work: Any, request: int, bucket: int, limit: Any, batch_of: Any) -> None:
    """Reject the request, let it join its bucket's open batch, or open a batch for it in the queue of the policy."""
    rule, slots, queues, open_batch, batches, _, _, _, _ = work
    if rule.admit_limit > 0 and clock.waiting >= rule.admit_limit:
        batch_of[request] = NONE
        return
    clock.waiting += 1
    b = open_batch[bucket]
    if b == NONE:
        b = clock.batches
        clock.batches += 1
        row = batches[b]
        row.head, row.next, row.size, row.bucket, row.ready = request, NONE, 0, bucket, NEVER
        row.queue = _choose_queue(clock, rule, slots)
        queue = queues[row.queue]
        if queue.first == NONE:
            queue.first = b
        else:
            batches[queue.last].next = b
        queue.last = b
        open_batch[bucket] = b
    row = batches[b]
    row.size += 1
    batch_of[request] = b
    if rule.own_queues:
        slots[row.queue].queued += 1
    if row.size == limit[bucket]:
        open_batch[bucket] = NONE
    if row.ready == NEVER and (row.size == limit[bucket] or rule.max_wait == 0):
        _mark_ready(clock, queues, row)


@compiled
def _choose_queue(clock: Any, rule: Any, slots: Any) -> int:
    """Queue of a new batch: the shared one; each slot's in turn; or that with the fewest requests, first of equals."""
    if not rule.own_queues:
        return 0
    if not rule.shortest:
        chosen = clock.turn
        clock.turn = (clock.turn + 1) % len(slots)
        return int(chosen)
    best = 0
    for s in range(1, len(slots)):
        if slots[s].queued < slots[best].queued:
            best = s
    return best


@compiled
def _mark_ready(clock: Any, queues: Any, row: Any) -> None:
    """The batch may run from now on. It takes in later requests of its bucket until it is full or starts."""
    row.ready = clock.now
    row.idle_at_ready = clock.idle_time
    queues[row.queue].ready += 1


@compiled
def _expire(clock: Any, rule: Any, arrival: Any, queues: Any, batches: Any) -> None:
    """Batches whose first request has waited long enough become ready. Waits end in the order of opening."""
    while clock.expired < clock.batches:
        row = batches[clock.expired]
        if row.ready == NEVER:
            if arrival[row.head] + rule.max_wait > clock.now:
                return
            _mark_ready(clock, queues, row)
        clock.expired += 1


@compiled
def _dispatch(clock: Any, work: Any) -> None:
    """Start ready batches on idle slots: from the shared queue on the slot that has worked least, or each its own."""
    rule, slots, queues, _, _, _, _, _, _ = work
    if clock.idle_slots == 0:
        return
    if rule.own_queues:
        for s in range(len(slots)):
            while slots[s].phase == IDLE and queues[s].ready > 0:
                _start_batch(clock, work, s, s)
        return
    while queues[0].ready > 0 and clock.idle_slots > 0:
        best = NONE
        for s in range(len(slots)):
            if slots[s].phase == IDLE and (best == NONE or slots[s].busy < slots[best].busy):
                best = s
        _start_batch(clock, work, 0, best)


@compiled
def _start_batch(clock: Any, work: Any, q: int, s: int) -> None:
    """Take the first ready batch of queue q and start its program on slot s."""
    _, _, queues, open_batch, batches, _, _, program_of, _ = work
    queue, before = queues[q], NONE
    b = queue.first
    while batches[b].ready == NEVER:  # at most one batch of each bucket is still filling
        before, b = b, batches[b].next
    row = batches[b]
    if before == NONE:
        queue.first = row.next
    else:
        batches[before].next = row.next
    if queue.last == b:
        queue.last = before
    queue.ready -= 1
    if open_batch[row.bucket] == b:
        open_batch[row.bucket] = NONE
    clock.waiting -= row.size
    clock.idle_slots -= 1
    row.slot, row.start, row.idle_at_start = s, clock.now, clock.idle_time
    row.program = program_of[row.bucket, row.size]
    start_program(clock, work, s, b)

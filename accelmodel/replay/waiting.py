"""Requests until they start: admission, the batch they wait in, when it may run, and what leaves before it does."""

from __future__ import annotations

from typing import Any

from accelmodel.compiled import compiled
from accelmodel.replay.heap import meld, moved_up, without
from accelmodel.replay.policies import JOIN_SHORTEST_QUEUE, choose_queue, key_of
from accelmodel.replay.records import LOAD, NEVER, NONE, QUEUED, REJECTED, TIMED_OUT
from accelmodel.replay.tree import set_key


@compiled
def admit(work: Any, number: int) -> int:
    """Reject the request (gives NONE), or put it into the open batch of its kind, opening one; gives its queue."""
    clock, rule = work.clocks[0], work.rules[0]
    place = number & rule.mask
    request, bucket = work.requests[place], work.buckets[work.bucket[place]]
    request.idle_at_arrival = clock.idle_time
    if rule.admit_limit > 0 and clock.waiting >= rule.admit_limit:
        request.status = REJECTED
        return NONE
    clock.waiting += 1
    request.status, request.next = QUEUED, NONE
    cell = bucket.family * len(work.streams) + work.streams[work.stream[place]].order
    key = key_of(work, place, work.arrival[place])
    b = work.open_batch[cell]
    if b == NONE:
        b = _open(work, number, cell, key)
    else:
        _join(work, b, place, key)
    row = work.batches[b]
    request.pool = b
    if row.size == bucket.limit:
        work.open_batch[cell] = NONE
    if not row.ready and (row.size == bucket.limit or rule.max_wait == 0):
        mark_ready(work, b)
    if rule.core == JOIN_SHORTEST_QUEUE:
        count_load(work, row.queue, 1)
    return int(row.queue)


@compiled
def _open(work: Any, number: int, cell: int, key: int) -> int:
    """A new batch from the pool, with one member, at the end of those that are filling."""
    clock, place = work.clocks[0], number & work.rules[0].mask
    b = clock.free
    row = work.batches[b]
    clock.free = row.following
    row.key, row.number, row.opened, row.head = key, clock.batches, clock.now, number
    row.first, row.last, row.size = place, place, 1
    row.bucket, row.cell, row.ready = work.bucket[place], cell, 0
    row.child, row.sibling, row.before = NONE, NONE, NONE
    row.queue = choose_queue(work, place)
    row.previous, row.following = clock.newest, NONE
    if clock.newest == NONE:
        clock.filling = b
    else:
        work.batches[clock.newest].following = b
    clock.newest = b
    clock.batches += 1
    work.open_batch[cell] = b
    return int(b)


@compiled
def _join(work: Any, b: int, place: int, key: int) -> None:
    """Add a member: the batch is as urgent as the most urgent of them and as large as the largest."""
    row, buckets = work.batches[b], work.buckets
    work.requests[row.last].next = place
    row.last = place
    row.size += 1
    if buckets[work.bucket[place]].rank > buckets[row.bucket].rank:
        row.bucket = work.bucket[place]
    if key < row.key:
        row.key = key
        if row.ready:
            work.queues[row.queue].root = moved_up(work.batches, work.queues[row.queue].root, b)


@compiled
def mark_ready(work: Any, b: int) -> None:
    """The batch may run from now on. It takes in later requests of its kind until it is full or starts."""
    clock, row = work.clocks[0], work.batches[b]
    row.ready, row.idle_at_ready = 1, clock.idle_time
    _leave_filling(work, row)
    queue = work.queues[row.queue]
    queue.root = meld(work.batches, queue.root, b)
    look_at(work, row.queue)


@compiled
def _leave_filling(work: Any, row: Any) -> None:
    clock = work.clocks[0]
    if row.previous == NONE:
        clock.filling = row.following
    else:
        work.batches[row.previous].following = row.following
    if row.following == NONE:
        clock.newest = row.previous
    else:
        work.batches[row.following].previous = row.previous


@compiled
def look_at(work: Any, q: int) -> None:
    """Remember that a batch of this queue may now start."""
    queue, clock = work.queues[q], work.clocks[0]
    if not queue.dirty:
        queue.dirty = 1
        work.dirty[clock.dirty] = q
        clock.dirty += 1


@compiled
def count_load(work: Any, q: int, change: int) -> None:
    """Requests in a slot's own queue and on the slot."""
    tree = work.trees[LOAD]
    set_key(tree, q, tree[(len(tree) >> 1) + q] + change)


@compiled
def next_expiry(work: Any) -> int:
    """The next instant at which a batch has waited long enough, or a request too long; NEVER where none does."""
    clock, rule = work.clocks[0], work.rules[0]
    instant = NEVER
    if clock.filling != NONE:
        instant = work.batches[clock.filling].opened + rule.max_wait
    if rule.timeout > 0:
        _skip_started(work)
        if clock.oldest < clock.arrived:
            instant = min(instant, work.arrival[clock.oldest & rule.mask] + rule.timeout)
    return int(instant)


@compiled
def _skip_started(work: Any) -> None:
    clock, mask = work.clocks[0], work.rules[0].mask
    while clock.oldest < clock.arrived and work.requests[clock.oldest & mask].status != QUEUED:
        clock.oldest += 1


@compiled
def expire(work: Any) -> None:
    """Batches whose opener has waited long enough become ready. Waits end in the order of opening."""
    clock, rule = work.clocks[0], work.rules[0]
    while clock.filling != NONE and work.batches[clock.filling].opened + rule.max_wait <= clock.now:
        mark_ready(work, clock.filling)


@compiled
def time_out(work: Any) -> None:
    """Requests that have waited too long leave; they do so in the order of arrival, so each is first in its batch."""
    clock, rule = work.clocks[0], work.rules[0]
    if rule.timeout == 0:
        return
    _skip_started(work)
    while clock.oldest < clock.arrived and work.arrival[clock.oldest & rule.mask] + rule.timeout <= clock.now:
        _leave(work, clock.oldest & rule.mask)
        _skip_started(work)


@compiled
def _leave(work: Any, place: int) -> None:
    """Take a waiting request out of its batch, and the batch out of everything where it was the last."""
    request = work.requests[place]
    b = request.pool
    row = work.batches[b]
    request.status = TIMED_OUT
    work.clocks[0].waiting -= 1
    row.first, row.size = request.next, row.size - 1
    if work.rules[0].core == JOIN_SHORTEST_QUEUE:
        count_load(work, row.queue, -1)
    if row.size > 0:
        return
    if work.open_batch[row.cell] == b:
        work.open_batch[row.cell] = NONE
    if row.ready:
        work.queues[row.queue].root = without(work.batches, work.queues[row.queue].root, b)
    else:
        _leave_filling(work, row)
    set_free(work, b)


@compiled
def set_free(work: Any, b: int) -> None:
    """Give a row back to the pool."""
    clock = work.clocks[0]
    work.batches[b].following = clock.free
    clock.free = b

"""The policies of the runtime in one table, and what each decides: small functions of numbers, compiled with numba.

One more policy is one more row and one more case in the function of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accelmodel.compiled import compiled
from accelmodel.replay.records import IDLE, LOAD, NONE, OCCUPIED
from accelmodel.replay.tree import lowest

FIFO, PRIORITY, EARLIEST_DEADLINE, WEIGHTED_FAIR = range(4)
BUCKET, PADDED, ITERATION = range(3)
LEAST_LOADED, ROUND_ROBIN, JOIN_SHORTEST_QUEUE, AFFINITY, PARTITIONED = range(5)


@dataclass(frozen=True, slots=True)
class Policy:
    """kind: the setting that names it: queue, batching or core_policy."""

    kind: str
    name: str
    code: int
    says: str


POLICIES = (
    Policy("queue", "fifo", FIFO, "in the order in which batches were opened"),
    Policy("queue", "priority", PRIORITY, "lowest level of the stream first; what runs is not interrupted"),
    Policy("queue", "earliest_deadline", EARLIEST_DEADLINE, "earliest arrival + deadline of the stream first"),
    Policy("queue", "weighted_fair", WEIGHTED_FAIR, "start-time fair queueing: streams share by weight"),
    Policy("batching", "bucket", BUCKET, "requests of one shape bucket, until full or the wait is over"),
    Policy("batching", "padded", PADDED, "requests of one workload, all padded to the largest bucket among them"),
    Policy("batching", "iteration", ITERATION, "requests of one workload that join and leave between iterations"),
    Policy("core_policy", "least_loaded", LEAST_LOADED, "one queue; the idle slot that has worked least"),
    Policy("core_policy", "round_robin", ROUND_ROBIN, "a queue a slot; each new batch to the next in turn"),
    Policy("core_policy", "join_shortest_queue", JOIN_SHORTEST_QUEUE, "a queue a slot; to that with fewest requests"),
    Policy("core_policy", "affinity", AFFINITY, "one queue; the slot that served the stream last, if it is idle"),
    Policy("core_policy", "partitioned", PARTITIONED, "slots parted among streams; a queue a part"),
)
CORE_POLICIES = tuple(policy.name for policy in POLICIES if policy.kind == "core_policy")


def code_of(kind: str, name: str) -> int:
    """Code of a policy, -1 where there is none of this name."""
    return next((policy.code for policy in POLICIES if (policy.kind, policy.name) == (kind, name)), NONE)


@compiled
def key_of(work: Any, place: int, arrival: int) -> int:
    """What orders a request among those that wait; the least is served first, equals by their batch's number."""
    rule, stream = work.rules[0], work.streams[work.stream[place]]
    if rule.queue == PRIORITY:
        return int(stream.urgency)
    if rule.queue == EARLIEST_DEADLINE:
        return int(arrival + stream.urgency)
    if rule.queue == WEIGHTED_FAIR:
        # Goyal, Vin, Cheng 1996: start tag = max(virtual time, finish tag of the stream's request before it).
        tag = max(work.clocks[0].virtual, stream.tag)
        stream.tag = tag + int(work.buckets[work.bucket[place]].cost / stream.weight)
        return int(tag)
    return 0


@compiled
def choose_queue(work: Any, place: int) -> int:
    """Queue of a new batch, by the core policy."""
    clock, rule = work.clocks[0], work.rules[0]
    if rule.core == ROUND_ROBIN:
        chosen = clock.turn
        clock.turn = (clock.turn + 1) % len(work.queues)
        return int(chosen)
    if rule.core == JOIN_SHORTEST_QUEUE:
        return lowest(work.trees[LOAD])
    return int(work.streams[work.stream[place]].queue)


@compiled
def choose_slot(work: Any, q: int, place: int) -> int:
    """An idle slot of the queue for a batch whose first member is at `place`; NONE where all are busy."""
    queue, slots = work.queues[q], work.slots
    if queue.high - queue.low == 1:
        return int(queue.low) if slots[queue.low].phase == IDLE else NONE
    if work.rules[0].core == AFFINITY:
        usual = work.streams[work.stream[place]].slot
        if usual != NONE and slots[usual].phase == IDLE:
            return int(usual)
    if len(work.queues) == 1:
        least = lowest(work.trees[OCCUPIED])
        return least if slots[least].phase == IDLE else NONE
    best = NONE
    for s in range(queue.low, queue.high):
        if slots[s].phase == IDLE and (best == NONE or slots[s].busy < slots[best].busy):
            best = s
    return best

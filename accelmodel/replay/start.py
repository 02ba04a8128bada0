"""The engine's tables before the first arrival, and the engine run on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.replay import engine
from accelmodel.replay.policies import ITERATION
from accelmodel.replay.records import (
    BATCH,
    BIN,
    CLOCK,
    EVENT,
    IDLE,
    LOAD,
    MORE_BATCHES,
    NEVER,
    NONE,
    OCCUPIED,
    QUEUE,
    REQUEST,
    SLOT,
    Work,
)
from accelmodel.replay.requests import Requests
from accelmodel.replay.system import System
from accelmodel.replay.tree import new_trees

PROFILE_BINS = 512


def run_on(work: Work) -> Work:
    """Run the engine, with a larger pool of batches whenever it asks for one."""
    while engine.run(work) == MORE_BATCHES:
        larger = np.zeros(4 * len(work.batches), dtype=BATCH)
        larger[: len(work.batches)] = work.batches
        _link_free(larger, len(work.batches))
        work.clocks[0]["free"] = len(work.batches)
        work = work._replace(batches=larger)
    return work


def _link_free(batches: npt.NDArray[Any], begin: int) -> None:
    batches["following"][begin:] = np.arange(begin + 1, len(batches) + 1)
    batches["following"][-1] = NONE


def blank(count: int) -> npt.NDArray[Any]:
    requests = np.zeros(count, dtype=REQUEST)
    for name in ("start", "end", "slot", "batch"):
        requests[name] = NONE
    return requests


def new_work(
    system: System, requests: Requests, scale: npt.NDArray[np.float64], records: npt.NDArray[Any], pool: int
) -> Work:
    """Everything as it is before the first arrival."""
    count, slots = len(requests.arrival_ps), system.slot_count
    clocks = np.zeros(1, dtype=CLOCK)
    clocks["now"] = clocks["origin"] = requests.arrival_ps[0]
    clocks["idle_slots"] = slots
    clocks["filling"] = clocks["newest"] = NONE
    clocks["bin_width"] = max(1, int(requests.arrival_ps[-1] - requests.arrival_ps[0]) // PROFILE_BINS)
    batches = np.zeros(pool, dtype=BATCH)
    _link_free(batches, 0)
    slot_table, queues = _slots_and_queues(slots, system.queue_count)
    trees = new_trees(3, slots)
    leaves = trees.shape[1] // 2
    trees[OCCUPIED] = trees[LOAD] = 0
    trees[OCCUPIED, leaves + slots :] = trees[LOAD, leaves + slots :] = NEVER
    for i in range(leaves - 1, 0, -1):
        trees[:, i] = np.minimum(trees[:, 2 * i], trees[:, 2 * i + 1])
    assert trees[EVENT, 1] == NEVER
    families = int(system.buckets["family"].max()) + 1
    each = count if system.rules[0]["batching"] == ITERATION else 1
    iterations = np.ones(each, np.int32) if requests.iterations is None else requests.iterations
    return Work(
        rules=system.rules, clocks=clocks, arrival=requests.arrival_ps, bucket=requests.bucket,
        stream=requests.stream, scale=scale, iterations=iterations, requests=records,
        runs=np.zeros((len(system.drivers), count), dtype=np.int64), drivers=system.drivers, buckets=system.buckets,
        streams=system.streams.copy(), program_of=system.program_of, first=system.first, kernels=system.kernels,
        moved=system.moved,
        slots=slot_table, spent=np.zeros((slots, 8), dtype=np.int64), queues=queues,
        dirty=np.zeros(system.queue_count, dtype=np.int32), trees=trees, batches=batches,
        open_batch=np.full(families * len(system.streams), NONE, dtype=np.int32),
        bins=np.zeros(PROFILE_BINS, dtype=BIN), factors=system.factors, throttle=system.throttle,
    )  # fmt: skip


def _slots_and_queues(slot_count: int, queue_count: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Idle slots, parted as evenly as can be among the queues, in order."""
    slots = np.zeros(slot_count, dtype=SLOT)
    slots["event"], slots["phase"] = NEVER, IDLE
    queues = np.zeros(queue_count, dtype=QUEUE)
    queues["root"] = NONE
    edges = np.arange(queue_count + 1) * slot_count // queue_count
    queues["low"], queues["high"] = edges[:-1], edges[1:]
    slots["queue"] = np.repeat(np.arange(queue_count), np.diff(edges))
    return slots, queues

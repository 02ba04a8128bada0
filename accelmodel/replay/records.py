"""The records that the replay's compiled code works on, and the bundle in which its functions hand them on.

Times are integer picoseconds, bandwidth is bytes per picosecond. Column names are the fields of the dtypes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NEVER = np.iinfo(np.int64).max
NONE = -1
IDLE, WAITING, BUSY, ENDING = 0, 1, 2, 3  # what a slot does
PENDING, QUEUED, RUNNING, COMPLETED, REJECTED, TIMED_OUT = range(6)  # what became of a request
RUN_DRIVERS = ("launch", "compute", "memory", "contention", "sync", "noise", "throttle", "fallback")
LAUNCH, COMPUTE, MEMORY, CONTENTION, SYNC, NOISE, THROTTLE, FALLBACK = range(8)
EVENT, OCCUPIED, LOAD = 0, 1, 2  # rows of `trees`
DONE, MORE_BATCHES, MORE_ARRIVALS = 0, 1, 2  # why the engine returned


def _record(integers: str, floats: str = "", small: str = "", flags: str = "") -> np.dtype[np.void]:
    """A record of named columns: int64 and float64, then int32 and bool."""
    kinds = ((integers, np.int64), (floats, np.float64), (small, np.int32), (flags, np.bool_))
    return np.dtype([(name, kind) for names, kind in kinds for name in names.split()], align=True)


# `host`: busy time of an op on the host; `least`: time that its bytes take at DRAM's peak; `fallback`: all its time is.
KERNEL = _record("launch compute memory throttle host barrier least", "dram_bytes", flags="fallback")

# `idle_at_arrival`: how long, up to its arrival, some slot was idle. `next`: place of the next member of its batch;
# `pool`: row of its batch while it waits; `left`: iterations still to run.
REQUEST = _record(
    "start end imbalance batching idle_at_arrival", small="slot batch batch_size padded next pool left status"
)

# A batch until it starts, in a pool. Ordered by (key, number). `head`: number of the request that opened it; `first`,
# `last`: places of its members. `child`, `sibling`, `before`: links of the heap of ready batches; `previous`,
# `following`: links of those that are still filling, in the order of opening; `following` also links free rows.
BATCH = _record(
    "key number opened idle_at_ready head",
    small="first last size bucket queue cell ready child sibling before previous following",
)

# `event`: the instant of what it does next. `kernel`, `last`: rows of KERNEL. `issued`: how far the host has issued.
# `alone`, `began`: of the running kernel; `remaining` of it at `updated`, falling by `rate` each picosecond. `filled`:
# busy time times the share of the largest batch that was used;
# `since`: its program began. `run`, `head`, `first`, `size`: its batch;
# `iteration`: of it, from 0.
SLOT = _record(
    "event kernel last issued alone began updated start since busy batches requests run head iteration",
    "remaining rate demand filled",
    "phase program first size bucket queue",
)

# Slots `low` to `high` (excluded) serve the queue. `root`: of its heap of ready batches.
QUEUE = _record("", small="root low high dirty")

# `limit`: most requests of a batch while it waits, `width`: on a slot. `family`: what batches together; `rank`: its
# place there by size. `cost`: busy time of one request.
BUCKET = _record("cost", small="limit width family rank")

# `urgency`: level of priority, or time from arrival to deadline. `tag`: virtual time at which its next request may
# start. `order`: streams of one order share batches. `slot`: that served it last.
STREAM = _record("urgency tag", "weight", "order queue slot")

RULES = _record("max_wait timeout admit_limit seed mask", "bandwidth noise_sigma", "queue core batching", "solo scaled")

# `arrived`, `batches`: requests and batches so far; of the arrivals up to `available`, and no more where `final`.
# `oldest`: requests before it wait no more. `moved`: bytes of the programs started. `free`: a row of the pool.
# `filling`: the oldest batch that is not ready.
CLOCK = _record(
    "now idle_time idle_slots waiting arrived available batches oldest turn kernels bin_width origin last_arrival "
    "virtual moved",
    "granted",
    "free filling newest dirty final contended shared_changed",
)

# Integrals over one bin of the profile, and the most requests that waited at once.
BIN = _record("peak", "dram_bytes waiting busy")

SCHEDULE = _record("at", "clock")


class Work(NamedTuple):
    """Everything the engine reads and writes. N: requests, or places of the ring where arrivals are streamed.

    rules, clocks [1]. arrival, bucket, stream [N]; scale, iterations [N] or [1]. requests [N]; runs [D, N]: the
    drivers that can occur, `drivers` [D] says which. buckets [B]; streams [T]; program_of [B, max batch + 1]; first
    [P + 1] rows of kernels; moved [P]: bytes. slots [S]; spent [S, 8]: drivers of the running batch; queues [Q];
    dirty [Q]: queues to look at; trees [3, 2 x leaves]; batches: the pool; open_batch [cells]. bins; factors: measured
    noise, or [0]; throttle: the clock schedule, or [0].
    """

    rules: Any
    clocks: Any
    arrival: Any
    bucket: Any
    stream: Any
    scale: Any
    iterations: Any
    requests: Any
    runs: Any
    drivers: Any
    buckets: Any
    streams: Any
    program_of: Any
    first: Any
    kernels: Any
    moved: Any
    slots: Any
    spent: Any
    queues: Any
    dirty: Any
    trees: Any
    batches: Any
    open_batch: Any
    bins: Any
    factors: Any
    throttle: Any

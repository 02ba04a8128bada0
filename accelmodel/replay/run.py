"""The replay of a whole record of requests, or of one that streams by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from accelmodel.replay import express
from accelmodel.replay.records import REQUEST, Work
from accelmodel.replay.requests import Bucket, Requests, require
from accelmodel.replay.result import Columns, Replayed, summarise
from accelmodel.replay.start import blank, new_work, run_on
from accelmodel.replay.stream import Ring
from accelmodel.replay.system import System, build_system
from accelmodel.settings import Settings
from accelmodel.target import Target

_FIRST_POOL = 1024


def replay(
    requests: Requests,
    buckets: Sequence[Bucket],
    target: Target,
    settings: Settings,
    seed: int,
    service_scale: npt.NDArray[np.float64] | None = None,
) -> Replayed:
    """Run the requests to completion. Deterministic in all arguments.

    Reads ingress.admit_limit, the scheduling settings, execution's noise and clock schedule, and assembly.sla_us as
    the deadline of streams without one. service_scale [N] multiplies the compute time of the program that the batch
    headed by that request runs (for service times known per request). A rate above capacity is no error: the result
    says `unstable`, and its percentiles mean nothing.
    """
    scale = np.ones(1) if service_scale is None else service_scale
    scaled, count = service_scale is not None, len(requests.arrival_ps)
    require(not scaled or len(scale) == count, "service_scale", "one factor a request", str(len(scale)))
    _check_buckets(requests, len(buckets))
    system = build_system(buckets, target, settings, seed, requests.streams, requests.stream_count, scaled)
    if system.in_order:
        work, columns = _in_order(system, requests, scale)
    else:
        work, columns = _by_events(system, requests, scale)
    return summarise(requests, columns, work, system, target)


def replay_stream(
    chunks: Iterable[Requests],
    buckets: Sequence[Bucket],
    target: Target,
    settings: Settings,
    seed: int,
    streams: Sequence[str],
) -> Iterator[Replayed]:
    """Replay requests that come in chunks, each in order and no earlier than the one before it, in bounded memory.

    Yields the same results as `replay` of all chunks at once, part by part in the order of arrival: after each chunk
    the requests before the first that is still in flight. Load, profile and utilisation of a part are those so far.
    streams: names of all streams.
    """  # fmt: skip
    system = build_system(buckets, target, settings, seed, tuple(streams), max(1, len(streams)), False)
    ring = Ring(system, target)
    for chunk in chunks:
        _check_buckets(chunk, len(buckets))
        require(int(chunk.stream.max()) < max(1, len(streams)), "requests, stream", f"an index below {len(streams)}",
                str(int(chunk.stream.max())))  # fmt: skip
        yield from ring.feed(chunk)
    yield from ring.finish()


def _check_buckets(requests: Requests, count: int) -> None:
    low, high = int(requests.bucket.min()), int(requests.bucket.max())
    require(low >= 0 and high < count, "requests, bucket", f"an index below {count}", f"{low} to {high}")


def _in_order(system: System, requests: Requests, scale: npt.NDArray[np.float64]) -> tuple[Work, Columns]:
    count = len(requests.arrival_ps)
    work = new_work(system, requests, scale, np.zeros(1, dtype=REQUEST), pool=1)
    columns = Columns(
        start=np.empty(count, np.int64), end=np.empty(count, np.int64), slot=np.empty(count, np.int32),
        status=np.empty(count, np.int8), runs=work.runs,
    )  # fmt: skip
    fixed = np.zeros((0 if system.varies else len(system.first) - 1, 2 + len(system.drivers)), dtype=np.int64)
    express.fix_programs(work, fixed)
    express.run_in_order(work, columns.start, columns.end, columns.slot, columns.status, fixed)
    express.fill_bins(work, columns.start, columns.end)
    return work, columns


def _by_events(system: System, requests: Requests, scale: npt.NDArray[np.float64]) -> tuple[Work, Columns]:
    count = len(requests.arrival_ps)
    work = new_work(system, requests, scale, blank(count), pool=min(count, _FIRST_POOL))
    clock = work.clocks[0]
    clock["available"], clock["final"] = count, 1
    work = run_on(work)
    return work, Columns.of(work.requests, work.runs)

"""A ring of requests: arrivals stream in, finished ones stream out, and memory holds only what lies between."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from accelmodel.replay.records import COMPLETED, NONE, REQUEST, Work
from accelmodel.replay.requests import Requests, require
from accelmodel.replay.result import Columns, Replayed, summarise
from accelmodel.replay.start import new_work, run_on
from accelmodel.replay.system import System
from accelmodel.target import Target

_FIRST_RING = 1024


class Ring:
    """Requests `emitted` to `stored` (excluded) by number, each at the place number & (size - 1)."""

    def __init__(self, system: System, target: Target) -> None:
        self.system, self.target = system, target
        self.work: Work | None = None
        self.emitted = self.stored = 0
        self.last_ps = 0

    def feed(self, chunk: Requests) -> Iterator[Replayed]:
        """Run up to the last instant of the chunk, whose requests wait for others of the same instant."""
        first_ps = int(chunk.arrival_ps[0])
        require(first_ps >= self.last_ps, "chunk of requests", f"arrivals from {self.last_ps} ps on", str(first_ps))
        self.last_ps = int(chunk.arrival_ps[-1])
        if self.work is None:
            self.work = _first_work(self.system, chunk)
        work = self._with_room(self.work, len(chunk.arrival_ps))
        _store(work, chunk, self.stored)
        self.stored += len(chunk.arrival_ps)
        held = len(chunk.arrival_ps) - int(np.searchsorted(chunk.arrival_ps, self.last_ps))
        clock = work.clocks[0]
        clock["available"] = max(int(clock["available"]), self.stored - held)
        self.work = run_on(work)
        yield from self._finished()

    def finish(self) -> Iterator[Replayed]:
        """No more arrivals: run to the end."""
        if self.work is None:
            return
        self.work.clocks[0]["available"], self.work.clocks[0]["final"] = self.stored, 1
        self.work = run_on(self.work)
        yield from self._finished()

    def _finished(self) -> Iterator[Replayed]:
        """The requests before the first that is still in flight."""
        assert self.work is not None
        work, arrived = self.work, int(self.work.clocks[0]["arrived"])
        places = np.arange(self.emitted, arrived) & (len(work.arrival) - 1)
        flying = np.flatnonzero(work.requests["status"][places] < COMPLETED)
        places = places[: int(flying[0])] if len(flying) else places
        if not len(places):
            return
        part = Requests(work.arrival[places], work.bucket[places], work.stream[places])
        columns = Columns.of(work.requests[places], work.runs[:, places])
        yield summarise(part, columns, work, self.system, self.target, self.emitted)
        self.emitted += len(places)

    def _with_room(self, work: Work, more: int) -> Work:
        """The ring, or a larger one where what is in flight and the new arrivals would not fit."""
        size, needed = len(work.arrival), self.stored - self.emitted + more
        if needed <= size:
            return work
        larger = 1 << (needed - 1).bit_length()
        numbers = np.arange(self.emitted, self.stored)
        grown = _resized(work, larger, numbers & (size - 1), numbers & (larger - 1))
        grown.rules[0]["mask"] = larger - 1
        return grown


def _first_work(system: System, chunk: Requests) -> Work:
    work = new_work(system, chunk, np.ones(1), np.zeros(0, dtype=REQUEST), pool=_FIRST_RING)
    empty = np.zeros(0, dtype=np.int64)
    work.rules[0]["mask"] = _FIRST_RING - 1
    return _resized(work._replace(iterations=np.zeros(0, np.int32)), _FIRST_RING, empty, empty)


def _resized(work: Work, size: int, old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> Work:
    """The same work on rings of another size: what lay at the places `old` lies at `new`."""
    moved_to = np.full(len(work.arrival) + 1, NONE, dtype=np.int32)  # the last entry stands for NONE
    moved_to[old] = new
    ring = {}
    for name in ("arrival", "bucket", "stream", "iterations", "requests"):
        column = getattr(work, name)
        ring[name] = np.zeros(size, dtype=column.dtype)
        ring[name][new] = column[old]
    runs = np.zeros((len(work.drivers), size), dtype=np.int64)
    runs[:, new] = work.runs[:, old]
    ring["requests"]["next"] = moved_to[ring["requests"]["next"]]
    work.slots["first"] = moved_to[work.slots["first"]]
    for name in ("first", "last"):
        live = work.batches[name]
        work.batches[name] = moved_to[np.where(work.batches["size"] > 0, live, NONE)]
    return work._replace(runs=runs, **ring)


def _store(work: Work, chunk: Requests, number: int) -> None:
    places = np.arange(number, number + len(chunk.arrival_ps)) & (len(work.arrival) - 1)
    work.arrival[places], work.bucket[places], work.stream[places] = chunk.arrival_ps, chunk.bucket, chunk.stream
    work.iterations[places] = 1 if chunk.iterations is None else chunk.iterations
    blank = np.zeros(1, dtype=REQUEST)
    for name in ("start", "end", "slot", "batch"):
        blank[name] = NONE
    work.requests[places] = blank[0]
    work.runs[:, places] = 0

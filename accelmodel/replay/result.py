"""What a replay returns: each request's instants and drivers, each slot's load, and profiles over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.program import PS_PER_NS
from accelmodel.replay.records import COMPLETED, NONE, REJECTED, RUN_DRIVERS, TIMED_OUT, Work
from accelmodel.replay.requests import Requests
from accelmodel.replay.system import System
from accelmodel.target import Target

WAITS = ("queueing", "imbalance", "batching")
DRIVERS = WAITS + RUN_DRIVERS
_FULL = 0.9  # batches this full on average leave no room to take in more at the same rate
Ps = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What the engine wrote for each request. [N], runs [D, N]. program: that it ran in. Where requests ran one by one
    there is no more; else also batch, batch_size, program, imbalance and batching."""

    start: Ps
    end: Ps
    slot: npt.NDArray[np.int32]
    status: npt.NDArray[Any]
    runs: Ps
    batched: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, records: npt.NDArray[Any], runs: Ps) -> Columns:
        """The columns of rows of records.REQUEST."""
        return cls(records["start"], records["end"], records["slot"], records["status"], runs, records)


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What the device did in equal bins of time. begin_ps [T]; bin_ps: width.

    Means over each bin: dram_utilisation (bytes granted / peak; an end rounded up to a whole picosecond counts up to
    one picosecond's bytes too many; where no kernel can slow another, the bytes of a program are spread evenly over its
    time), waiting (requests in queues), busy_slots. peak_waiting: the most at once.
    """

    begin_ps: Ps
    bin_ps: int
    dram_utilisation: npt.NDArray[np.float64]
    waiting: npt.NDArray[np.float64]
    peak_waiting: Ps
    busy_slots: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """Result by request, in the order of arrival. [N]; entries of requests that were rejected or timed out are -1
    (instants, slot, batch) or 0 (drivers, sizes). requests = completed + rejected + timed out.

    start_ps: its batch starts on `slot`. batch: index of the batch, in the order of opening. batch_size: requests in
    it, under iteration-level batching in its last iteration; padded_size: what its program holds. waits, runs: drivers
    before and from the start, those that can occur. utilisation: time that slots were occupied / (slots x span of
    arrivals); `unstable` where it is 1 or more, with batches full, on all slots of any queue: the queue grows without
    end at this rate, and percentiles mean nothing. slot_busy_ps, slot_requests [slots]. kernels: kernels run.
    dram_bytes: bytes moved. number: of the first request, where arrivals were streamed.
    """

    arrival_ps: Ps
    bucket: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int32]
    completion_ps: Ps
    start_ps: Ps
    slot: npt.NDArray[np.int32]
    batch: npt.NDArray[np.int32]
    batch_size: npt.NDArray[np.int32]
    padded_size: npt.NDArray[np.int32]
    rejected: npt.NDArray[np.bool_]
    timed_out: npt.NDArray[np.bool_]
    waits: Mapping[str, Ps]
    runs: Mapping[str, Ps]
    slot_busy_ps: Ps
    slot_requests: Ps
    profile: Profile
    utilisation: float
    unstable: bool
    kernels: int
    dram_bytes: int
    number: int = 0

    @property
    def completed(self) -> npt.NDArray[np.bool_]:
        return ~(self.rejected | self.timed_out)

    @property
    def latency_ps(self) -> Ps:
        """Completion - scheduled arrival of each request; -1 where it did not complete. [N]"""
        return np.where(self.completed, self.completion_ps - self.arrival_ps, np.int64(NONE))

    def driver(self, name: str) -> Ps:
        """One driver of each request, ps. [N]"""
        if name == "queueing":
            waited = self.start_ps - self.arrival_ps - self.driver("imbalance") - self.driver("batching")
            return np.where(self.completed, waited, np.int64(0))
        known = self.waits.get(name, self.runs.get(name))
        return np.zeros(len(self.arrival_ps), np.int64) if known is None else known

    def drivers(self) -> dict[str, Ps]:
        """All drivers by name; they sum exactly to the latency of every completed request."""
        return {name: self.driver(name) for name in DRIVERS}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the percentiles must know."""
        said, count = [], len(self.rejected)
        if self.unstable:
            said.append(f"unstable: slots would have to work {self.utilisation:.3f} of the time; no percentile holds")
        if self.rejected.any():
            said.append(f"{int(self.rejected.sum())} of {count} requests were rejected by admit_limit")
        if self.timed_out.any():
            said.append(f"{int(self.timed_out.sum())} of {count} requests left after waiting for timeout_us")
        return tuple(said)


def summarise(
    requests: Requests, columns: Columns, work: Work, system: System, target: Target, number: int = 0
) -> Replayed:
    """Gather the engine's records into a result by request."""
    clock, slots, batched = work.clocks[0], work.slots, columns.batched
    done = columns.status == COMPLETED
    utilisation, most = _utilisation(work, clock)
    program = work.program_of[requests.bucket, 1] if batched is None else batched["padded"]
    waits = {} if batched is None else {name: batched[name] for name in ("imbalance", "batching")}
    return Replayed(
        arrival_ps=requests.arrival_ps, bucket=requests.bucket, stream=requests.stream,
        completion_ps=columns.end, start_ps=columns.start, slot=columns.slot,
        batch=np.arange(len(done), dtype=np.int32) if batched is None else batched["batch"],
        batch_size=np.ones(len(done), np.int32) if batched is None else batched["batch_size"],
        padded_size=np.where(done, system.padded[program], np.int32(0)),
        rejected=columns.status == REJECTED, timed_out=columns.status == TIMED_OUT, waits=waits,
        runs={RUN_DRIVERS[driver]: columns.runs[row] for row, driver in enumerate(work.drivers)},
        slot_busy_ps=slots["busy"].copy(), slot_requests=slots["requests"].copy(), profile=_profile(work, target),
        utilisation=utilisation, unstable=most >= 1.0 and clock["last_arrival"] > clock["origin"],
        kernels=int(clock["kernels"]), dram_bytes=int(clock["moved"]), number=number,
    )  # fmt: skip


def _utilisation(work: Work, clock: Any) -> tuple[float, float]:
    """Occupied time / (slots x time in which the requests arrived): over all slots, and the most over the slots of one
    queue whose batches were full. One instant of arrivals has no rate: there the time until the last completion is
    taken, which is never above 1."""
    span_ps, count = int(clock["last_arrival"] - clock["origin"]), int(clock["arrived"])
    span = span_ps * count / (count - 1) if span_ps else float(max(1, clock["now"] - clock["origin"]))
    busy, filled = work.slots["busy"], work.slots["filled"]
    most = 0.0
    for queue in work.queues:
        own = slice(queue["low"], queue["high"])
        if filled[own].sum() >= _FULL * busy[own].sum():
            most = max(most, float(busy[own].sum()) / (span * (queue["high"] - queue["low"])))
    return float(busy.sum()) / (span * len(busy)), most


def _profile(work: Work, target: Target) -> Profile:
    bins, clock = work.bins, work.clocks[0]
    bin_ps = int(clock["bin_width"])
    used = bins[: max(1, int(np.flatnonzero((bins["busy"] > 0) | (bins["waiting"] > 0)).max(initial=-1)) + 1)]
    peak_bytes = target.dram.bandwidth_bytes_per_ns / PS_PER_NS * bin_ps
    return Profile(
        begin_ps=int(clock["origin"]) + bin_ps * np.arange(len(used), dtype=np.int64), bin_ps=bin_ps,
        dram_utilisation=used["dram_bytes"] / peak_bytes, waiting=used["waiting"] / bin_ps,
        peak_waiting=used["peak"].copy(), busy_slots=used["busy"] / bin_ps,
    )  # fmt: skip

"""What a replay returns: each request's instants and drivers, each slot's load, and profiles over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.program import PS_PER_NS
from accelmodel.replay_records import NONE
from accelmodel.target import Target

WAITS = ("queueing", "imbalance", "batching")
RUNS = ("launch", "compute", "memory", "contention", "sync", "noise", "throttle", "fallback")
DRIVERS = WAITS + RUNS
Ps = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What the device did in equal bins of time. begin_ps [T]; bin_ps: width.

    Means over each bin: dram_utilisation (bytes granted / peak; an end rounded up to a whole picosecond counts up to
    one picosecond's bytes too many), waiting (requests in queues), busy_slots. peak_waiting: the most at once.
    """

    begin_ps: Ps
    bin_ps: int
    dram_utilisation: npt.NDArray[np.float64]
    waiting: npt.NDArray[np.float64]
    peak_waiting: Ps
    busy_slots: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """Result by request, in the order of arrival. [N]; entries of rejected requests are -1 (instants, slot, batch) or
    0 (drivers, sizes), and `rejected` marks them. requests = completed + rejected.

    start_ps: its batch starts on `slot`. batch: index of the batch, in the order of opening. batch_size: requests in
    it; padded_size: what its program holds. waits: drivers before the start by name; runs: drivers from start to
    completion, by name, by batch. utilisation: time that slots were occupied / (slots x span of arrivals);
    `unstable` where it is 1 or more: the queue grows without end at this rate, and percentiles mean nothing.
    slot_busy_ps, slot_requests [slots]. kernels: kernels run. dram_bytes: bytes moved.
    """

    arrival_ps: Ps
    bucket: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int32]
    completion_ps: Ps
    start_ps: Ps
    slot: npt.NDArray[np.int32]
    batch: npt.NDArray[np.int32]
    batch_size: npt.NDArray[np.int32]
    padded_size: Ps
    rejected: npt.NDArray[np.bool_]
    waits: Mapping[str, Ps]
    runs: Mapping[str, Ps]
    slot_busy_ps: Ps
    slot_requests: Ps
    profile: Profile
    utilisation: float
    unstable: bool
    kernels: int
    dram_bytes: int

    @property
    def latency_ps(self) -> Ps:
        """Completion - scheduled arrival of each request; -1 where rejected. [N]"""
        return np.where(self.rejected, np.int64(NONE), self.completion_ps - self.arrival_ps)

    def driver(self, name: str) -> Ps:
        """One driver of each request, ps. [N]"""
        if name in self.waits:
            return self.waits[name]
        return np.where(self.rejected, np.int64(0), self.runs[name][self.batch])

    def drivers(self) -> dict[str, Ps]:
        """All drivers by name; they sum exactly to the latency of every completed request."""
        return {name: self.driver(name) for name in DRIVERS}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the percentiles must know."""
        said = []
        if self.unstable:
            said.append(f"unstable: slots would have to work {self.utilisation:.3f} of the time; no percentile holds")
        if self.rejected.any():
            said.append(f"{int(self.rejected.sum())} of {len(self.rejected)} requests were rejected by admit_limit")
        return tuple(said)


def summarise(
    arrival_ps: Ps,
    bucket: npt.NDArray[np.int32],
    stream: npt.NDArray[np.int32],
    state: Mapping[str, npt.NDArray[Any]],
    padded: Ps,
    moved: Ps,
    target: Target,
) -> Replayed:
    """Gather the engine's records into a result by request. `padded`, `moved` [P]: requests that each program holds,
    and bytes that it moves."""
    clock, slots = state["clocks"][0], state["slots"]
    batches = state["batches"][: clock["batches"]]
    batch = state["batch_of"]
    rejected = batch == NONE
    by_request = {name: _gather(batches[name], batch, rejected, NONE) for name in ("end", "start", "slot")}
    profile = _profile(state["bins"], int(clock["bin_width"]), int(clock["origin"]), target)
    utilisation = _utilisation(arrival_ps, int(slots["busy"].sum()), len(slots), int(clock["now"]))
    return Replayed(
        arrival_ps=arrival_ps, bucket=bucket, stream=stream, rejected=rejected, batch=batch,
        completion_ps=by_request["end"], start_ps=by_request["start"], slot=by_request["slot"],
        batch_size=_gather(batches["size"], batch, rejected, 0),
        padded_size=_gather(padded[batches["program"]], batch, rejected, 0),
        waits=_waits(arrival_ps, batches, batch, rejected, state["idle_at_arrival"]),
        runs={name: batches[name] for name in RUNS},
        slot_busy_ps=slots["busy"].copy(), slot_requests=slots["requests"].copy(), profile=profile,
        utilisation=utilisation, unstable=utilisation >= 1.0 and bool(arrival_ps[-1] > arrival_ps[0]),
        kernels=int(clock["kernels"]), dram_bytes=int(moved[batches["program"]].sum()),
    )  # fmt: skip


def _gather(column: npt.NDArray[Any], batch: npt.NDArray[np.int32], rejected: npt.NDArray[np.bool_], none: int) -> Any:
    if not rejected.any():
        return column[batch]
    return np.where(rejected, column.dtype.type(none), column[np.maximum(batch, 0)])


def _waits(
    arrival_ps: Ps, batches: npt.NDArray[Any], batch: npt.NDArray[np.int32], rejected: npt.NDArray[np.bool_], idle: Ps
) -> dict[str, Ps]:
    """Split the time from arrival to start: while every slot was busy it is queueing; while one was idle it is
    batching until the batch was ready, imbalance after. `idle` [N]: time so far with an idle slot, at arrival."""

    def at(name: str) -> Any:
        return _gather(batches[name], batch, rejected, 0)

    idle_ready = np.maximum(idle, at("idle_at_ready"))  # a request may join after its batch was ready
    idle_start = at("idle_at_start")
    waited = at("start") - arrival_ps
    parts = {
        "queueing": waited - (idle_start - idle),
        "imbalance": idle_start - idle_ready,
        "batching": idle_ready - idle,
    }
    return {name: np.where(rejected, np.int64(0), part) for name, part in parts.items()}


def _utilisation(arrival_ps: Ps, busy_ps: int, slots: int, end_ps: int) -> float:
    """Occupied time / (slots x time in which the requests arrived). One instant of arrivals has no rate: there the
    time until the last completion is taken, which is never above 1."""
    count = len(arrival_ps)
    span_ps = int(arrival_ps[-1] - arrival_ps[0])
    if span_ps == 0:
        return busy_ps / (slots * max(1, end_ps - int(arrival_ps[0])))
    return busy_ps / (slots * span_ps * count / (count - 1))  # N arrivals span N - 1 gaps


def _profile(bins: npt.NDArray[Any], bin_ps: int, origin_ps: int, target: Target) -> Profile:
    used = bins[: max(1, int(np.flatnonzero((bins["busy"] > 0) | (bins["waiting"] > 0)).max(initial=-1)) + 1)]
    peak_bytes = target.dram.bandwidth_bytes_per_ns / PS_PER_NS * bin_ps
    return Profile(
        begin_ps=origin_ps + bin_ps * np.arange(len(used), dtype=np.int64), bin_ps=bin_ps,
        dram_utilisation=used["dram_bytes"] / peak_bytes, waiting=used["waiting"] / bin_ps,
        peak_waiting=used["peak"].copy(), busy_slots=used["busy"] / bin_ps,
    )  # fmt: skip

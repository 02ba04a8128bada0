"""Replay: production traffic through admission, batching, core placement and kernels to each request's completion.

The runtime model. The target's cores are split into slots of `cores` cores each. A batch runs the kernels of its
program in order on one slot; the host issues its launches back to back (one host thread a slot), and a kernel starts
when it is issued and the kernel before it, with its barrier, has ended. Kernels that run at the same moment share
DRAM bandwidth max-min. Latency counts from the scheduled arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.errors import InputError
from accelmodel.program import PS_PER_NS, Program, dram_ps, within_dram
from accelmodel.replay_engine import run
from accelmodel.replay_noise import sigma_of
from accelmodel.replay_records import BATCH, BIN, CLOCK, KERNEL, NEVER, NONE, QUEUE, RULES, SLOT
from accelmodel.replayed import Replayed, summarise
from accelmodel.settings import SchedulingSettings, Settings
from accelmodel.target import Target

CORE_POLICIES = ("round_robin", "least_loaded", "join_shortest_queue")
PROFILE_BINS = 512


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Scheduled arrivals in order. arrival_ps: int64 [N], sorted, >= 0. bucket: int32 [N], index into the table of
    buckets given to `replay`. stream: int32 [N], the tenant."""

    arrival_ps: npt.NDArray[np.int64]
    bucket: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        shapes = {self.arrival_ps.shape, self.bucket.shape, self.stream.shape}
        _require(len(shapes) == 1 and self.arrival_ps.ndim == 1, "requests", "columns of one length", str(shapes))
        _require(self.arrival_ps.size > 0, "requests", "at least one request", "none")
        _require(int(self.arrival_ps[0]) >= 0, "requests, arrival_ps", "times >= 0", str(self.arrival_ps[0]))
        back = np.flatnonzero(np.diff(self.arrival_ps) < 0)
        _require(not back.size, "requests, arrival_ps", "sorted times", f"a step back after row {back[:1]}")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Programs of one shape bucket of one workload, ascending in batch size (1, 2, 4 ...). A batch runs the smallest
    program that holds it, padded. `size`: the largest request that the bucket covers. `fallback`: stands for requests
    that no bucket of the workload covers; its programs are fallback programs."""

    workload: str
    size: int
    programs: tuple[Program, ...]
    fallback: bool = False

    def __post_init__(self) -> None:
        batches = [program.batch for program in self.programs]
        where = f"bucket {self.size} of workload {self.workload!r}"
        ascending = bool(batches) and batches == sorted(set(batches))
        _require(ascending, where, "programs ascending in batch size", str(batches))
        alike = {program.fallback for program in self.programs} == {self.fallback}
        _require(alike, where, f"programs with fallback={self.fallback}", "one that differs")


def assign_buckets(
    size: npt.NDArray[np.int64], bucket_sizes: Sequence[int], rule: str, fallback: int
) -> npt.NDArray[np.int32]:
    """Index of each request's bucket: `smallest_fit` the smallest that holds it, `exact` only its own size.

    Requests that none covers get `fallback`. bucket_sizes need not be sorted. [N] -> [N]
    """
    _require(rule in ("smallest_fit", "exact"), "bucket_rule", "smallest_fit or exact", repr(rule), "ingress")
    order = np.argsort(np.asarray(bucket_sizes), kind="stable")
    ascending = np.asarray(bucket_sizes)[order]
    place = np.searchsorted(ascending, size, side="left")
    covered = place < len(ascending)
    place = np.minimum(place, len(ascending) - 1)
    if rule == "exact":
        covered &= ascending[place] == size
    return np.where(covered, order[place], fallback).astype(np.int32)


def replay(
    requests: Requests,
    buckets: Sequence[Bucket],
    target: Target,
    settings: Settings,
    seed: int,
    service_scale: npt.NDArray[np.float64] | None = None,
) -> Replayed:
    """Run the requests to completion. Deterministic in all arguments.

    Reads ingress.admit_limit, execution.noise_cv and the scheduling settings. service_scale [N] multiplies the
    compute time of the program that the batch headed by that request runs (for service times known per request).
    A rate above capacity is no error: the result says `unstable`, and its percentiles mean nothing.
    """
    slots = _slot_count(buckets, target)
    limit = _batch_limits(buckets, settings.scheduling)
    _require(int(requests.bucket.min()) >= 0 and int(requests.bucket.max()) < len(buckets), "requests, bucket",
             f"an index below {len(buckets)}", f"{requests.bucket.min()} to {requests.bucket.max()}")  # fmt: skip
    scale = np.zeros(0) if service_scale is None else service_scale
    _require(len(scale) in (0, len(requests.arrival_ps)), "service_scale", "one factor a request", str(len(scale)))
    first, kernels, program_of = _pack(buckets, limit, target)
    state = _state(requests, slots, len(buckets), settings, target, seed)
    run(
        requests.arrival_ps, requests.bucket, scale, limit, program_of, first, kernels, state["rules"],
        state["slots"], state["queues"], state["open_batch"], state["batches"], state["batch_of"],
        state["idle_at_arrival"], state["bins"], state["clocks"],
    )  # fmt: skip
    programs = [program for bucket in buckets for program in bucket.programs]
    padded = np.array([program.batch for program in programs], dtype=np.int64)
    moved = np.array([program.dram_bytes.sum() for program in programs], dtype=np.int64)
    return summarise(requests.arrival_ps, requests.bucket, requests.stream, state, padded, moved, target)


def _slot_count(buckets: Sequence[Bucket], target: Target) -> int:
    cores = {program.cores for bucket in buckets for program in bucket.programs}
    _require(len(cores) == 1, "programs", "plans that all spread over the same number of cores", str(sorted(cores)))
    slots = target.cores // max(cores)
    _require(slots >= 1, "programs", f"plans of at most {target.cores} cores", f"{max(cores)} cores")
    return slots


def _batch_limits(buckets: Sequence[Bucket], scheduling: SchedulingSettings) -> npt.NDArray[np.int64]:
    """Most requests in one batch of each bucket; a fallback bucket takes what its programs hold."""
    _require(scheduling.queue == "fifo", "scheduling.queue", "fifo", repr(scheduling.queue))
    _require(scheduling.core_policy in CORE_POLICIES, "scheduling.core_policy", f"one of {CORE_POLICIES}",
             repr(scheduling.core_policy))  # fmt: skip
    most = scheduling.max_batch
    _require(most >= 1 and scheduling.max_wait_us >= 0, "scheduling", "max_batch >= 1 and max_wait_us >= 0",
             f"{most} and {scheduling.max_wait_us}")  # fmt: skip
    for bucket in buckets:
        largest = bucket.programs[-1].batch
        _require(bucket.fallback or largest >= most, f"bucket {bucket.size} of workload {bucket.workload!r}",
                 f"a program for max_batch {most}", f"programs up to batch {largest}")  # fmt: skip
    return np.array([min(most, bucket.programs[-1].batch) for bucket in buckets], dtype=np.int64)


def _pack(buckets: Sequence[Bucket], limit: npt.NDArray[np.int64], target: Target) -> tuple[Any, Any, Any]:
    """first [P + 1] and kernels of all programs in a row, and program_of [B, max batch + 1]."""
    programs = [program for bucket in buckets for program in bucket.programs]
    first = np.cumsum([0] + [len(program.groups) for program in programs]).astype(np.int64)
    kernels = np.zeros(int(first[-1]), dtype=KERNEL)
    for program, begin, end in zip(programs, first[:-1], first[1:], strict=True):
        kernels[begin:end] = _kernel_rows(program, target)
    program_of = np.full((len(buckets), int(limit.max()) + 1), NONE, dtype=np.int32)
    offset = 0
    for row, bucket in enumerate(buckets):
        batches = np.array([program.batch for program in bucket.programs])
        program_of[row, 1:] = offset + np.minimum(
            np.searchsorted(batches, np.arange(1, program_of.shape[1])), len(batches) - 1
        )
        offset += len(batches)
    return first, kernels, program_of


def _kernel_rows(base: Program, target: Target) -> npt.NDArray[Any]:
    program = within_dram(base, target)
    rows = np.zeros(len(program.groups), dtype=KERNEL)
    for column in ("launch", "compute", "memory", "throttle", "barrier"):
        rows[column] = getattr(program, f"{column}_ps")
    rows["host"] = program.fallback_ps
    rows["fallback"] = program.on_host | program.fallback
    rows["dram_bytes"] = program.dram_bytes
    rows["least"] = dram_ps(program, target)
    return rows


def _state(
    requests: Requests, slot_count: int, bucket_count: int, settings: Settings, target: Target, seed: int
) -> dict[str, npt.NDArray[Any]]:
    """Everything the engine writes, as it is before the first arrival."""
    scheduling, count = settings.scheduling, len(requests.arrival_ps)
    own_queues = scheduling.core_policy != "least_loaded"
    rules = np.zeros(1, dtype=RULES)
    rules["max_wait"] = round(scheduling.max_wait_us * 1000 * PS_PER_NS)
    rules["own_queues"], rules["shortest"] = own_queues, scheduling.core_policy == "join_shortest_queue"
    rules["admit_limit"], rules["seed"] = settings.ingress.admit_limit, seed
    rules["bandwidth"] = target.dram.bandwidth_bytes_per_ns / PS_PER_NS
    rules["noise_sigma"] = sigma_of(settings.execution.noise_cv)
    slots = np.zeros(slot_count, dtype=SLOT)
    slots["event"] = NEVER
    slots["batch"] = NONE
    queues = np.zeros(slot_count if own_queues else 1, dtype=QUEUE)
    queues["first"] = queues["last"] = NONE
    clocks = np.zeros(1, dtype=CLOCK)
    clocks["now"] = clocks["origin"] = requests.arrival_ps[0]
    clocks["idle_slots"] = slot_count
    clocks["bin_width"] = max(1, int(requests.arrival_ps[-1] - requests.arrival_ps[0]) // PROFILE_BINS)
    return {
        "rules": rules, "slots": slots, "queues": queues, "clocks": clocks,
        "open_batch": np.full(bucket_count, NONE, dtype=np.int64),
        "batches": np.zeros(count, dtype=BATCH),
        "batch_of": np.zeros(count, dtype=np.int32),
        "idle_at_arrival": np.zeros(count, dtype=np.int64),
        "bins": np.zeros(PROFILE_BINS, dtype=BIN),
    }  # fmt: skip


def _require(holds: bool, where: str, expected: str, found: str, stage: str = "scheduling") -> None:
    if not holds:
        raise InputError(
            stage=stage, where=where, expected=expected, found=found,
            remedy="Correct the traffic, the bucket table or the settings of this stage.",
        )  # fmt: skip

"""What a replay runs on, checked and packed into tables for the compiled engine: programs, buckets, streams, slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.program import PS_PER_NS, Program, dram_ps, within_dram
from accelmodel.replay.noise import sigma_of
from accelmodel.replay.policies import (
    EARLIEST_DEADLINE,
    FIFO,
    ITERATION,
    JOIN_SHORTEST_QUEUE,
    LEAST_LOADED,
    PADDED,
    PARTITIONED,
    POLICIES,
    PRIORITY,
    ROUND_ROBIN,
    WEIGHTED_FAIR,
    code_of,
)
from accelmodel.replay.records import BUCKET, KERNEL, NONE, RULES, RUN_DRIVERS, SCHEDULE, STREAM
from accelmodel.replay.requests import Bucket, require
from accelmodel.settings import SchedulingSettings, Settings
from accelmodel.target import Target

_PS_PER_US = 1000 * PS_PER_NS


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """Tables of records.Work that no request changes. padded, moved [P]: requests that each program holds, and bytes
    that it moves. queue_count, slot_count: Q, S. drivers [D]: those that can occur."""

    rules: npt.NDArray[Any]
    buckets: npt.NDArray[Any]
    streams: npt.NDArray[Any]
    program_of: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]
    kernels: npt.NDArray[Any]
    factors: npt.NDArray[np.float64]
    throttle: npt.NDArray[Any]
    drivers: npt.NDArray[np.int32]
    padded: npt.NDArray[np.int32]
    moved: npt.NDArray[np.int64]
    slot_count: int
    queue_count: int

    @property
    def in_order(self) -> bool:
        """Whether requests start in the order of arrival, one by one, and no kernel can slow another."""
        rule = self.rules[0]
        plain = rule["queue"] == FIFO and rule["admit_limit"] == 0 and rule["timeout"] == 0
        single = rule["batching"] != ITERATION and bool((self.buckets["limit"] == 1).all())
        return bool(plain and single and self.queue_count == 1 and rule["solo"]
                    and rule["core"] == LEAST_LOADED)  # fmt: skip

    @property
    def varies(self) -> bool:
        """Whether a program takes another time from request to request, even alone, and not just by the scale of its
        one kernel."""
        lone = bool((np.diff(self.first) == 1).all()) and not self.kernels["fallback"].any()
        scaled = bool(self.rules[0]["scaled"]) and not lone
        return bool(scaled or self.rules[0]["noise_sigma"] > 0 or len(self.factors) or len(self.throttle))


def build_system(
    buckets: Sequence[Bucket],
    target: Target,
    settings: Settings,
    seed: int,
    streams: tuple[str, ...],
    stream_count: int,
    scaled: bool,
) -> System:
    """Check the settings and pack everything. streams: names, or () where they have none."""
    scheduling, execution = settings.scheduling, settings.execution
    _check(scheduling)
    slots = _slot_count(buckets, target)
    table = _bucket_table(buckets, scheduling)
    first, kernels, program_of = _pack(buckets, table["width"], target)
    rules = np.zeros(1, dtype=RULES)
    rules["max_wait"] = round(scheduling.max_wait_us * _PS_PER_US)
    rules["timeout"] = round(scheduling.timeout_us * _PS_PER_US)
    rules["admit_limit"], rules["seed"], rules["mask"] = settings.ingress.admit_limit, seed, -1
    rules["bandwidth"] = target.dram.bandwidth_bytes_per_ns / PS_PER_NS
    rules["noise_sigma"] = 0.0 if execution.noise_factors else sigma_of(execution.noise_cv)
    rules["queue"] = code_of("queue", scheduling.queue)
    rules["core"] = code_of("core_policy", scheduling.core_policy)
    rules["batching"], rules["scaled"] = code_of("batching", scheduling.batching), scaled
    schedule = np.zeros(len(execution.throttle_clock), dtype=SCHEDULE)
    schedule["at"] = np.rint(np.array(execution.throttle_from_us) * _PS_PER_US)
    schedule["clock"] = execution.throttle_clock
    noisy = execution.noise_cv > 0 or bool(execution.noise_factors)
    rules["solo"] = _never_contended(kernels, slots, rules[0]["bandwidth"], noisy or scaled)
    queues = _queue_count(int(rules[0]["core"]), slots, stream_count)
    programs = [program for bucket in buckets for program in bucket.programs]
    return System(
        rules, table, _stream_table(settings, streams, stream_count, queues), program_of, first, kernels,
        np.array(execution.noise_factors, dtype=np.float64), schedule,
        _possible_drivers(kernels, noisy, len(schedule) > 0, not rules[0]["solo"]),
        np.array([program.batch for program in programs], dtype=np.int32),
        np.array([program.dram_bytes.sum() for program in programs], dtype=np.int64), slots, queues,
    )  # fmt: skip


def _check(scheduling: SchedulingSettings) -> None:
    for kind in ("queue", "batching", "core_policy"):
        names = tuple(policy.name for policy in POLICIES if policy.kind == kind)
        found = getattr(scheduling, kind)
        require(code_of(kind, found) != NONE, f"scheduling.{kind}", f"one of {', '.join(names)}", repr(found))
    good = scheduling.max_batch >= 1 and scheduling.max_wait_us >= 0 and scheduling.timeout_us >= 0
    require(good, "scheduling", "max_batch >= 1, max_wait_us >= 0 and timeout_us >= 0",
            f"{scheduling.max_batch}, {scheduling.max_wait_us} and {scheduling.timeout_us}")  # fmt: skip


def _slot_count(buckets: Sequence[Bucket], target: Target) -> int:
    cores = {program.cores for bucket in buckets for program in bucket.programs}
    require(len(cores) == 1, "programs", "plans that all spread over the same number of cores", str(sorted(cores)))
    slots = target.cores // max(cores)
    require(slots >= 1, "programs", f"plans of at most {target.cores} cores", f"{max(cores)} cores")
    return slots


def _queue_count(core: int, slots: int, streams: int) -> int:
    if core in (ROUND_ROBIN, JOIN_SHORTEST_QUEUE):
        return slots
    return min(slots, streams) if core == PARTITIONED else 1


def _bucket_table(buckets: Sequence[Bucket], scheduling: SchedulingSettings) -> npt.NDArray[Any]:
    """Limits, families and ranks; a fallback bucket is a family of its own and takes what its programs hold."""
    table = np.zeros(len(buckets), dtype=BUCKET)
    families: dict[tuple[str, int], int] = {}
    mixed = code_of("batching", scheduling.batching) in (PADDED, ITERATION)
    for index, bucket in enumerate(buckets):
        largest = bucket.programs[-1].batch
        require(bucket.fallback or largest >= scheduling.max_batch, bucket.where,
                f"a program for max_batch {scheduling.max_batch}", f"programs up to batch {largest}")  # fmt: skip
        key = (bucket.workload, -1 if mixed and not bucket.fallback else index)
        row = table[index]
        row["family"] = families.setdefault(key, len(families))
        row["rank"] = sum(other.workload == bucket.workload and other.size < bucket.size for other in buckets)
        row["width"] = min(scheduling.max_batch, largest)
        row["limit"] = 1 if code_of("batching", scheduling.batching) == ITERATION else row["width"]
        single = bucket.programs[0]
        row["cost"] = max(1, int((single.busy_ps + single.barrier_ps).sum()))
    return table


def _stream_table(settings: Settings, names: tuple[str, ...], count: int, queues: int) -> npt.NDArray[Any]:
    """Urgency, weight, order of batching and queue of each stream."""
    scheduling, queue = settings.scheduling, code_of("queue", settings.scheduling.queue)
    table = np.zeros(count, dtype=STREAM)
    table["weight"], table["slot"] = 1.0, NONE
    table["queue"] = np.arange(count) % queues if scheduling.core_policy == "partitioned" else 0
    called = [names[index] if index < len(names) else "" for index in range(count)]
    if queue == PRIORITY:
        table["urgency"] = [scheduling.priority.get(name, 0) for name in called]
    if queue == WEIGHTED_FAIR:
        table["weight"] = [scheduling.weight.get(name, 1.0) for name in called]
    if queue == EARLIEST_DEADLINE:
        waits_us = [scheduling.deadline_us.get(name, settings.assembly.sla_us) for name in called]
        without = [called[index] or str(index) for index, wait in enumerate(waits_us) if wait <= 0]
        require(not without, "scheduling.deadline_us", "a deadline of every stream, or assembly.sla_us",
                f"none for {', '.join(without[:5])}")  # fmt: skip
        table["urgency"] = np.rint(np.array(waits_us) * _PS_PER_US)
    kinds = [(int(row["queue"]), _batched_by(queue, index, row)) for index, row in enumerate(table)]
    table["order"] = [sorted(set(kinds)).index(kind) for kind in kinds]
    return table


def _batched_by(queue: int, stream: int, row: Any) -> int:
    """Streams that may share a batch: of one level of priority; under weighted fair none; else all."""
    if queue == PRIORITY:
        return int(row["urgency"])
    return stream if queue == WEIGHTED_FAIR else 0


def _pack(buckets: Sequence[Bucket], width: npt.NDArray[np.int32], target: Target) -> tuple[Any, Any, Any]:
    """first [P + 1] and kernels of all programs in a row, and program_of [B, max batch + 1]."""
    programs = [program for bucket in buckets for program in bucket.programs]
    first = np.cumsum([0] + [len(program.groups) for program in programs]).astype(np.int64)
    kernels = np.zeros(int(first[-1]), dtype=KERNEL)
    for program, begin, end in zip(programs, first[:-1], first[1:], strict=True):
        kernels[begin:end] = _kernel_rows(program, target)
    program_of = np.full((len(buckets), int(width.max()) + 1), NONE, dtype=np.int32)
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


def _never_contended(kernels: npt.NDArray[Any], slots: int, bandwidth: float, varies: bool) -> bool:
    """Whether the largest demand on every slot at once fits DRAM: then no kernel can slow another."""
    movers = kernels[kernels["dram_bytes"] > 0]
    if not len(movers):
        return True
    busy = movers["compute"] + movers["memory"] + movers["throttle"] + movers["host"]
    return not varies and bool(slots * (movers["dram_bytes"] / busy).max() <= bandwidth)


def _possible_drivers(kernels: npt.NDArray[Any], noisy: bool, scheduled: bool, shared: bool) -> npt.NDArray[np.int32]:
    """Drivers from start to completion that can differ from 0, as indices into RUN_DRIVERS."""
    own = kernels[~kernels["fallback"]]
    may = {
        "launch": own["launch"].any(), "compute": own["compute"].any(), "memory": own["memory"].any(),
        "contention": shared, "sync": own["barrier"].any(), "noise": noisy,
        "throttle": scheduled or own["throttle"].any(), "fallback": kernels["fallback"].any(),
    }  # fmt: skip
    return np.array([index for index, name in enumerate(RUN_DRIVERS) if may[name]], dtype=np.int32)

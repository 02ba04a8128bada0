"""One side's replays as rows of the table `requests`: plans become programs, arrivals become requests. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import polars as pl

from accelmodel.plan import Plan
from accelmodel.program import Program, as_fallback, program
from accelmodel.replay import DRIVERS, Bucket, Replayed, Requests, assign_buckets, replay
from accelmodel.settings import Settings
from accelmodel.target import Target
from flows.arrivals import Arrivals
from flows.labels import FALLBACK, bucket_and_batch
from flows.workers import workers_of
from schemas.candidate import Workload
from schemas.tables import polars_schema

_PS_PER_US = 1_000_000
ANY_SIZE = 2**62  # of a bucket that takes every request


@dataclass(frozen=True, slots=True)
class Served:
    """One side's replays. requests: rows of the table. unstable: replications whose queue grows without end.
    utilisation: mean over replications. warnings: what a reader of the percentiles must know, by replication."""

    requests: pl.DataFrame
    unstable: tuple[int, ...]
    utilisation: float
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Fleet:
    """All buckets of all workloads in one row, as the replay wants them. first: of each workload. fallback: of each
    workload, -1 where every request fits. sizes: of each workload's own buckets, in the order of the row."""

    buckets: tuple[Bucket, ...]
    names: tuple[str, ...]
    first: tuple[int, ...]
    fallback: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]


def replay_side(
    side: str,
    workloads: Sequence[Workload],
    plans: Mapping[str, Mapping[str, Plan]],
    settings: Settings,
    target: Target,
    replications: Sequence[Arrivals],
    seeds: Sequence[int],
) -> Served:
    """Replay every replication, some at once. plans: workload -> label (`bucket/batch`) -> plan. seeds: of the noise,
    one each."""
    fleet = _fleet(workloads, plans, settings)

    def served(number: int) -> tuple[pl.DataFrame, Replayed]:
        arrivals = replications[number]
        bucket = _buckets_of(fleet, arrivals, settings.ingress.bucket_rule)
        result = replay(_asked(arrivals, bucket), fleet.buckets, target, settings, seeds[number])
        return _rows(side, number, fleet, arrivals, result, settings.assembly.sla_us), result

    with ThreadPoolExecutor(workers_of()) as pool:  # the engine releases Python's lock
        found = list(pool.map(served, range(len(replications))))
    results = [result for _, result in found]
    unstable = [number for number, result in enumerate(results) if result.unstable]
    warnings = [
        f"{side}, replication {number}: {text}" for number, result in enumerate(results) for text in result.warnings
    ]
    used = [result.utilisation for result in results]
    frames = [frame for frame, _ in found]
    return Served(pl.concat(frames), tuple(unstable), float(np.mean(used)), tuple(warnings))


def replay_at(
    workloads: Sequence[Workload],
    plans: Mapping[str, Mapping[str, Plan]],
    settings: Settings,
    target: Target,
    replications: Sequence[Arrivals],
    seeds: Sequence[int],
) -> Callable[[float], tuple[Replayed, ...]]:
    """A function of a factor on the rate: the same requests, their arrivals compressed by it, one result each
    replication. Seeds and requests are the same at every rate."""
    fleet = _fleet(workloads, plans, settings)
    chosen = [_buckets_of(fleet, arrivals, settings.ingress.bucket_rule) for arrivals in replications]

    def run(factor: float) -> tuple[Replayed, ...]:
        return tuple(
            replay(_asked(compressed(arrivals, factor), bucket), fleet.buckets, target, settings, seed)
            for arrivals, bucket, seed in zip(replications, chosen, seeds, strict=True)
        )

    return run


def compressed(arrivals: Arrivals, factor: float) -> Arrivals:
    """The same requests at `factor` times the rate."""
    return dataclasses.replace(arrivals, arrival_ps=np.rint(arrivals.arrival_ps / factor).astype(np.int64))


def _asked(arrivals: Arrivals, bucket: np.ndarray) -> Requests:
    return Requests(arrivals.arrival_ps, bucket, arrivals.stream, arrivals.iterations, arrivals.streams)


def bucket_size(workload: Workload, index: int) -> int:
    """Largest request that a bucket takes: a workload without a size dim takes every request."""
    bucket = workload.buckets[index]
    if bucket.max_size is not None:
        return bucket.max_size
    return ANY_SIZE if workload.size_dim is None else bucket.shapes[workload.size_dim]


def _fleet(workloads: Sequence[Workload], plans: Mapping[str, Mapping[str, Plan]], settings: Settings) -> _Fleet:
    buckets: list[Bucket] = []
    names: list[str] = []
    first, fallback, sizes = [], [], []
    for workload in workloads:
        own = _programs(plans[workload.name], settings)
        first.append(len(buckets))
        sizes.append(tuple(bucket_size(workload, index) for index in range(len(workload.buckets))))
        for bucket, size in zip(workload.buckets, sizes[-1], strict=True):
            buckets.append(Bucket(workload.name, size, own[bucket.name]))
            names.append(bucket.name)
        fallback.append(len(buckets) if FALLBACK in own else -1)
        if FALLBACK in own:
            last_resort = tuple(as_fallback(item) for item in own[FALLBACK])
            buckets.append(Bucket(workload.name, ANY_SIZE, last_resort, fallback=True))
            names.append(FALLBACK)
    return _Fleet(tuple(buckets), tuple(names), tuple(first), tuple(fallback), tuple(sizes))


def _programs(plans: Mapping[str, Plan], settings: Settings) -> dict[str, tuple[Program, ...]]:
    """Programs by bucket, ascending in batch size, up to the largest batch that this side fills."""
    found: dict[str, list[Program]] = {}
    for label, plan in plans.items():
        bucket, batch = bucket_and_batch(label)
        found.setdefault(bucket, []).append(program(plan, settings.execution, batch))
    return {bucket: tuple(sorted(items, key=lambda item: item.batch)) for bucket, items in found.items()}


def _buckets_of(fleet: _Fleet, arrivals: Arrivals, rule: str) -> np.ndarray:
    """Index into the fleet of each request's bucket. [N]"""
    chosen = np.full(len(arrivals.arrival_ps), -1, dtype=np.int32)
    for index, (first, fallback, sizes) in enumerate(zip(fleet.first, fleet.fallback, fleet.sizes, strict=True)):
        mine = arrivals.workload == index
        unsized = sizes[0] == ANY_SIZE
        local = assign_buckets(arrivals.size[mine], sizes, "smallest_fit" if unsized else rule, -1)
        chosen[mine] = np.where(local < 0, fallback, local + first)
    return chosen


def _rows(
    side: str, replication: int, fleet: _Fleet, arrivals: Arrivals, result: Replayed, sla_us: float
) -> pl.DataFrame:
    """Rows of one replication, in order of arrival."""
    count, done = len(arrivals.arrival_ps), result.completed
    names, streams = np.array(fleet.names), np.array(arrivals.streams)
    workloads = np.array([bucket.workload for bucket in fleet.buckets])
    columns = {
        "side": [side] * count,
        "replication": np.full(count, replication),
        "request": np.arange(count),
        "workload": workloads[result.bucket],
        "bucket": names[result.bucket],
        "stream": streams[arrivals.stream],
        "size": arrivals.size,
        "batch": result.batch,
        "batch_size": result.batch_size,
        "slot": result.slot,
        "status": np.where(done, "completed", np.where(result.timed_out, "timed_out", "rejected")),
        "covered": names[result.bucket] != FALLBACK,
        "arrival_ps": arrivals.arrival_ps,
        "start_ps": result.start_ps,
        "completion_ps": result.completion_ps,
        "latency_ps": result.latency_ps,
        **{f"{name}_ps": values for name, values in result.drivers().items()},
    }
    frame = pl.DataFrame(columns).with_columns(_sla_met(sla_us))
    finish = ("start_ps", "completion_ps", "latency_ps")
    frame = frame.with_columns(
        pl.when(pl.col("status") == "completed").then(pl.col(name)).alias(name) for name in finish
    )
    kinds = polars_schema("requests")
    return frame.cast(dict(kinds)).select(list(kinds))  # type: ignore[arg-type]


def _sla_met(sla_us: float) -> pl.Expr:
    """Whether latency kept the stamped target: null where none is stamped, not met where it did not complete."""
    if sla_us <= 0:
        return pl.lit(None, dtype=pl.Boolean).alias("sla_met")
    kept = pl.col("latency_ps") <= round(sla_us * _PS_PER_US)
    return ((pl.col("status") == "completed") & kept).alias("sla_met")


assert set(DRIVERS) <= {name.removesuffix("_ps") for name in polars_schema("requests")}

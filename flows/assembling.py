"""The tables `metrics` and `sweep` of both sides, from plans and replays. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from accelmodel.metrics import PrimaryMetrics, primary_metrics
from accelmodel.plan import Plan
from accelmodel.settings import Settings
from accelmodel.sweep import SweepRow
from accelmodel.target import Target
from accelmodel.timeline import exposed_launch_ns
from flows.labels import FALLBACK, batch_sizes, bucket_and_batch
from flows.plan_rows import PlanKeys, Row
from schemas.zones import zone_of

Weights = Mapping[tuple[str, str, int], float]
"""(workload, bucket, batch of the plan) -> share of the side's completed requests."""


def plan_weights(requests: pl.DataFrame, side: str, most: int) -> dict[tuple[str, str, int], float]:
    """Share of the side's completed requests that each plan served. most: the side's largest batch."""
    sizes = batch_sizes(most)
    done = requests.filter((pl.col("side") == side) & (pl.col("status") == "completed"))
    counts = done.group_by("workload", "bucket", "batch_size").agg(pl.len().alias("count"))
    weights: dict[tuple[str, str, int], float] = {}
    for row in counts.sort("workload", "bucket", "batch_size").to_dicts():
        fitting = 1 if row["bucket"] == FALLBACK else next(size for size in sizes if size >= row["batch_size"])
        key = (str(row["workload"]), str(row["bucket"]), fitting)
        weights[key] = weights.get(key, 0.0) + row["count"] / done.height
    return weights


def busiest_label(weights: Weights, workload: str, labels: Mapping[str, object]) -> str:
    """The plan of a workload that served most requests; the first where none was served."""
    own = {
        label: weights.get((workload, *bucket_and_batch(label)), 0.0)
        for label in labels
        if bucket_and_batch(label)[0] != FALLBACK
    }
    return max(own, key=lambda label: own[label])


def metric_rows(
    side: str,
    workload: str,
    plans: Mapping[str, Plan],
    references: Mapping[str, Plan],
    settings: Settings,
    target: Target,
    weights: Weights,
) -> Iterator[Row]:
    """Primary metrics of each plan. references: the comparator's unfused plan of each label."""
    for label, plan in plans.items():
        bucket, batch = bucket_and_batch(label)
        exposed = sum(exposed_launch_ns(plan, settings.execution))
        yield {
            **PlanKeys(side, workload, bucket, batch).row(), "weight": weights.get((workload, bucket, batch), 0.0),
            "evidence": "modelled", **metric_columns(primary_metrics(plan, references[label], target, exposed)),
        }  # fmt: skip


def metric_columns(metrics: PrimaryMetrics) -> Row:
    """Primary metrics under their column names."""
    return {name: getattr(metrics, name) for name in PrimaryMetrics.__slots__}


def sweep_row(keys: PlanKeys, row: SweepRow, tail_ratio: float | None) -> Row:
    """One policy of the bandwidth lens. tail_ratio: p99 / p50, known only of the side's own policy."""
    names = (
        "policy", "launches", "launch_ns", "dram_bytes", "spill_bytes", "peak_bytes", "capacity_bytes",
        "working_set_ratio", "dram_demand_ratio", "busy_ns", "total_ns",
    )  # fmt: skip
    zone = zone_of(row.working_set_ratio, row.dram_demand_ratio, tail_ratio)
    return {**keys.row(), **{name: getattr(row, name) for name in names}, "zone": zone}


def tail_ratio(requests: pl.DataFrame, side: str, workload: str) -> float | None:
    """p99 / p50 of the completed requests of a workload on one side; None where there are none."""
    done = requests.filter(
        (pl.col("side") == side) & (pl.col("workload") == workload) & (pl.col("status") == "completed")
    )
    middle = done["latency_ps"].quantile(0.5, "higher")
    tail = done["latency_ps"].quantile(0.99, "higher")
    return tail / middle if tail is not None and middle else None

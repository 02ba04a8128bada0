"""From the tables of one side to the values that checks compare: a value a replication, or one exact value.

What the tables do not hold is NaN, which every check reads as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import numpy as np
import polars as pl

from flows.judge.facts import COMPLETED, FACTS, OVERALL, REJECTED, UNSTABLE, MetricValues, Values

_PS_PER_US = 1e6
_PS_PER_S = 1e12
_QUANTILES = {metric: facts.quantile for metric, facts in FACTS.items() if facts.quantile is not None}


def metric_values(
    requests: pl.DataFrame,
    metrics: pl.DataFrame,
    quality: pl.DataFrame,
    side: str,
    warmup_share: float,
    *,
    mismatches: Mapping[str, int] | None = None,
    unstable: frozenset[int] = frozenset(),
    quality_top1_agreement: float = 1.0,
    evidence: str = "modelled",
) -> MetricValues:
    """Values of every metric of one side, overall and for each workload.

    requests, metrics, quality: the run's tables (rows of other sides are left out). warmup_share: share of each
    replication's first requests left out. mismatches: results handed to the wrong request, by workload; None where
    nobody looked. unstable: replications whose queue grows without end at this rate, so that their percentiles mean
    nothing. quality_top1_agreement: least agreement of a classifier. evidence: which rows of `metrics` count.
    """
    own_metrics = metrics.filter(pl.col("side") == side, pl.col("evidence") == evidence)
    return {
        **_replayed(requests.filter(pl.col("side") == side), warmup_share, unstable),
        **_modelled(own_metrics),
        **_quality(quality.filter(pl.col("side") == side), quality_top1_agreement),
        **_assembly(mismatches or {}),
    }


def missing_causes(
    quality: pl.DataFrame, misdelivered: Mapping[str, Mapping[str, int | None]]
) -> dict[tuple[str, str], str]:
    """(metric, scope) -> why outputs, and results handed back, have no value: the reasons of the table `quality`.

    quality: of both sides. misdelivered: side -> workload -> requests, None where nobody could look.
    """
    unrun = quality.filter(~pl.col("executed") & (pl.col("reason") != ""))
    reasons: dict[str, str] = {
        str(workload): "; ".join(rows["reason"].unique(maintain_order=True))
        for (workload,), rows in unrun.group_by("workload", maintain_order=True)
    }
    unknown = {workload for counts in misdelivered.values() for workload, count in counts.items() if count is None}
    handed = {workload: f"for the same cause as the outputs: {text}" for workload, text in reasons.items()}
    causes = {("quality_failed_outputs", workload): text for workload, text in reasons.items()}
    causes |= {("assembly_mismatches", workload): handed[workload] for workload in reasons if workload in unknown}
    for metric in ("quality_failed_outputs", "assembly_mismatches"):
        own = [f"{workload}: {causes[metric, workload]}" for workload in reasons if (metric, workload) in causes]
        if own:
            causes[metric, OVERALL] = "; ".join(own)
    return causes


def _replayed(requests: pl.DataFrame, warmup_share: float, unstable: frozenset[int]) -> dict[tuple[str, str], Values]:
    """Every replayed metric. A replication in which a workload has no request leaves NaN there."""
    if requests.is_empty():
        return {}
    warm = pl.col("request") >= (pl.col("request").max().over("replication") + 1) * warmup_share
    counted = requests.filter(warm)
    replications = requests["replication"].unique().sort()
    scoped = pl.concat([counted.with_columns(scope=pl.lit(OVERALL)), counted.with_columns(scope=pl.col("workload"))])
    measured = scoped.group_by("scope", "replication").agg(*_aggregates())
    values: dict[tuple[str, str], Values] = {}
    for (scope,), rows in measured.group_by("scope"):
        aligned = replications.to_frame().join(rows, on="replication", how="left", maintain_order="left")
        for metric in aligned.columns:
            if metric not in ("scope", "replication"):
                column = aligned[metric].cast(pl.Float64).fill_null(nan)
                values[metric, str(scope)] = column.to_numpy().astype(np.float64)
    flags = np.array([float(replication in unstable) for replication in replications])
    values.update({(UNSTABLE, scope): flags for scope in {scope for _, scope in values}})
    return values


def _aggregates() -> list[pl.Expr]:
    """One expression a metric, over the requests of one scope and replication."""
    done = pl.col("status") == "completed"
    latency_us = pl.col("latency_ps") / _PS_PER_US
    span_s = (pl.col("completion_ps").max() - pl.col("arrival_ps").min()) / _PS_PER_S
    missed = (~pl.col("sla_met")).fill_null(True).mean()
    return [
        *(_percentile_us(quantile).alias(metric) for metric, quantile in _QUANTILES.items()),
        latency_us.mean().alias("latency_mean_us"),
        (pl.col("queueing_ps").filter(done).mean() / _PS_PER_US).alias("queueing_mean_us"),
        pl.when(span_s > 0).then(done.sum() / span_s).alias("throughput_per_s"),
        (~done).mean().alias("rejected_share"),
        pl.when(pl.col("sla_met").is_not_null().any()).then(missed).alias("sla_missed_share"),
        (~pl.col("covered")).mean().alias("fallback_request_share"),
        done.sum().alias(COMPLETED),
        (~done).sum().alias(REJECTED),
    ]


def _percentile_us(quantile: float) -> pl.Expr:
    """Latency of the request at rank ceil(q x N) of all N, where a rejected one counts as later than any other.

    Null where that rank is a rejected request: leaving those out would flatter a side that turns requests away.
    """
    rank = (pl.len() * quantile - 1e-9).ceil().cast(pl.Int64) - 1
    return pl.col("latency_ps").sort(nulls_last=True).get(rank) / _PS_PER_US


def _modelled(metrics: pl.DataFrame) -> dict[tuple[str, str], Values]:
    """Traffic-weighted values of the mean request: weight is a plan's share of the requests, and one run of a plan
    serves a whole batch. Batches that were not full are counted as full ones, on both sides alike."""
    served = metrics.filter(pl.col("weight") > 0)
    if served.is_empty():
        return {}
    scoped = pl.concat([served.with_columns(scope=pl.lit(OVERALL)), served.with_columns(scope=pl.col("workload"))])
    runs = pl.col("weight") / pl.col("batch")

    def total(column: str) -> pl.Expr:
        return (pl.col(column) * runs).sum()

    def rest(part: str, whole: str, ratio: str) -> pl.Expr:
        known = pl.col(ratio).is_not_null().all() & (total(whole) > 0)
        return pl.when(known).then(1 - total(part) / total(whole)).alias(ratio)

    summed = scoped.group_by("scope").agg(
        rest("launch_ns", "reference_launch_ns", "launch_overhead_reduction"),
        rest("dram_bytes", "requested_bytes", "on_chip_reuse_ratio"),
        (total("dram_bytes") / pl.col("weight").sum()).alias("dram_bytes_mean"),
        (total("spill_bytes") / pl.col("weight").sum()).alias("spill_bytes_mean"),
        pl.col("working_set_ratio").max(),
        ((pl.col("fallback_op_share") * pl.col("weight")).sum() / pl.col("weight").sum()).alias("fallback_op_share"),
    )
    return {
        (metric.removesuffix("_mean"), str(row["scope"])): _one(row[metric])
        for row in summed.to_dicts()
        for metric in row
        if metric != "scope"
    }


def _quality(quality: pl.DataFrame, least_agreement: float) -> dict[tuple[str, str], Values]:
    """Outputs that are not within their bound; NaN for a workload of which any output was not run."""
    if quality.is_empty():
        return {}
    failed = ~pl.col("passed") | (pl.col("top1_agreement") < least_agreement).fill_null(False)
    counts = quality.group_by("workload").agg(
        pl.when(pl.col("executed").all()).then(failed.sum()).cast(pl.Float64).alias("failed")
    )
    by_workload = {str(row["workload"]): row["failed"] for row in counts.to_dicts()}
    return _with_total("quality_failed_outputs", by_workload)


def _assembly(mismatches: Mapping[str, int]) -> dict[tuple[str, str], Values]:
    return _with_total("assembly_mismatches", mismatches)


def _with_total(metric: str, by_workload: Mapping[str, float | None]) -> dict[tuple[str, str], Values]:
    """The counts and their sum, which is NaN where any of them is."""
    if not by_workload:
        return {}
    values = {(metric, workload): _one(count) for workload, count in by_workload.items()}
    values[metric, OVERALL] = np.sum(np.array(list(values.values())), axis=0)
    return values


def _one(value: float | None) -> Values:
    return np.array([nan if value is None else value], dtype=np.float64)

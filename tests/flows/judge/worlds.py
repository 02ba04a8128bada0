"""Small values of two sides, for tests of the judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flows.judge.facts import COMPLETED, FACTS, OVERALL, REJECTED, UNSTABLE, MetricValues, Values
from schemas.policy import Check, Policy, Waiver

REPLICATIONS = 8

BASE: dict[str, float] = {
    "latency_p50_us": 100.0, "latency_p95_us": 200.0, "latency_p99_us": 300.0, "latency_mean_us": 110.0,
    "queueing_mean_us": 10.0, "throughput_per_s": 1000.0, "rejected_share": 0.0, "sla_missed_share": 0.01,
    "fallback_request_share": 0.0, "fallback_op_share": 0.0, "launch_overhead_reduction": 0.5,
    "on_chip_reuse_ratio": 0.9, "dram_bytes": 1e6, "spill_bytes": 0.0, "working_set_ratio": 0.5,
    "quality_failed_outputs": 0.0, "assembly_mismatches": 0.0,
}  # fmt: skip


def side(
    seed: int = 1,
    spread: float = 0.02,
    scale: Mapping[str, float] | None = None,
    replace: Mapping[str, float | Sequence[float]] | None = None,
    workloads: Sequence[str] = ("block",),
) -> MetricValues:
    """Values of one side. Replications vary by `spread`, alike on sides of the same seed, as on the same arrivals.

    scale: factor on a metric. replace: values of a metric instead; an empty one leaves it out.
    """
    rng = np.random.default_rng(seed)
    noise = np.exp(spread * rng.standard_normal(REPLICATIONS))
    values: dict[tuple[str, str], Values] = {}
    for scope in (OVERALL, *workloads):
        for metric, base in BASE.items():
            exact = FACTS[metric].exact  # type: ignore[index]
            value = np.array([base]) if exact else base * noise
            values[metric, scope] = value * (scale or {}).get(metric, 1.0)
            if metric in (replace or {}):
                values[metric, scope] = np.atleast_1d(np.array((replace or {})[metric], dtype=np.float64))
        values[COMPLETED, scope] = np.full(REPLICATIONS, 2000.0)
        values[REJECTED, scope] = np.zeros(REPLICATIONS)
        values[UNSTABLE, scope] = np.zeros(REPLICATIONS)
    return values


def with_values(values: MetricValues, **changed: Sequence[float]) -> MetricValues:
    """The same with other values of a metric overall."""
    return {**values, **{(metric, OVERALL): np.array(array, dtype=np.float64) for metric, array in changed.items()}}


P99 = Check(id="p99", metric="latency_p99_us", margin=0.05)
QUALITY = Check(id="quality", metric="quality_failed_outputs", scope="each_workload", limit=0.0)


def policy(*checks: Check, waivers: tuple[Waiver, ...] = ()) -> Policy:
    return Policy(checks=checks or (P99, QUALITY), waivers=waivers)

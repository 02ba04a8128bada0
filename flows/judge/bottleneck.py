"""Bottleneck class of a finding: from the latency drivers of the slowest requests, or from the metric itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

import numpy as np
import polars as pl

from flows.judge.facts import FACTS, OVERALL, MetricValues
from schemas.decision import Bottleneck, Driver
from schemas.policy import Metric

SLOWEST_SHARE = 0.05
DRIVERS: Final[tuple[Driver, ...]] = get_args(Driver)
CLASS_OF_DRIVER: Final[Mapping[Driver, Bottleneck]] = {
    "queueing": "queue",
    "imbalance": "imbalance",
    "batching": "queue",
    "launch": "launch",
    "compute": "compute",
    "memory": "dram",
    "contention": "dram",
    "sync": "sync",
    "noise": "compute",  # the noise model stretches kernels, and so does a lower clock
    "throttle": "compute",
    "fallback": "fallback",
}
_MEMORY_DRIVERS: Final = ("memory", "contention")
_WAITING: Final = ("queueing", "imbalance", "batching")
_PS_PER_US = 1e6


def driver_growth(requests: pl.DataFrame, scope: str) -> dict[Driver, float]:
    """Mean of each driver over the slowest 5 % of completed requests, candidate - comparator, in us.

    requests: both sides. scope: `overall` or a workload. Empty where a side has no completed request.
    """
    done = requests.filter(pl.col("status") == "completed")
    if scope != OVERALL:
        done = done.filter(pl.col("workload") == scope)
    means = {side: _slowest_means(done.filter(pl.col("side") == side)) for side in ("comparator", "candidate")}
    if not all(means.values()):
        return {}
    return {driver: means["candidate"][driver] - means["comparator"][driver] for driver in DRIVERS}


def _slowest_means(done: pl.DataFrame) -> dict[Driver, float]:
    if done.is_empty():
        return {}
    slowest = done.top_k(max(1, round(SLOWEST_SHARE * done.height)), by="latency_ps")
    return {driver: float(np.mean(slowest[f"{driver}_ps"].to_numpy())) / _PS_PER_US for driver in DRIVERS}


def classify(
    metric: Metric,
    scope: str,
    growth: Mapping[Driver, float],
    comparator: MetricValues,
    candidate: MetricValues,
) -> Bottleneck | None:
    """The class that explains a finding; None where nothing says it.

    Latency metrics: the driver that grew most among the slowest requests. A queue grows because service does, so a
    waiting driver counts only where no service driver grew beside it. Memory time is `spill` where the spilled bytes
    explain at least half of the DRAM traffic that was added, else `dram`.
    """
    known = FACTS[metric].bottleneck
    if known is not None:
        return known
    grown = {driver: value for driver, value in growth.items() if value > 0}
    if not grown or FACTS[metric].comparison == "count":
        return None
    service = {driver: value for driver, value in grown.items() if driver not in _WAITING}
    significant = max(service.values(), default=0.0) >= 0.1 * max(grown.values())
    among = service if significant else grown
    driver = max(among, key=lambda item: (among[item], item))
    if driver in _MEMORY_DRIVERS and _spill_explains(scope, comparator, candidate):
        return "spill"
    return CLASS_OF_DRIVER[driver]


def _spill_explains(scope: str, comparator: MetricValues, candidate: MetricValues) -> bool:
    """Whether spilled bytes make up at least half of the DRAM bytes that the candidate adds."""
    added = {}
    for metric in ("dram_bytes", "spill_bytes"):
        before, after = comparator.get((metric, scope)), candidate.get((metric, scope))
        if before is None or after is None:
            return False
        added[metric] = float(np.mean(after) - np.mean(before))
    return added["spill_bytes"] > 0 and added["spill_bytes"] >= 0.5 * added["dram_bytes"]

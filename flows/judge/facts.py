"""What each metric is: unit, which way is better, how two values are compared, who answers for it at first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from schemas.decision import Bottleneck
from schemas.policy import Evidence, Metric, Stage

STAGES: Final[tuple[Stage, ...]] = get_args(Stage)
OVERALL: Final = "overall"

Values = npt.NDArray[np.float64]
MetricValues = Mapping[tuple[str, str], Values]
"""(metric, scope) -> one value a paired replication, in the same order on both sides, or one exact value.

scope: `overall` or a workload's name. Absent or NaN: missing, never zero. Beside the metrics of a policy it holds
COMPLETED, REJECTED and UNSTABLE, which say how far the percentiles can be trusted.
"""
COMPLETED: Final = "requests_completed"
REJECTED: Final = "requests_rejected"
UNSTABLE: Final = "unstable"

Comparison = Literal["ratio", "rest", "amount", "count"]


@dataclass(frozen=True, slots=True)
class MetricFacts:
    """comparison: how worsening is measured.

    - `ratio`: candidate / comparator; a value of zero is no measurement (latencies, throughput).
    - `rest`: the same of 1 - r, for ratios r that saturate near 1.
    - `amount`: candidate / comparator, where zero is a real value (bytes, shares, waiting times).
    - `count`: something that is wrong; any number is a fact, not an estimate.

    exact: one number, the same in every run of the model. quantile: of latency, where the metric is one.
    home: the stage whose owner answers until the mechanism is known. bottleneck: the class that the metric alone
    shows; none where only the latency drivers, or nothing, can say.
    production: whether a runtime can measure it per request, so that a rollback criterion can rest on it.
    """

    unit: str
    comparison: Comparison
    evidence: Evidence
    home: Stage
    bottleneck: Bottleneck | None = None
    lower_is_better: bool = True
    exact: bool = False
    quantile: float | None = None
    production: bool = False

    @property
    def direction(self) -> str:
        return "lower_is_better" if self.lower_is_better else "higher_is_better"


def _latency(quantile: float | None) -> MetricFacts:
    return MetricFacts("us", "ratio", "replayed", "scheduling", quantile=quantile, production=True)


def _share(home: Stage, bottleneck: Bottleneck | None) -> MetricFacts:
    return MetricFacts("share", "amount", "replayed", home, bottleneck, production=True)


def _modelled(
    unit: str, comparison: Comparison, home: Stage, bottleneck: Bottleneck, *, lower_is_better: bool = True
) -> MetricFacts:
    return MetricFacts(unit, comparison, "modelled", home, bottleneck, lower_is_better, exact=True)


FACTS: Final[Mapping[Metric, MetricFacts]] = {
    "latency_p50_us": _latency(0.50),
    "latency_p95_us": _latency(0.95),
    "latency_p99_us": _latency(0.99),
    "latency_mean_us": _latency(None),
    "queueing_mean_us": MetricFacts("us", "amount", "replayed", "scheduling", "queue", production=True),
    "throughput_per_s": MetricFacts("1/s", "ratio", "replayed", "scheduling", lower_is_better=False, production=True),
    "rejected_share": _share("ingress", "queue"),
    "sla_missed_share": _share("scheduling", None),
    "fallback_request_share": _share("ingress", "fallback"),
    "fallback_op_share": _modelled("share", "amount", "lowering", "fallback"),
    "launch_overhead_reduction": _modelled("ratio", "rest", "fusion", "launch", lower_is_better=False),
    "on_chip_reuse_ratio": _modelled("ratio", "rest", "tiling", "dram", lower_is_better=False),
    "dram_bytes": _modelled("bytes per request", "amount", "tiling", "dram"),
    "spill_bytes": _modelled("bytes per request", "amount", "placement", "spill"),
    "working_set_ratio": _modelled("ratio", "amount", "tiling", "sram"),
    "quality_failed_outputs": MetricFacts("outputs", "count", "modelled", "execution", exact=True),
    "assembly_mismatches": MetricFacts("requests", "count", "replayed", "assembly", exact=True),
}

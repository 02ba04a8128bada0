"""How each metric of a policy is called and shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from schemas import words

Kind = Literal["time_us", "share", "ratio", "bytes", "count", "rate"]


@dataclass(frozen=True, slots=True)
class MetricWords:
    label: str
    kind: Kind


METRICS: Final[dict[str, MetricWords]] = {
    "latency_p50_us": MetricWords("latency p50", "time_us"),
    "latency_p95_us": MetricWords("latency p95", "time_us"),
    "latency_p99_us": MetricWords("latency p99", "time_us"),
    "latency_mean_us": MetricWords("mean latency", "time_us"),
    "queueing_mean_us": MetricWords("mean time in the queue", "time_us"),
    "throughput_per_s": MetricWords("throughput", "rate"),
    "rejected_share": MetricWords("rejected requests", "share"),
    "sla_missed_share": MetricWords("requests over the latency target", "share"),
    "fallback_request_share": MetricWords("requests on the fallback plan", "share"),
    "fallback_op_share": MetricWords("ops without a kernel", "share"),
    "launch_overhead_reduction": MetricWords("launch overhead reduction", "share"),
    "on_chip_reuse_ratio": MetricWords("on-chip reuse ratio", "share"),
    "dram_bytes": MetricWords("DRAM traffic", "bytes"),
    "spill_bytes": MetricWords("spill traffic", "bytes"),
    "working_set_ratio": MetricWords("working set ÷ capacity", "ratio"),
    "quality_failed_outputs": MetricWords("outputs over their error bound", "count"),
    "assembly_mismatches": MetricWords("results handed to the wrong request", "count"),
}


def metric_words(metric: str) -> MetricWords:
    """Words of a metric; one that is new here keeps its own name and reads as a plain number."""
    return METRICS.get(metric, MetricWords(words.spaced(metric), "ratio"))


QUEUE_GROWS: Final = "queue grows without end"
"""What a message says of latencies that have no percentile: their load exceeds what a side can serve."""


def absolute_limit_text(metric: str, limit: float) -> str:
    """An absolute limit as it was written, with the metric's unit."""
    return words.stated_percent(limit) if metric_words(metric).kind == "share" else metric_texts(metric, limit)[0]


def metric_texts(metric: str, *values: float | None) -> tuple[str, ...]:
    """The values with their unit, all in the same one, so that they can be compared by eye."""
    kind = metric_words(metric).kind
    if kind == "share":
        return tuple(words.percent(value) for value in values)
    return tuple(_scale(kind, values).with_unit(value) for value in values)


def _scale(kind: Kind, values: tuple[float | None, ...]) -> words.Scale:
    if kind == "time_us":
        scale = words.time_scale(None if value is None else value * 1e3 for value in values)
        return words.Scale(scale.unit, scale.per_unit / 1e3)
    if kind == "bytes":
        return words.bytes_scale(values)
    if kind == "rate":
        return words.Scale("per s", 1.0)
    return words.PLAIN

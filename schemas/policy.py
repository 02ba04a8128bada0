"""The policy: what is checked, how surely, who owns what, which exceptions hold, when to roll back."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Count, Document, Name, Positive, Share, Text

Role = Literal["ml_compiler_engineer", "kernel_performance_owner", "runtime_systems_engineer", "memory_hierarchy_owner"]
Stage = Literal["ingress", "lowering", "fusion", "tiling", "placement", "execution", "scheduling", "assembly"]
Evidence = Literal["modelled", "replayed", "measured"]
Metric = Literal[
    "latency_p50_us", "latency_p95_us", "latency_p99_us", "latency_mean_us", "queueing_mean_us", "throughput_per_s",
    "rejected_share", "sla_missed_share", "fallback_request_share", "fallback_op_share", "launch_overhead_reduction",
    "on_chip_reuse_ratio", "dram_bytes", "spill_bytes", "working_set_ratio", "quality_failed_outputs",
    "assembly_mismatches",
]  # fmt: skip
TAIL_METRICS = ("latency_p95_us", "latency_p99_us")
AVERAGE_METRICS = ("latency_mean_us", "throughput_per_s", "latency_p50_us")


class Check(Document):
    """One line of the validation matrix.

    With `margin` the candidate is compared with the comparator: relative worsening above the margin is a failure.
    For metrics that saturate near 1 (ratios r), 1 - r is compared. With `limit` the candidate's own value must
    not pass it.
    """

    id: Name
    metric: Metric
    scope: Literal["overall", "each_workload"] = "overall"
    margin: Annotated[float, Field(ge=0.0, le=10.0)] | None = None
    """Largest relative worsening against the comparator, e.g. 0.05."""
    limit: float | None = None
    """Absolute limit of the candidate's value, in the metric's unit; the worse direction is known from the metric."""
    severity: Literal["blocking", "warning"] = "blocking"
    owner: Role | None = None
    """Owner of a finding; by default the owner of the mechanism that caused it."""
    action: Text = ""
    """What the owner should do first."""

    @model_validator(mode="after")
    def _one_rule(self) -> Check:
        if (self.margin is None) == (self.limit is None):
            raise ValueError(f"check {self.id!r}: give exactly one of margin and limit")
        return self


class Waiver(Document):
    """A dated, signed exception for one check."""

    check: Name
    reason: Text
    signed_by: Text
    until: date


class Rollback(Document):
    """How the rollback criteria are measured in production."""

    window_s: Positive = 300.0
    min_samples: Count = 1000
    tolerance: Annotated[float, Field(ge=0.0, le=10.0)] = 0.05
    """Relative worsening against the comparator's own value that triggers the rollback."""


DEFAULT_OWNERSHIP: dict[Stage, Role] = {
    "ingress": "runtime_systems_engineer",
    "lowering": "ml_compiler_engineer",
    "fusion": "ml_compiler_engineer",
    "tiling": "kernel_performance_owner",
    "placement": "memory_hierarchy_owner",
    "execution": "kernel_performance_owner",
    "scheduling": "runtime_systems_engineer",
    "assembly": "runtime_systems_engineer",
}

DEFAULT_CHECKS: tuple[Check, ...] = (
    Check(id="latency-p99", metric="latency_p99_us", margin=0.05),
    Check(id="latency-p95", metric="latency_p95_us", margin=0.05),
    Check(id="latency-p50", metric="latency_p50_us", margin=0.05),
    Check(id="rejected", metric="rejected_share", limit=0.001),
    Check(id="quality", metric="quality_failed_outputs", scope="each_workload", limit=0.0),
    Check(id="assembly", metric="assembly_mismatches", scope="each_workload", limit=0.0),
    Check(id="launch-overhead", metric="launch_overhead_reduction", margin=0.05),
    Check(id="on-chip-reuse", metric="on_chip_reuse_ratio", margin=0.10, severity="warning"),
    Check(id="dram-traffic", metric="dram_bytes", margin=0.10, severity="warning"),
    Check(id="spill", metric="spill_bytes", scope="each_workload", margin=0.10, severity="warning"),
    Check(id="fallback", metric="fallback_op_share", margin=0.0),
)


class Policy(Document):
    """Checks, confidence, owners, waivers, rollback."""

    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.95
    replications: Annotated[int, Field(ge=4, le=1000)] = 8
    """Paired replications of the traffic, each with its own seed."""
    checks: Annotated[tuple[Check, ...], Field(min_length=1)] = DEFAULT_CHECKS
    owners: dict[Role, Text] = {}
    """Who holds each role: a name or an address."""
    ownership: dict[Stage, Role] = DEFAULT_OWNERSHIP
    """Owner role of a finding by its mechanism; a stage left out has its default."""
    waivers: tuple[Waiver, ...] = ()
    rollback: Rollback = Rollback()
    quality_top1_agreement: Share = 1.0
    """Least share of samples whose top-1 class agrees with the reference, for classifiers."""

    @field_validator("ownership", mode="after")
    @classmethod
    def _with_default_owners(cls, given: dict[Stage, Role]) -> dict[Stage, Role]:
        return {**DEFAULT_OWNERSHIP, **given}

    @model_validator(mode="after")
    def _waivers_name_checks(self) -> Policy:
        ids = {check.id for check in self.checks}
        unknown = [waiver.check for waiver in self.waivers if waiver.check not in ids]
        if unknown:
            raise ValueError(
                f"waivers: no check is called {', '.join(map(repr, unknown))}; the checks are {sorted(ids)}"
            )
        return self

    @model_validator(mode="after")
    def _tail_before_average(self) -> Policy:
        ids = [check.id for check in self.checks]
        if len(set(ids)) != len(ids):
            raise ValueError(f"checks: ids must differ, found {ids}")
        metrics = {check.metric for check in self.checks if check.severity == "blocking"}
        if metrics & set(AVERAGE_METRICS) and not {"latency_p99_us", "quality_failed_outputs"} <= metrics:
            raise ValueError(
                "checks: an average or throughput check needs blocking checks of latency_p99_us and "
                "quality_failed_outputs beside it (tail before average)"
            )
        return self

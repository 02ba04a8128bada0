"""Hybrids of the two sides, compiled and replayed on the same seeds and arrivals: what isolation asks for. Pure.

The pure sides are never run again: their values come from the run's own tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from accelmodel.compile import compile_plan, reference_plan
from accelmodel.graph import Graph
from accelmodel.memo import Memo
from accelmodel.plan import Plan
from accelmodel.settings import Settings, hybrid
from accelmodel.target import Target
from flows.arrivals import Arrivals
from flows.assembling import metric_rows, plan_weights
from flows.judge.facts import MetricValues
from flows.judge.metrics import metric_values
from flows.labels import batch_sizes, bucket_and_batch, plan_settings
from flows.replaying import replay_side
from schemas.candidate import Candidate
from schemas.tables import from_rows

PLAN_STAGES = ("lowering", "fusion", "tiling", "placement", "execution")
QUALITY_STAGES = (*PLAN_STAGES, "assembly")
SIDE = "candidate"  # what hybrids are called in the tables that they are measured by

Quality = tuple[pl.DataFrame, dict[str, int]]
"""Rows of the table `quality` (side `candidate`), and assembly mismatches by workload."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What hybrids are made of and run on.

    graphs: workload -> label -> graph, for the labels of both sides. quality: numeric quality of settings; asked once
    for each distinct combination of the stages that it depends on. known: values of the two pure sides.
    """

    document: Candidate
    target: Target
    comparator: Settings
    candidate: Settings
    graphs: Mapping[str, Mapping[str, Graph]]
    arrivals: Sequence[Arrivals]
    seeds: Sequence[int]
    quality: Callable[[Settings], Quality]
    known: Mapping[frozenset[str], MetricValues]
    memo: Memo
    plans: dict[tuple[object, ...], Plan] = field(default_factory=dict)

    def evaluate(self, stages: frozenset[str]) -> MetricValues:
        """Values of the hybrid that takes these stages from the candidate."""
        if stages in self.known:
            return self.known[stages]
        settings = hybrid(self.comparator, self.candidate, stages)
        plans = {name: self._plans(name, labels, settings) for name, labels in self.graphs.items()}
        served = replay_side(
            SIDE, self.document.workloads, plans, settings, self.target, self.arrivals, self.seeds
        )  # fmt: skip
        weights = plan_weights(served.requests, SIDE, settings.scheduling.max_batch)
        rows = [
            row
            for name, own in plans.items()
            for row in metric_rows(SIDE, name, own, self._references(name, own), settings, self.target, weights)
        ]
        quality, mismatches = self.quality(settings)
        return metric_values(
            served.requests, from_rows("metrics", rows), quality, SIDE, self.document.traffic.warmup_share,
            mismatches=mismatches, unstable=frozenset(served.unstable),
            quality_top1_agreement=self.document.policy.quality_top1_agreement,
        )  # fmt: skip

    def _plans(self, workload: str, graphs: Mapping[str, Graph], settings: Settings) -> dict[str, Plan]:
        wanted = set(batch_sizes(settings.scheduling.max_batch))
        return {
            label: self._plan(workload, label, graph, plan_settings(settings, label), compile_plan)
            for label, graph in graphs.items()
            if bucket_and_batch(label)[1] in wanted
        }

    def _references(self, workload: str, labels: Mapping[str, object]) -> dict[str, Plan]:
        graphs = self.graphs[workload]
        return {label: self._plan(workload, label, graphs[label], self.comparator, reference_plan) for label in labels}

    def _plan(self, workload: str, label: str, graph: Graph, settings: Settings, make: Callable[..., Plan]) -> Plan:
        """A plan by what it follows from: hybrids share those in which their plan stages agree."""
        key = (make, workload, label, *(getattr(settings, stage) for stage in PLAN_STAGES))
        if key not in self.plans:
            self.plans[key] = make(graph, self.target, settings, f"{workload} {label}", self.memo)
        return self.plans[key]

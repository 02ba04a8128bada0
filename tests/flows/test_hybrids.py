"""Hybrids: the pure sides are taken as they are, mixed ones are compiled and replayed on the same arrivals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accelmodel.importers.onnx import read_graph
from accelmodel.memo import Memo
from accelmodel.settings import ExecutionSettings, FusionSettings, SchedulingSettings, Settings
from flows.arrivals import replications, seeds_of
from flows.hybrids import Bench
from flows.inputs import load_candidate
from flows.judge.facts import MetricValues
from schemas.tables import empty
from tests.flows.world import Write

COMPARATOR = Settings()
CANDIDATE = replace(
    COMPARATOR, fusion=FusionSettings(policy="none"), execution=ExecutionSettings(extra_barriers=20),
    scheduling=SchedulingSettings(max_batch=2, max_wait_us=50),
)  # fmt: skip
CHANGED = frozenset({"fusion", "execution", "scheduling"})
PURE: MetricValues = {("latency_p99_us", "overall"): np.array([1.0])}


@pytest.fixture
def bench(write_candidate: Write, block_model: Path) -> Bench:
    loaded = load_candidate(write_candidate("c"))
    graphs = {
        f"{bucket}/{batch}": read_graph(block_model, {"batch": batch, "sequence": sequence})
        for bucket, sequence in (("short", 8), ("long", 16))
        for batch in (1, 2)
    }
    return Bench(
        document=loaded.document, target=loaded.target, comparator=COMPARATOR, candidate=CANDIDATE,
        graphs={"block": graphs}, arrivals=replications(loaded.document, None), seeds=seeds_of(loaded.document),
        quality=lambda settings: (empty("quality"), {"block": 0}), memo=Memo(),
        known={frozenset(): PURE, CHANGED: PURE},
    )  # fmt: skip


def test_the_pure_sides_are_not_run_again(bench: Bench) -> None:
    assert bench.evaluate(frozenset()) is PURE
    assert bench.evaluate(CHANGED) is PURE
    assert bench.plans == {}


def test_a_hybrid_has_the_stages_that_it_takes_and_no_others(bench: Bench) -> None:
    fused, barred = bench.evaluate(frozenset({"fusion"})), bench.evaluate(frozenset({"execution"}))

    assert fused["launch_overhead_reduction", "overall"] == pytest.approx([0.0])
    assert barred["launch_overhead_reduction", "overall"][0] > 0.3
    assert len(fused["latency_p99_us", "overall"]) == bench.document.policy.replications
    assert np.all(barred["latency_p99_us", "overall"] > fused["latency_p99_us", "overall"])


def test_hybrids_share_plans_and_are_the_same_when_asked_again(bench: Bench) -> None:
    first = bench.evaluate(frozenset({"fusion"}))
    plans = dict(bench.plans)
    bench.evaluate(frozenset({"fusion", "scheduling"}))
    added = set(bench.plans) - set(plans)

    assert {key[2] for key in added} == {"short/2", "long/2"}  # only what batching adds is compiled
    again = bench.evaluate(frozenset({"fusion"}))
    assert first.keys() == again.keys()
    assert all(np.array_equal(first[key], again[key], equal_nan=True) for key in first)


def test_quality_is_that_of_the_hybrids_own_settings(bench: Bench) -> None:
    asked: list[Settings] = []

    def quality(settings: Settings) -> tuple[pl.DataFrame, dict[str, int]]:
        asked.append(settings)
        return empty("quality"), {"block": 2}

    found = replace(bench, quality=quality).evaluate(frozenset({"fusion"}))

    assert asked == [replace(COMPARATOR, fusion=CANDIDATE.fusion)]
    assert found["assembly_mismatches", "block"] == pytest.approx([2.0])

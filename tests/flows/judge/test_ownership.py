"""Owners and first actions."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from flows.judge.checks import compare
from flows.judge.facts import FACTS, OVERALL, STAGES
from flows.judge.ownership import FIRST_ACTIONS, WITHOUT_MECHANISM, action_for, owner_of
from schemas.policy import DEFAULT_OWNERSHIP, Metric
from tests.flows.judge.worlds import P99, policy, side, with_values

FAILED = compare(P99, OVERALL, side(), side(scale={"latency_p99_us": 2.0}), 0.95)


def test_every_metric_has_facts_and_every_stage_an_action_and_an_owner() -> None:
    assert set(FACTS) == set(get_args(Metric))
    assert set(FIRST_ACTIONS) == set(STAGES) == set(DEFAULT_OWNERSHIP)


def test_owner_is_the_mechanisms_then_the_metrics() -> None:
    assert owner_of(policy(), P99, "placement") == ("memory_hierarchy_owner", "memory_hierarchy_owner")
    assert owner_of(policy(), P99, None)[0] == "runtime_systems_engineer"


def test_action_is_the_sharpest_that_is_known() -> None:
    assert "spill" in action_for(FAILED, "fusion", "spill")
    assert action_for(FAILED, "fusion", "compute") == FIRST_ACTIONS["fusion"]
    assert action_for(FAILED, None, "spill") == WITHOUT_MECHANISM


def test_action_of_what_is_not_known_is_to_know_it() -> None:
    missing = compare(P99, OVERALL, side(), with_values(side(), latency_p99_us=[]), 0.95)
    assert action_for(missing, None, None) == "Give the evidence that is missing, and run again."
    assert "op 'y' has no numeric rule" in action_for(replace(missing, cause="op 'y' has no numeric rule"), None, None)

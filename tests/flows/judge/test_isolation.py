"""Isolation on made-up hybrids: each stage, several stages, interactions, and what cannot be isolated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from flows.judge.checks import CheckResult, evaluate
from flows.judge.facts import OVERALL, STAGES, MetricValues
from flows.judge.isolation import Isolation, isolate
from schemas.policy import Check, Policy
from schemas.tables import from_rows
from tests.flows.judge.worlds import P99, QUALITY, policy, side, with_values

Hybrid = Callable[[frozenset[str]], MetricValues]
DRAM = Check(id="dram", metric="dram_bytes", margin=0.1)


def world(factor: Callable[[frozenset[str]], float], metric: str = "latency_p99_us") -> Hybrid:
    """Hybrids whose metric is the comparator's times a factor that depends on the stages from the candidate."""

    def hybrid(stages: frozenset[str]) -> MetricValues:
        return side(scale={metric: factor(stages)})

    return hybrid


def run(hybrid: Hybrid, changed: tuple[str, ...], rules: Policy | None = None) -> Isolation:
    rules = rules or policy(P99, QUALITY, DRAM)
    results = evaluate(rules, hybrid(frozenset()), hybrid(frozenset(changed)))
    return isolate(results, changed, hybrid, rules)


@pytest.mark.parametrize("culprit", STAGES)
@pytest.mark.parametrize("changed", ["one", "all"])
def test_each_stage_is_found(culprit: str, changed: str) -> None:
    stages = (culprit,) if changed == "one" else STAGES
    found = run(world(lambda taken: 1.5 if culprit in taken else 1.0), stages)
    (mechanism,) = found.mechanisms
    assert (found.first, mechanism.stage, mechanism.isolation) == (culprit, culprit, "isolated")
    assert (mechanism.interaction, mechanism.cures) == ("", (culprit,))
    assert mechanism.proof == f"mechanisms#p99/overall/prefix/{culprit}"


def test_rows_are_a_valid_table_with_all_stages_and_the_proving_pair() -> None:
    found = run(world(lambda taken: 1.5 if "fusion" in taken else 1.0), ("fusion", "scheduling"))
    table = from_rows("mechanisms", found.rows)
    assert table.height == 4 * len(STAGES)
    proof = [(row["experiment"], row["stage"], row["status"]) for row in table.to_dicts() if row["proves"]]
    assert proof == [("prefix", "lowering", "pass"), ("prefix", "fusion", "fail")]
    statuses = {row["stage"]: row["status"] for row in table.to_dicts() if row["experiment"] == "prefix"}
    assert list(statuses.values()) == ["pass", "pass"] + ["fail"] * 6


def test_proof_of_the_first_stage_is_against_the_comparator_itself() -> None:
    found = run(world(lambda taken: 1.5 if "ingress" in taken else 1.0), ("ingress",))
    proof = [(row["experiment"], row["stage"], row["from_candidate"]) for row in found.rows if row["proves"]]
    assert proof == [("prefix", "ingress", "ingress"), ("suffix", "assembly", "")]


def test_unchanged_stages_cost_no_run() -> None:
    calls: list[frozenset[str]] = []
    inner = world(lambda taken: 1.5 if "fusion" in taken else 1.0)

    def counted(stages: frozenset[str]) -> MetricValues:
        calls.append(stages)
        return inner(stages)

    results = evaluate(policy(), inner(frozenset()), inner(frozenset({"fusion"})))
    found = isolate(results, ("fusion",), counted, policy())
    assert sorted(map(sorted, calls)) == [[], ["fusion"]]
    assert found.hybrids == 2


def test_two_stages_that_each_suffice_are_reported_as_such() -> None:
    found = run(world(lambda taken: 1.5 ** len(taken & {"fusion", "execution"})), ("fusion", "execution"))
    (mechanism,) = found.mechanisms
    assert mechanism.stage == "fusion"
    assert "fusion and execution each make it fail alone" in mechanism.interaction
    assert mechanism.cures == ()


def test_interaction_of_two_stages_names_the_partner() -> None:
    found = run(world(lambda taken: 1.5 if {"lowering", "tiling"} <= taken else 1.0), ("lowering", "tiling"))
    (mechanism,) = found.mechanisms
    assert mechanism.stage == "tiling"
    assert mechanism.interaction == "tiling alone does not make it fail: it needs lowering"
    assert mechanism.cures == ("lowering", "tiling")


def test_stage_that_a_later_one_makes_good_again_still_disagrees() -> None:
    # Fusion hurts, tiling cures it, scheduling hurts again: the first failing prefix is fusion, and swaps say more.
    def factor(taken: frozenset[str]) -> float:
        return (1.5 if "fusion" in taken and "tiling" not in taken else 1.0) * (1.5 if "scheduling" in taken else 1.0)

    (mechanism,) = run(world(factor), ("fusion", "tiling", "scheduling")).mechanisms
    assert mechanism.stage == "fusion"
    assert "fusion and scheduling each make it fail alone" in mechanism.interaction


def test_first_mechanism_is_the_smallest_over_blocking_checks() -> None:
    def hybrid(taken: frozenset[str]) -> MetricValues:
        late = 1.5 if "scheduling" in taken else 1.0
        early = 1.5 if "lowering" in taken else 1.0
        return side(scale={"latency_p99_us": late, "dram_bytes": early})

    changed = ("lowering", "scheduling")
    assert run(hybrid, changed).first == "lowering"
    warning = DRAM.model_copy(update={"severity": "warning"})
    found = run(hybrid, changed, policy(P99, QUALITY, warning))
    assert found.first == "scheduling"
    dram = found.of("dram", OVERALL)
    assert dram is not None and dram.stage == "lowering"


def test_quality_and_assembly_isolate_by_the_same_rule() -> None:
    def hybrid(taken: frozenset[str]) -> MetricValues:
        return side(replace={"quality_failed_outputs": 2.0 if "lowering" in taken else 0.0})

    found = run(hybrid, ("lowering", "fusion"))
    assert [(item.check, item.scope, item.stage) for item in found.mechanisms] == [("quality", "block", "lowering")]


def test_undecided_hybrid_before_the_first_failure_is_not_isolated() -> None:
    noise = np.exp([0.25, -0.1, 0.2, -0.1, 0.15, 0.0, 0.1, -0.05])

    def hybrid(taken: frozenset[str]) -> MetricValues:
        if taken == {"fusion"}:
            return with_values(side(), latency_p99_us=side()["latency_p99_us", OVERALL] * noise)
        return side(scale={"latency_p99_us": 1.5 if "tiling" in taken else 1.0})

    found = run(hybrid, ("fusion", "tiling"))
    (mechanism,) = found.mechanisms
    assert (found.first, mechanism.stage, mechanism.isolation) == (None, None, "not isolated")
    assert "none: pass, up to fusion: undecided, up to tiling: fail" in mechanism.reason
    assert not any(row["first"] or row["proves"] for row in found.rows)


def test_comparator_that_breaks_the_limit_itself_is_not_isolated() -> None:
    def hybrid(taken: frozenset[str]) -> MetricValues:
        return side(replace={"quality_failed_outputs": 1.0})

    (mechanism,) = run(hybrid, ("fusion",)).mechanisms
    assert "the comparator breaks the same limit by itself" in mechanism.reason


def test_candidate_that_does_not_fail_again_is_not_isolated() -> None:
    failing = world(lambda taken: 1.5 if taken else 1.0)
    results = evaluate(policy(), failing(frozenset()), failing(frozenset({"fusion"})))
    found = isolate(results, ("fusion",), lambda stages: side(), policy())
    assert "do not agree with the matrix" in found.mechanisms[0].reason


def failed_results() -> tuple[CheckResult, ...]:
    return evaluate(policy(), side(), side(scale={"latency_p99_us": 1.5}))


def test_measured_sides_are_classified_not_isolated() -> None:
    (mechanism,) = isolate(failed_results(), ("fusion",), None, policy()).mechanisms
    assert (mechanism.isolation, mechanism.stage) == ("classified, not isolated", None)


def test_failure_without_a_changed_stage_is_not_isolated() -> None:
    (mechanism,) = isolate(failed_results(), (), lambda stages: side(), policy()).mechanisms
    assert "settings of no stage differ" in mechanism.reason


def test_nothing_failed_runs_nothing() -> None:
    def never(stages: frozenset[str]) -> MetricValues:
        raise AssertionError("no hybrid is needed")

    assert isolate(evaluate(policy(), side(), side()), STAGES, never, policy()).rows == ()

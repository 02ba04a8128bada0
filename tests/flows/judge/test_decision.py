"""The decision table: what gives GO, NO_GO and HOLD, in which order, with which words."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from flows.judge.checks import CheckResult, evaluate
from flows.judge.decision import Case, decide, final_results, waiver_problem
from flows.judge.facts import OVERALL
from flows.judge.isolation import Isolation, isolate
from flows.judge.lock import Mismatch
from flows.judge.rows import check_rows, history_rows
from flows.judge.stability import Instability
from schemas.decision import Drill, RollbackCriterion
from schemas.policy import Check, Policy, Waiver
from schemas.tables import from_rows
from tests.flows.judge.runs import run_document
from tests.flows.judge.worlds import P99, QUALITY, policy, side, with_values

TODAY = date(2026, 3, 1)
DRILL = Drill(passed=True, criterion="rollback-p99", detection_s=0.5, recovered=True, text="It fired and recovered.")
CRITERION = RollbackCriterion(
    id="rollback-p99", metric="latency_p99_us", threshold=315.0, unit="us", window_s=300, min_samples=1000, text="…"
)
MISMATCH = Mismatch("tag", "tags.driver", "550", "560", True, "driver is '550' and '560'", "Declare it.")
WAIVER = Waiver(check="p99", reason="known", signed_by="release manager", until=date(2026, 4, 1))


def case(scale: float = 1.0, rules: Policy | None = None, **changed: object) -> Case:
    """A candidate whose fusion makes p99 `scale` times as long."""
    rules = rules or policy()

    def hybrid(stages: frozenset[str]):
        return side(scale={"latency_p99_us": scale if "fusion" in stages else 1.0})

    results = evaluate(rules, hybrid(frozenset()), hybrid(frozenset({"fusion"})))
    base = Case(
        run_id="r1", candidate_name="new", policy=rules, results=results, mismatches=(), instabilities=(),
        isolation=isolate(results, ("fusion",), hybrid, rules), bottlenecks={("p99", OVERALL): "spill"},
        criteria=(CRITERION,), drill=DRILL, evidence=("modelled", "replayed"), changed_stages=("fusion",),
        planned_only=True, model_only_accepted=True, today=TODAY,
    )  # fmt: skip
    return replace(base, **changed)  # type: ignore[arg-type]


def with_results(of: Case, *results: CheckResult) -> Case:
    return replace(of, results=results)


def test_all_passing_is_go() -> None:
    decision = decide(case())
    assert (decision.verdict, decision.exit_code, decision.findings) == ("GO", 0, ())
    assert decision.reasons == ("Every blocking check passes: 2 of 2.",)
    assert decision.next_action == "Release, and watch latency p99 (roll back above 315 µs: rollback-p99)."
    assert decision.model_only and any("MODEL-ONLY" in text for text in decision.warnings)


def test_proven_harm_is_no_go_with_mechanism_owner_action_and_proof() -> None:
    rules = policy().model_copy(update={"owners": {"ml_compiler_engineer": "compilers@example"}})
    decision = decide(case(1.5, rules))
    assert (decision.verdict, decision.exit_code) == ("NO_GO", 1)
    assert decision.first_failing_mechanism == "fusion"
    (finding,) = decision.findings
    assert decision.first_finding == finding.id == "p99/overall"
    assert (finding.isolation, finding.mechanism, finding.bottleneck) == ("isolated", "fusion", "spill")
    assert (finding.owner_role, finding.owner) == ("ml_compiler_engineer", "compilers@example")
    assert finding.proof == "mechanisms#p99/overall/prefix/fusion"
    assert decision.next_action == finding.action
    assert "split_before" in finding.action
    assert decision.reasons[0].startswith("p99 fails: 50.0 % worse")


def test_failing_warning_is_a_finding_but_go() -> None:
    warning = Check(id="w", metric="latency_p95_us", margin=0.05, severity="warning")
    rules = policy(P99, QUALITY, warning)
    results = evaluate(rules, side(), side(scale={"latency_p95_us": 2.0}))
    decision = decide(case(rules=rules, results=results, isolation=Isolation((), (), None, 0)))
    assert decision.verdict == "GO"
    assert [(finding.check, finding.severity) for finding in decision.findings] == [("w", "warning")]
    assert decision.first_failing_mechanism is None


def test_lock_mismatch_is_hold_at_ingress_and_outranks_proven_harm() -> None:
    decision = decide(case(1.5, mismatches=(MISMATCH,)))
    assert (decision.verdict, decision.exit_code) == ("HOLD", 2)
    assert decision.first_failing_mechanism == "ingress"
    assert (decision.first_finding, decision.next_action) == ("lock/tags.driver", "Declare it.")
    assert decision.findings[0].proof == "lock#tags.driver"
    assert decision.reasons == ("The sides must not be compared: driver is '550' and '560'.",)


def test_bundle_is_a_warning_and_a_finding_not_a_hold() -> None:
    bundle = Mismatch("bundle", "settings", "", "fusion, tiling", False, "two stages change", "Split it.")
    decision = decide(case(mismatches=(bundle,)))
    assert decision.verdict == "GO"
    assert "Two stages change. Split it." in decision.warnings
    assert decision.findings[0].severity == "warning"


NOISE = np.exp([0.25, -0.1, 0.2, -0.1, 0.15, 0.0, 0.1, -0.05])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "p99 is missing"),
        ([np.nan] * 8, "p99 is missing"),
        (list(300 * NOISE), "p99 is undecided"),
    ],
)
def test_missing_and_undecided_blocking_checks_are_hold(values: list[float], words: str) -> None:
    results = evaluate(policy(), side(spread=0.0), with_values(side(spread=0.0), latency_p99_us=values))
    decision = decide(case(results=results, isolation=Isolation((), (), None, 0)))
    assert decision.verdict == "HOLD"
    assert decision.reasons[0].startswith(words)
    assert decision.next_action


def test_policy_whose_checks_match_nothing_is_hold() -> None:
    results = evaluate(policy(QUALITY), {}, {})
    decision = decide(case(rules=policy(QUALITY), results=results))
    assert decision.verdict == "HOLD"
    assert any("matched no workload" in reason for reason in decision.reasons)
    assert decide(case(results=())).verdict == "HOLD"


def test_only_warnings_are_hold() -> None:
    warning = Check(id="w", metric="latency_p95_us", margin=0.05, severity="warning")
    rules = policy(warning)
    decision = decide(case(rules=rules, results=evaluate(rules, side(), side())))
    assert (decision.verdict, decision.reasons[0]) == ("HOLD", "No blocking check came to a result.")


def test_valid_waiver_sets_a_failure_aside_and_is_listed() -> None:
    decision = decide(case(1.5, policy(P99, QUALITY, waivers=(WAIVER,))))
    assert decision.verdict == "GO"
    assert decision.waivers_applied == ("p99: known (release manager, until 2026-04-01)",)
    assert [finding.status for finding in decision.findings] == ["waived"]
    assert decision.first_failing_mechanism is None
    assert decision.reasons == ("Every blocking check passes: 1 of 2, 1 waived.",)


def test_waiver_that_was_not_needed_is_not_listed() -> None:
    assert decide(case(rules=policy(P99, QUALITY, waivers=(WAIVER,)))).waivers_applied == ()


def test_expired_waiver_is_no_waiver() -> None:
    expired = WAIVER.model_copy(update={"until": date(2026, 2, 28)})
    rules = policy(P99, QUALITY, waivers=(expired,))
    assert decide(case(1.5, rules)).verdict == "NO_GO"
    held = decide(case(1.0, rules))
    assert (held.verdict, held.reasons) == ("HOLD", ("The waiver of p99 expired on 2026-02-28.",))
    assert held.next_action == "Renew the waiver of p99 with a date within a year, or remove it."


def test_waiver_holds_on_its_last_day_and_never_for_ever() -> None:
    assert waiver_problem(WAIVER.model_copy(update={"until": TODAY}), TODAY) is None
    endless = WAIVER.model_copy(update={"until": date(9999, 12, 31)})
    assert decide(case(1.5, policy(P99, QUALITY, waivers=(endless,)))).verdict == "NO_GO"
    unsigned = WAIVER.model_copy(update={"signed_by": " "})
    assert waiver_problem(unsigned, TODAY) == "the waiver of p99 has no reason or no signature"


def test_unstable_comparator_is_hold_and_its_failures_prove_nothing() -> None:
    shaky = (Instability("p99", "half of it is worse"),)
    for scale in (1.0, 1.5):
        decision = decide(case(scale, instabilities=shaky))
        assert decision.verdict == "HOLD"
        assert any("comparator is unstable in p99" in reason for reason in decision.reasons)
    assert decision.first_failing_mechanism is None


def test_broken_correctness_is_no_go_even_with_an_unstable_comparator() -> None:
    results = evaluate(policy(), side(), side(replace={"quality_failed_outputs": 1.0}))
    decision = decide(case(results=results, instabilities=(Instability("p99", "half of it is worse"),)))
    assert decision.verdict == "NO_GO"


@pytest.mark.parametrize(
    ("drill", "words"),
    [(None, "No rollback was rehearsed"), (DRILL.model_copy(update={"passed": False}), "The rollback drill failed")],
)
def test_missing_or_failed_drill_is_hold_for_what_would_be_go(drill: Drill | None, words: str) -> None:
    decision = decide(case(drill=drill))
    assert decision.verdict == "HOLD"
    assert decision.reasons[0].startswith(words)


def test_failed_drill_is_a_warning_of_a_no_go() -> None:
    decision = decide(case(1.5, drill=DRILL.model_copy(update={"passed": False})))
    assert decision.verdict == "NO_GO"
    assert any("drill failed" in text for text in decision.warnings)


def test_model_only_is_hold_unless_the_candidate_accepts_it() -> None:
    decision = decide(case(model_only_accepted=False))
    assert decision.verdict == "HOLD"
    assert "`model_only: true`" in decision.next_action
    measured = decide(case(model_only_accepted=False, planned_only=False))
    assert (measured.verdict, measured.model_only) == ("GO", False)


def test_no_evidence_is_hold() -> None:
    assert decide(case(evidence=())).verdict == "HOLD"


def test_next_action_is_the_cheapest_that_would_resolve_it() -> None:
    results = evaluate(policy(), side(spread=0.0), with_values(side(spread=0.0), latency_p99_us=300 * NOISE))
    decision = decide(case(results=results, isolation=Isolation((), (), None, 0), model_only_accepted=False))
    assert "model_only" in decision.next_action
    assert len(decision.reasons) == 2


def test_findings_name_what_blocks_first_then_failures_then_stage_order() -> None:
    early = Check(id="dram", metric="dram_bytes", margin=0.1)
    rules = policy(P99, early, QUALITY)

    def hybrid(stages: frozenset[str]):
        return side(
            scale={
                "latency_p99_us": 1.5 if "scheduling" in stages else 1.0,
                "dram_bytes": 2 if "tiling" in stages else 1,
            }
        )

    results = evaluate(rules, hybrid(frozenset()), hybrid(frozenset({"tiling", "scheduling"})))
    found = isolate(results, ("tiling", "scheduling"), hybrid, rules)
    decision = decide(case(rules=rules, results=results, isolation=found))
    assert [finding.mechanism for finding in decision.findings] == ["tiling", "scheduling"]
    assert (decision.first_failing_mechanism, decision.first_finding) == ("tiling", "dram/overall")


def test_rows_of_the_matrix_are_a_valid_table_with_the_mechanisms_owner() -> None:
    broken = case(1.5)
    table = from_rows("checks", check_rows(final_results(broken), broken.isolation, broken.policy))
    assert table["status"].to_list() == ["fail", "pass"]
    assert table["owner_role"].to_list() == ["ml_compiler_engineer", "kernel_performance_owner"]


def test_rows_of_the_history_are_a_valid_table() -> None:
    decision = decide(case(1.5))
    table = from_rows("history", history_rows(run_document(), decision, side(), side(scale={"latency_p99_us": 1.5})))
    assert set(table["verdict"]) == {"NO_GO"}
    assert table.height == 2 * 17 * 2


def test_check_may_name_its_own_owner_and_action() -> None:
    own = P99.model_copy(update={"owner": "memory_hierarchy_owner", "action": "Call me."})
    (finding,) = decide(case(1.5, policy(own, QUALITY))).findings
    assert (finding.owner_role, finding.action) == ("memory_hierarchy_owner", "Call me.")

"""What other tools read: JUnit XML and the verification summary."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from flows.judge.checks import evaluate
from flows.judge.decision import decide
from flows.judge.isolation import Isolation
from flows.judge.junit import junit_xml
from flows.judge.vsa import verification_summary
from schemas.policy import Check
from tests.flows.judge.runs import run_document
from tests.flows.judge.test_decision import WAIVER, case
from tests.flows.judge.worlds import P99, QUALITY, policy, side

WARNING = Check(id="w", metric="latency_p95_us", margin=0.05, severity="warning")


def suite(text: str) -> ElementTree.Element:
    found = ElementTree.fromstring(text).find("testsuite")
    assert found is not None
    return found


def counts(element: ElementTree.Element) -> tuple[str | None, ...]:
    return tuple(element.get(name) for name in ("tests", "failures", "errors", "skipped"))


def test_suite_of_a_go_has_no_failure() -> None:
    good = case()
    assert counts(suite(junit_xml(decide(good), good.results))) == ("3", "0", "0", "0")


def test_failures_are_failures_and_unknowns_are_errors() -> None:
    broken = case(1.5)
    found = suite(junit_xml(decide(broken), broken.results))
    assert counts(found) == ("3", "2", "0", "0")
    names = [element.get("name") for element in found if element.find("failure") is not None]
    assert names == ["verdict", "p99 overall"]
    missing = case(results=evaluate(policy(), side(), {}), isolation=Isolation((), (), None, 0))
    assert counts(suite(junit_xml(decide(missing), missing.results))) == ("3", "0", "3", "0")


def test_warnings_and_waivers_are_skipped_so_that_the_suite_agrees_with_the_verdict() -> None:
    rules = policy(P99, QUALITY, WARNING, waivers=(WAIVER,))
    results = evaluate(rules, side(), side(scale={"latency_p95_us": 2.0}))
    decision = decide(case(rules=rules, results=results, isolation=Isolation((), (), None, 0)))
    assert decision.verdict == "GO"
    assert counts(suite(junit_xml(decision, results))) == ("4", "0", "0", "1")


def test_names_from_a_file_are_text_in_the_document() -> None:
    decision = decide(case()).model_copy(update={"candidate_name": "<script>&\x00\ud800"})
    assert suite(junit_xml(decision, ())).get("name") == "tilegate <script>&\ufffd\ufffd"


@pytest.mark.parametrize(("scale", "result"), [(1.0, "PASSED"), (1.5, "FAILED")])
def test_summary_is_passed_only_for_go(scale: float, result: str) -> None:
    statement = verification_summary(run_document(), decide(case(scale)), "e" * 64, datetime(2026, 3, 1, tzinfo=UTC))
    predicate = statement["predicate"]
    assert predicate["verificationResult"] == result
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/verification_summary/v1"
    assert predicate["https://tilegate/signed"] is False
    assert json.loads(json.dumps(statement)) == statement


def test_summary_of_a_hold_is_failed() -> None:
    held = decide(case(drill=None))
    assert held.verdict == "HOLD"
    statement = verification_summary(run_document(), held, "e" * 64, datetime(2026, 3, 1, tzinfo=UTC))
    assert statement["predicate"]["verificationResult"] == "FAILED"


def test_summary_attests_every_input_and_artifact() -> None:
    statement = verification_summary(run_document(), decide(case()), "e" * 64, datetime(2026, 3, 1, tzinfo=UTC))
    digests = [item["digest"]["sha256"] for item in statement["predicate"]["inputAttestations"]]
    assert digests == ["a" * 64, "b" * 64]
    assert statement["subject"] == [{"name": "new", "digest": {"sha256": "a" * 64}}]


def test_run_that_names_no_candidate_file_attests_nothing() -> None:
    run = run_document().model_copy(update={"inputs": ()})
    with pytest.raises(ValueError, match="no input of the role candidate"):
        verification_summary(run, decide(case()), "e" * 64, datetime(2026, 3, 1, tzinfo=UTC))

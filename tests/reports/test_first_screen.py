"""First screen: what the release manager reads."""

from dataclasses import replace

import pytest

from reports.anchors import html_id
from reports.evidence import Evidence
from reports.first_screen import FirstScreen, first_screen
from reports.tiles import Tile
from tests.reports.worlds import finding, growing, unlike, world

PROOF = html_id("mechanisms#latency-p99/overall/prefix/fusion")


def screen(verdict: str, **changed: object) -> FirstScreen:
    evidence = world(verdict, requests=400)
    decision = evidence.decision.model_copy(update=changed)
    return first_screen(replace(evidence, decision=decision), {PROOF})


def tiles(evidence: Evidence) -> dict[str, Tile]:
    return {tile.label: tile for tile in first_screen(evidence, ()).tiles}


@pytest.mark.parametrize(
    ("verdict", "word", "tone", "order"),
    [
        ("GO", "GO", "good", "The candidate may be released."),
        ("HOLD", "HOLD", "warn", "Do not release yet: the evidence cannot decide."),
        ("NO_GO", "NO GO", "bad", "Do not release this candidate."),
    ],
)
def test_the_verdict_is_a_word_and_an_order(verdict: str, word: str, tone: str, order: str) -> None:
    found = screen(verdict)

    assert (found.word, found.tone, found.order) == (word, tone, order)


def test_the_first_finding_says_mechanism_proof_owner_and_action() -> None:
    cause = screen("NO_GO").cause
    assert cause is not None

    assert (cause.title, cause.mechanism, cause.isolation) == (
        "First failing mechanism", "fusion", "stage 3 of 8, isolated",
    )  # fmt: skip
    assert cause.headline.replace("\u00a0", " ") == (
        "latency p99, overall: 1,012 µs → 1,392 µs, 37.5 % worse (at most +5 %)"
    )
    assert cause.proof.href == f"#{PROOF}"
    assert cause.proof.text == "swap table: latency-p99, overall, prefix, fusion"
    assert (cause.owner.text, cause.owner.sub) == ("Noor <noor@example.org>", "ml compiler engineer")
    assert cause.action == "Split the groups that spill, then run again."


def test_the_stages_show_which_failed_first_and_which_changed() -> None:
    assert [stage.state for stage in screen("NO_GO").stages] == ["same"] * 2 + ["failed"] + ["same"] * 5
    assert [stage.state for stage in screen("HOLD").stages] == ["same"] * 2 + ["changed"] + ["same"] * 5


def test_a_mechanism_that_is_not_isolated_is_said_to_be_so() -> None:
    vague = finding().model_copy(update={"mechanism": None, "isolation": "classified, not isolated"})
    cause = screen("NO_GO", findings=(vague,), first_failing_mechanism=None).cause
    assert cause is not None

    assert (cause.mechanism, cause.isolation) == ("no mechanism isolated", "classified, not isolated")


def test_a_mismatch_of_the_lock_has_no_check_to_quote() -> None:
    broken = finding().model_copy(update={"check": "lock-tag", "isolation": "lock", "proof": "lock#tags.driver"})
    cause = screen("NO_GO", findings=(broken,)).cause
    assert cause is not None

    assert cause.headline == ""
    assert cause.proof.text == "evidence lock: tags.driver"


def test_a_hold_without_a_finding_sends_to_the_reasons() -> None:
    found = screen("HOLD")

    assert found.cause is None
    assert found.no_cause.startswith("No single finding")
    assert found.next_action.startswith("Run 24 more replications")


def test_a_decision_without_reasons_says_missing() -> None:
    assert screen("HOLD", reasons=()).reasons == ("missing: the decision gives no reason",)


def test_long_lists_of_reasons_are_folded_and_whole() -> None:
    found = screen("HOLD")

    assert len(found.reasons) == 4
    assert found.more_reasons == ("Fifth reason, behind the fold.",)


def test_every_kind_of_evidence_and_model_only_are_said() -> None:
    assert screen("GO").evidence == ("modelled", "replayed")
    assert screen("GO", evidence=()).evidence == ("missing",)
    assert screen("GO").model_only
    assert not screen("GO", model_only=False).model_only


def test_numbers_of_the_matrix_win_so_that_the_page_never_says_two_things() -> None:
    tile = tiles(world("NO_GO", requests=400))["latency p99"]

    assert (tile.comparator, tile.candidate) == ("1,012\u00a0µs", "1,392\u00a0µs")
    assert (tile.change.replace("\u00a0", " "), tile.tone) == ("37.5 % worse", "bad")
    assert tile.interval.startswith("[+33.1")


def test_what_the_policy_does_not_check_comes_from_the_tables() -> None:
    found = tiles(world("NO_GO", requests=4000, without=["checks"]))

    assert found["latency p99"].interval == ""
    assert found["latency p99"].change.endswith("worse")
    assert found["on-chip reuse ratio"].change.replace("\u00a0", " ") == "−9.38 points"
    assert found["launch overhead reduction"].tone == "good"


def test_numbers_that_are_not_there_are_missing() -> None:
    found = tiles(world("NO_GO", requests=400, without=["checks", "requests", "metrics"]))

    assert {tile.change for tile in found.values()} == {"missing"}
    assert {tile.candidate for tile in found.values()} == {"missing"}


def test_a_queue_that_grows_is_the_headline_and_no_percentile_is_made_up() -> None:
    evidence = growing(world("NO_GO", requests=400))
    cause, tile = first_screen(evidence, ()).cause, tiles(evidence)["latency p99"]
    assert cause is not None

    assert cause.headline == "latency p99: the candidate's queue grows without end at this rate"
    assert (tile.comparator, tile.candidate) == ("1,012\u00a0µs", "no limit: the queue grows")
    assert (tile.change, tile.tone) == ("no percentile", "bad")


def test_a_go_counts_the_findings_that_do_not_block_and_leads_to_them() -> None:
    mild = finding().model_copy(update={"severity": "warning"})
    found = screen("GO", findings=(mild,), first_finding=None)

    assert (found.no_cause, found.no_cause_href) == (
        "No blocking check failed; 1 non-blocking finding.", "#ownership",
    )  # fmt: skip
    assert (screen("GO").no_cause, screen("GO").no_cause_href) == ("No check failed: no finding is due.", "")


def test_sides_that_must_not_be_compared_have_tiles_without_a_change() -> None:
    found = tiles(unlike(world("GO", requests=400)))

    assert {(tile.change, tile.tone) for tile in found.values()} == {("not compared", "muted")}
    assert {tile.interval for tile in found.values()} == {"the sides rest on different tags or conditions"}


def test_a_hold_for_a_missing_profile_says_what_to_do_and_who() -> None:
    evidence = world("HOLD", requests=400)
    measured = evidence.candidate.model_copy(update={"model_only": False})
    cause = first_screen(replace(evidence, candidate=measured), ()).cause
    assert cause is not None

    assert (cause.title, cause.mechanism) == ("First thing missing", "a measured profile")
    assert cause.owner.text == "candidate owner" and "release manager" in cause.owner.sub
    assert "record a profile" in cause.action and "model_only: true" in cause.action

"""First screen: what a tired release manager needs at night, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from reports import words
from reports.anchors import proof_cell
from reports.blocks import Cell, Tone
from reports.evidence import Evidence
from reports.history import VERDICT_TONES
from reports.matrix import grows, limit_text, owner_cell
from reports.ownership import finding_id
from reports.tiles import Tile, tiles
from schemas.decision import Finding
from schemas.metric_words import QUEUE_GROWS, metric_texts, metric_words

REASONS_SHOWN: Final = 4
_ORDERS: Final[dict[str, str]] = {
    "GO": "The candidate may be released.",
    "HOLD": "Do not release yet: the evidence cannot decide.",
    "NO_GO": "Do not release this candidate.",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the stage strip. state: `failed`, `changed` or `same`."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class Cause:
    """The first finding, or what is missing: what failed, what proves it, who acts and how."""

    title: str
    mechanism: str
    isolation: str
    bottleneck: str
    headline: str
    summary: str
    proof: Cell
    owner: Cell
    action: str
    finding_href: str


@dataclass(frozen=True, slots=True)
class FirstScreen:
    verdict: str
    word: str
    tone: Tone
    order: str
    candidate: str
    comparator: str
    target: str
    run_id: str
    made: str
    model_only: bool
    evidence: tuple[str, ...]
    changed: str
    stages: tuple[Stage, ...]
    cause: Cause | None
    no_cause: str
    no_cause_href: str
    next_action: str
    tiles: tuple[Tile, ...]
    reasons: tuple[str, ...]
    more_reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    waivers: tuple[str, ...]


def first_screen(evidence: Evidence, ids: Collection[str]) -> FirstScreen:
    """ids: anchors that the page has, so that the proof links only to what is there."""
    run, decision = evidence.run, evidence.decision
    reasons = decision.reasons or ("missing: the decision gives no reason",)
    first = first_finding(evidence)
    return FirstScreen(
        verdict=decision.verdict,
        word=words.verdict_word(decision.verdict),
        tone=VERDICT_TONES[decision.verdict],
        order=_ORDERS[decision.verdict],
        candidate=run.candidate.name,
        comparator=run.comparator.name,
        target=run.target,
        run_id=run.run_id,
        made=run.created.strftime("%Y-%m-%d %H:%M %Z").strip(),
        model_only=decision.model_only,
        evidence=decision.evidence or (words.MISSING,),
        changed=_changed(evidence),
        stages=_stages(evidence),
        cause=_unmeasured(evidence, ids) if first is None else _cause(evidence, first, ids),
        no_cause=_no_cause(evidence),
        no_cause_href="#ownership" if decision.verdict == "GO" and decision.findings else "",
        next_action=decision.next_action,
        tiles=tiles(evidence),
        reasons=reasons[:REASONS_SHOWN],
        more_reasons=reasons[REASONS_SHOWN:],
        warnings=decision.warnings,
        waivers=decision.waivers_applied,
    )  # fmt: skip


def first_finding(evidence: Evidence) -> Finding | None:
    """The finding that the decision names first."""
    named = evidence.decision.first_finding
    return next((item for item in evidence.decision.findings if item.id == named), None)


def _changed(evidence: Evidence) -> str:
    changed = evidence.decision.changed_stages
    return f"Settings differ in {words.listed(changed)}." if changed else "Both sides have the same settings."


def _stages(evidence: Evidence) -> tuple[Stage, ...]:
    decision = evidence.decision
    failed = decision.first_failing_mechanism
    return tuple(
        Stage(name, "failed" if name == failed else "changed" if name in decision.changed_stages else "same")
        for name in words.STAGES
    )


def _cause(evidence: Evidence, item: Finding, ids: Collection[str]) -> Cause:
    place = f"stage {words.STAGES.index(item.mechanism) + 1} of {len(words.STAGES)}, " if item.mechanism else ""
    title = {"fail": "First failing mechanism", "missing": "First thing missing", "undecided": "First thing undecided"}
    return Cause(
        title=title.get(item.status, "First finding"),
        mechanism=item.mechanism or "no mechanism isolated",
        isolation=f"{place}{item.isolation}",
        bottleneck=f"bottleneck: {item.bottleneck}" if item.bottleneck else "",
        headline=_headline(evidence, item),
        summary=item.summary,
        proof=proof_cell(item.proof, ids),
        owner=owner_cell(item.owner, item.owner_role),
        action=item.action or "missing: no action given",
        finding_href=f"#{finding_id(item.id)}",
    )


def _unmeasured(evidence: Evidence, ids: Collection[str]) -> Cause | None:
    """The missing profile as the cause, where the run holds for it alone; it has no finding of its own."""
    decision = evidence.decision
    if decision.verdict != "HOLD" or not decision.model_only or evidence.candidate.model_only:
        return None
    return Cause(
        title="First thing missing",
        mechanism="a measured profile",
        isolation="",
        bottleneck="",
        headline="The candidate's plan is the planner's own, and nothing was measured on the target.",
        summary="Without a profile every number here is modelled or replayed. The candidate file does not accept that.",
        proof=proof_cell("lock#evidence", ids),
        owner=Cell("candidate owner", sub="measures; or the release manager, who may accept MODEL-ONLY"),
        action="Candidate owner: record a profile on the target and name it under candidate.profiles. Or release "
        "manager: accept the model alone with model_only: true. Then run again.",
        finding_href="#measured",
    )


def _no_cause(evidence: Evidence) -> str:
    decision = evidence.decision
    if decision.verdict != "GO":
        return "No single finding stands first. The reasons say what is lacking."
    if not decision.findings:
        return "No check failed: no finding is due."
    mild = sum(item.severity != "blocking" for item in decision.findings)
    return f"No blocking check failed; {words.count(mild, 'non-blocking finding')}."


def _headline(evidence: Evidence, item: Finding) -> str:
    """The finding's check in one line, from its row of the matrix; empty where it has none (a mismatch of the lock)."""
    rows = [row for row in _checks(evidence) if (row["check"], row["scope"]) == (item.check, item.scope)]
    if not rows:
        return ""
    row = rows[0]
    if grows(row):
        return _growing(row)
    comparator, candidate = metric_texts(row["metric"], row["comparator_value"], row["candidate_value"])
    change = "" if row["change"] is None else f", {words.worsening(row['change'])}"
    values = f"{comparator} → {candidate}" if row["margin"] is not None else candidate
    return f"{metric_words(row['metric']).label}, {item.scope}: {values}{change} ({limit_text(row)})"


def _growing(row: dict[str, Any]) -> str:
    """The headline where there is no percentile to state."""
    about = metric_words(row["metric"]).label + ("" if row["scope"] == "overall" else f", {row['scope']}")
    if row["status"] != "fail":
        return f"{about}: {row['message']}"
    return f"{about}: the candidate's {QUEUE_GROWS} at this rate"


def _checks(evidence: Evidence) -> list[dict[str, Any]]:
    checks = evidence.table("checks")
    return [] if checks is None else checks.to_dicts()

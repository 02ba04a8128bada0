"""First screen: what a tired release manager needs at night, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from reports import words
from reports.anchors import proof_cell
from reports.blocks import Cell, Tone
from reports.evidence import SIDES, Evidence
from reports.history import VERDICT_TONES
from reports.matrix import interval_text, limit_text, owner_cell
from reports.ownership import finding_id
from reports.primary import Primary, primaries
from reports.tails import settled, tails
from schemas.decision import Finding
from schemas.metric_words import metric_texts, metric_words

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
class Tile:
    """One number of both sides and what became of it."""

    label: str
    comparator: str
    candidate: str
    change: str
    interval: str
    tone: Tone
    href: str


@dataclass(frozen=True, slots=True)
class Cause:
    """The first finding: what failed, what proves it, who acts and how."""

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
        cause=None if first is None else _cause(evidence, first, ids),
        no_cause="Nothing failed: no finding is due." if decision.verdict == "GO" else
        "No single finding stands first. The reasons say what is lacking.",
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


def _headline(evidence: Evidence, item: Finding) -> str:
    """The finding's check in one line, from its row of the matrix; empty where it has none (a mismatch of the lock)."""
    rows = [row for row in _checks(evidence) if (row["check"], row["scope"]) == (item.check, item.scope)]
    if not rows:
        return ""
    row = rows[0]
    comparator, candidate = metric_texts(row["metric"], row["comparator_value"], row["candidate_value"])
    change = "" if row["change"] is None else f", {words.worsening(row['change'])}"
    values = f"{comparator} → {candidate}" if row["margin"] is not None else candidate
    return f"{metric_words(row['metric']).label}, {item.scope}: {values}{change} ({limit_text(row)})"


def tiles(evidence: Evidence) -> tuple[Tile, ...]:
    """Both tail percentiles and both primary metrics, overall.

    The validation matrix is asked first, so that this screen and the matrix never say two things; what the policy does
    not check comes from the tables."""
    checked = {row["metric"]: row for row in _overall_checks(evidence)}
    own = {**_tail_values(evidence), **_primary_values(evidence)}
    anchors = {"latency_p99_us": "#tails", "latency_p95_us": "#tails"}
    return tuple(
        _tile(metric, values, checked.get(metric), anchors.get(metric, "#primary")) for metric, values in own.items()
    )


def _checks(evidence: Evidence) -> list[dict[str, Any]]:
    checks = evidence.table("checks")
    return [] if checks is None else checks.to_dicts()


def _overall_checks(evidence: Evidence) -> list[dict[str, Any]]:
    """Rows of the matrix that hold both sides' values overall."""
    return [
        row
        for row in _checks(evidence)
        if row["scope"] == "overall" and row["comparator_value"] is not None and row["candidate_value"] is not None
    ]


def _tail_values(evidence: Evidence) -> dict[str, list[float | None]]:
    requests = evidence.table("requests")
    found = {} if requests is None else tails(settled(requests, evidence.candidate.traffic.warmup_share))
    both = [found.get((side, "overall")) for side in SIDES]
    in_ns = {level: [getattr(tail, f"{level}_ns", None) for tail in both] for level in ("p99", "p95")}
    return {
        f"latency_{level}_us": [None if value is None else value / 1e3 for value in values]
        for level, values in in_ns.items()
    }


def _primary_values(evidence: Evidence) -> dict[str, list[float | None]]:
    metrics = evidence.table("metrics")
    found = {} if metrics is None else primaries(metrics)
    both = [_best_evidence(found, side) for side in SIDES]
    names = ("launch_overhead_reduction", "on_chip_reuse_ratio")
    return {name: [getattr(item, name, None) for item in both] for name in names}


def _best_evidence(found: dict[tuple[str, str, str], Primary], side: str) -> Primary | None:
    """Measured where there is any, else replayed, else modelled."""
    kinds = ("measured", "replayed", "modelled")
    return next((found[side, "overall", kind] for kind in kinds if (side, "overall", kind) in found), None)


def _tile(metric: str, values: list[float | None], check: dict[str, Any] | None, href: str) -> Tile:
    if check is not None:
        values = [check["comparator_value"], check["candidate_value"]]
    label = metric_words(metric).label
    comparator, candidate = metric_texts(metric, *values)
    before, after = values
    if before is None or after is None:
        return Tile(label, comparator, candidate, words.MISSING, "", "warn", href)
    if metric_words(metric).kind == "share":
        return Tile(label, comparator, candidate, words.points(after - before), "", _tone(before - after, before), href)
    change = check["change"] if check is not None else after / before - 1 if before else None
    interval = "" if check is None else interval_text(check)
    return Tile(label, comparator, candidate, words.worsening(change), interval, _tone(after - before, before), href)


def _tone(worse: float, before: float) -> Tone:
    """Half a percent of the comparator's value either way is no news."""
    if abs(worse) <= 0.005 * abs(before):
        return ""
    return "bad" if worse > 0 else "good"

"""Tiles of the first screen: both tail percentiles and both primary metrics, overall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from reports import words
from reports.blocks import Tone
from reports.evidence import Evidence
from reports.matrix import NO_LIMIT, NOT_COMPARED, grows, interval_text, is_comparable
from reports.primary import Primary, primaries
from reports.tails import settled, tails
from schemas.candidate import SIDES
from schemas.metric_words import metric_texts, metric_words

_ANCHORS: Final = {"latency_p99_us": "#tails", "latency_p95_us": "#tails"}


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


def tiles(evidence: Evidence) -> tuple[Tile, ...]:
    """The validation matrix is asked first, so that this screen and the matrix never say two things; what the policy
    does not check comes from the tables. Sides that must not be compared are shown without a change."""
    checked = {row["metric"]: row for row in _overall_checks(evidence)}
    own = {**_tail_values(evidence), **_primary_values(evidence)}
    comparable = is_comparable(evidence)
    return tuple(_tile(metric, values, checked.get(metric), comparable=comparable) for metric, values in own.items())


def _overall_checks(evidence: Evidence) -> list[dict[str, Any]]:
    """Rows of the matrix that hold both sides' values overall, or say that there can be none."""
    checks = evidence.table("checks")
    return [
        row
        for row in ([] if checks is None else checks.to_dicts())
        if row["scope"] == "overall"
        and (grows(row) or (row["comparator_value"] is not None and row["candidate_value"] is not None))
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


def _tile(metric: str, values: list[float | None], check: dict[str, Any] | None, *, comparable: bool) -> Tile:
    if check is not None:
        values = [check["comparator_value"], check["candidate_value"]]
    label, href = metric_words(metric).label, _ANCHORS.get(metric, "#primary")
    comparator, candidate = metric_texts(metric, *values)
    if check is not None and grows(check):
        return _growing(label, comparator, check, href)
    if not comparable:
        return Tile(label, comparator, candidate, "not compared", NOT_COMPARED, "muted", href)
    before, after = values
    if before is None or after is None:
        return Tile(label, comparator, candidate, words.MISSING, "", "warn", href)
    if metric_words(metric).kind == "share":
        return Tile(label, comparator, candidate, words.points(after - before), "", _tone(before - after, before), href)
    change = check["change"] if check is not None else after / before - 1 if before else None
    interval = "" if check is None else interval_text(check)
    return Tile(label, comparator, candidate, words.worsening(change), interval, _tone(after - before, before), href)


def _growing(label: str, comparator: str, check: dict[str, Any], href: str) -> Tile:
    """A latency without a percentile. Where the comparator's own queue grows, nothing is said of the candidate's."""
    own = check["comparator_value"] is None
    tone: Tone = "bad" if check["status"] == "fail" else "warn"
    sides = (NO_LIMIT, "not compared") if own else (comparator, NO_LIMIT)
    return Tile(label, *sides, "no percentile", "", tone, href)


def _tone(worse: float, before: float) -> Tone:
    """Half a percent of the comparator's value either way is no news."""
    if abs(worse) <= 0.005 * abs(before):
        return ""
    return "bad" if worse > 0 else "good"

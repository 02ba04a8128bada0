"""Validation matrix: every check of the policy, what failed first."""

from __future__ import annotations

from typing import Any, Final

from reports import words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Column, Missing, Row, Section, Table, Tone
from reports.evidence import Evidence
from schemas.metric_words import QUEUE_GROWS, absolute_limit_text, metric_texts, metric_words

STATUS_TONES: Final[dict[str, Tone]] = {
    "fail": "bad", "missing": "warn", "undecided": "warn", "waived": "warn", "pass": "good",
}  # fmt: skip
_RANK = {"fail": 0, "missing": 1, "undecided": 2, "waived": 3, "pass": 4}
SATURATING: Final = ("launch_overhead_reduction", "on_chip_reuse_ratio")
"""Ratios that checks compare as 1 - ratio (see the design of the metrics)."""
NOT_COMPARED: Final = "the sides rest on different tags or conditions"
NO_LIMIT: Final = "no limit: the queue grows"
"""Instead of a percentile of a side whose queue grows without end."""


def is_comparable(evidence: Evidence) -> bool:
    """Whether the lock lets the two sides be compared at all."""
    return not any(item.isolation == "lock" and item.severity == "blocking" for item in evidence.decision.findings)


def grows(row: dict[str, Any]) -> bool:
    """Whether a check has no percentile to state because a queue grows without end."""
    return row["candidate_value"] is None and QUEUE_GROWS in row["message"]


def growing(evidence: Evidence) -> dict[str, Any] | None:
    """The first check whose queue grows without end, if any: then no latency of the run is a percentile."""
    checks = evidence.table("checks")
    return None if checks is None else next((row for row in checks.iter_rows(named=True) if grows(row)), None)


def section(evidence: Evidence) -> Section:
    """Checks with what needs attention on top; inside a status, in the policy's order."""
    checks = evidence.table("checks")
    blocks: tuple[Block, ...]
    if checks is None:
        lead, blocks = "No check was evaluated, so nothing here speaks for the candidate.", (
            Missing(evidence.missing("checks")),
        )  # fmt: skip
    else:
        rows = sorted(checks.to_dicts(), key=lambda row: (_RANK[row["status"]], row["severity"] != "blocking"))
        comparable = is_comparable(evidence)
        lead = summary(rows) if comparable else f"Not compared: {NOT_COMPARED}. No result below counts. {summary(rows)}"
        blocks = (_table(rows, evidence.candidate.policy.confidence, comparable=comparable),)
    return Section("matrix", "Validation matrix", lead, blocks)


def summary(rows: list[dict[str, Any]]) -> str:
    """How many checks came out how, worst first."""
    statuses = [row["status"] for row in rows]
    parts = [f"{statuses.count(status)} {status}" for status in _RANK if status in statuses]
    blocking = sum(row["status"] == "fail" and row["severity"] == "blocking" for row in rows)
    tail = f" Of the failures, {words.number(blocking)} {'blocks' if blocking == 1 else 'block'} the release."
    return f"{words.count(len(rows), 'check')}: {', '.join(parts)}.{tail if 'fail' in statuses else ''}"


def _table(rows: list[dict[str, Any]], confidence: float, *, comparable: bool) -> Table:
    columns = (
        Column("Check"),
        Column("Status"),
        Column("Comparator", numeric=True),
        Column("Candidate", numeric=True),
        Column(
            "Worsening",
            numeric=True,
            hint=f"Relative to the comparator; + is worse. In brackets: {words.stated_percent(confidence)} interval.",
        ),
        Column("Limit", numeric=True, hint="Largest worsening, or the absolute limit of the candidate's own value."),
        Column("Owner"),
        Column("Result in words", wide=True),
    )
    return Table("Checks, failures first", columns, tuple(_row(row, comparable=comparable) for row in rows))


def _row(row: dict[str, Any], *, comparable: bool) -> Row:
    comparator, candidate = metric_texts(row["metric"], row["comparator_value"], row["candidate_value"])
    failed = row["status"] == "fail" and comparable
    tone = STATUS_TONES[row["status"]] if comparable else "muted"
    status = words.severity_words(row["severity"]) if comparable else "not compared"
    cells = (
        Cell(row["check"], sub=f"{metric_words(row['metric']).label}, {row['scope']}"),
        Cell(row["status"], sub=status, tone=tone, badge=True),
        _value(comparator),
        Cell(NO_LIMIT, sub=row["evidence"], tone="bad") if grows(row) else _value(candidate, sub=row["evidence"]),
        _change(row) if comparable else Cell("not compared", tone="muted"),
        Cell(limit_text(row)),
        owner_cell(row["owner"], row["owner_role"]),
        Cell(row["message"]),
    )
    return Row(
        row_id("checks", row["check"], row["scope"]),
        cells,
        mark="bad" if failed and row["severity"] == "blocking" else "",
    )


def owner_cell(owner: str, role: str) -> Cell:
    """The holder with the role below; the role alone where the policy names nobody."""
    return Cell(words.spaced(role)) if owner == role else Cell(owner, sub=words.spaced(role))


def limit_text(row: dict[str, Any]) -> str:
    """The rule of a check: `at most +5 % worse`, or the absolute limit with its direction."""
    if row["margin"] is not None:
        return f"at most +{words.stated_percent(row['margin'])}" if row["margin"] else "no worsening"
    side = "at most" if row["direction"] == "lower_is_better" else "at least"
    return f"{side} {absolute_limit_text(row['metric'], row['limit'])}"


def interval_text(row: dict[str, Any]) -> str:
    """`[+1.2 %, +3.4 %]`; empty where the row has no interval."""
    if row["interval_low"] is None or row["interval_high"] is None:
        return ""
    low, high = words.signed_percent(row["interval_low"]), words.signed_percent(row["interval_high"])
    return f"[{low}, {high}]" if low != high else "exact"


def change_cell(metric: str, comparator: float | None, candidate: float | None, row: dict[str, Any]) -> Cell:
    """The relative worsening of a row with its interval; why there is none where there is none."""
    if row["change"] is None and comparator == 0 and candidate:
        return Cell("from none", sub="no ratio to 0", tone="bad")
    if row["change"] is None:
        return Cell(words.MISSING, tone="warn")
    of_rest = "of 1 − ratio" if metric in SATURATING else ""
    parts = [part for part in (of_rest, interval_text(row)) if part]
    return Cell(words.signed_percent(row["change"]), sub=", ".join(parts))


def _change(row: dict[str, Any]) -> Cell:
    if grows(row):
        return Cell("no percentile", tone="bad" if row["status"] == "fail" else "warn")
    if row["change"] is None and row["limit"] is not None:
        return Cell("not compared", tone="muted")
    return change_cell(row["metric"], row["comparator_value"], row["candidate_value"], row)


def _value(shown: str, sub: str = "") -> Cell:
    return Cell(shown, sub=sub, tone="warn" if shown == words.MISSING else "")

"""Rollback: the measurable conditions, and whether the drill showed that they work."""

from __future__ import annotations

from reports import words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Column, Facts, Missing, Row, Section, Table
from reports.evidence import Evidence
from schemas.decision import Drill, RollbackCriterion
from schemas.metric_words import METRICS, metric_texts, metric_words

_TITLE = "Rollback criteria and drill"
_LEAD = "When to return to the comparator once the candidate is live. Any one of the conditions is enough."


def section(evidence: Evidence) -> Section:
    criteria = evidence.decision.rollback
    table: Block = Missing("rollback criteria: the decision holds none")
    if criteria:
        table = Table("Roll back when", _COLUMNS, tuple(_row(item) for item in criteria))
    return Section("rollback", _TITLE, _LEAD, (table, _drill(evidence.decision.drill)))


_COLUMNS = (
    Column("Criterion"),
    Column("Metric"),
    Column("Beyond", numeric=True),
    Column("Window", numeric=True),
    Column("Least samples", numeric=True),
    Column("In words", wide=True),
)


def _row(item: RollbackCriterion) -> Row:
    known = item.metric in METRICS
    threshold = metric_texts(item.metric, item.threshold)[0] if known else f"{words.number(item.threshold)} {item.unit}"
    cells = (
        Cell(item.id),
        Cell(metric_words(item.metric).label),
        Cell(threshold.strip()),
        Cell(words.time_text(item.window_s * 1e9)),
        Cell(words.number(item.min_samples)),
        Cell(item.text),
    )
    return Row(row_id("rollback", item.id), cells)


def _drill(drill: Drill | None) -> Block:
    if drill is None:
        return Missing("rollback drill: none was run, so nothing shows that the criteria would fire")
    outcome = Cell("passed", tone="good", badge=True) if drill.passed else Cell("failed", tone="bad", badge=True)
    detected = Cell("not detected", tone="bad")
    if drill.detection_s is not None:
        detected = Cell(words.time_text(drill.detection_s * 1e9))
    return Facts(
        (
            ("Rollback drill", outcome),
            ("Criterion under test", Cell(drill.criterion)),
            ("Detected after", detected),
            ("Comparator recovered", Cell("yes", tone="good") if drill.recovered else Cell("no", tone="bad")),
            ("In words", Cell(drill.text)),
        )
    )

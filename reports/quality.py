"""Numeric quality: each output beside an independent reference."""

from __future__ import annotations

from typing import Any

from reports import words
from reports.anchors import row_id
from reports.blocks import Cell, Column, Missing, Row, Section, Table
from reports.evidence import Evidence, side_order

_TITLE = "Quality"
_LEAD = (
    "Each plan is executed tile by tile with its own precisions and compared with an independent reference. The bound "
    "of an output follows from its precision and reduction length."
)
_COLUMNS = (
    Column("Output"),
    Column("Side"),
    Column("Result"),
    Column("Max relative error", numeric=True),
    Column("Bound", numeric=True),
    Column("L2 error", numeric=True),
    Column("Max absolute error", numeric=True),
    Column("Cosine", numeric=True),
    Column("Top-1 agreement", numeric=True),
    Column("Not finite", numeric=True),
    Column("First bad group"),
    Column("Compared with", wide=True),
)


def section(evidence: Evidence) -> Section:
    quality = evidence.table("quality")
    if quality is None:
        return Section("quality", _TITLE, _LEAD, (Missing(evidence.missing("quality")),))
    rows = quality.sort("workload", "output", side_order(), maintain_order=True).to_dicts()
    lead = f"{_LEAD} {summary(rows)}"
    return Section("quality", _TITLE, lead, (Table("Outputs", _COLUMNS, tuple(map(_row, rows)), fold_after=30),))


def summary(rows: list[dict[str, Any]]) -> str:
    """How many outputs kept their bound, did not, or were not run."""
    executed = [row for row in rows if row["executed"]]
    failed = sum(not row["passed"] for row in executed)
    text = f"Of {words.count(len(rows), 'output')}, {words.number(len(executed) - failed)} within the bound"
    text += f", {words.number(failed)} beyond it" if failed else ""
    left = len(rows) - len(executed)
    return f"{text}{f', {words.number(left)} not run' if left else ''}."


def _row(row: dict[str, Any]) -> Row:
    production = ", smaller than production" if row["reduced"] else ""
    cells = (
        Cell(row["output"], sub=f"{row['workload']}, {row['shapes']}{production}"),
        Cell(row["side"]),
        _result(row),
        *(_number(row, field) for field in ("max_relative_error", "bound", "relative_l2_error", "max_abs_error")),
        _number(row, "cosine", digits=6),
        _top1(row),
        Cell(words.number(row["nonfinite"]), tone="bad" if row["nonfinite"] else "") if row["executed"] else _NOT_RUN,
        _bad_group(row),
        Cell(row["reference"] or "nothing", sub=_limits(row)),
    )
    return Row(
        row_id("quality", row["side"], row["workload"], row["output"]),
        cells,
        mark="bad" if row["passed"] is False else "",
    )


_NOT_RUN = Cell("not run", tone="muted")


def _number(row: dict[str, Any], field: str, digits: int = 3) -> Cell:
    if not row["executed"]:
        return _NOT_RUN
    value = row[field]
    return Cell("does not apply", tone="muted") if value is None else Cell(words.number(value, digits))


def _top1(row: dict[str, Any]) -> Cell:
    if not row["executed"]:
        return _NOT_RUN
    agreement = row["top1_agreement"]
    return Cell("no classifier", tone="muted") if agreement is None else Cell(words.percent(agreement))


def _bad_group(row: dict[str, Any]) -> Cell:
    if not row["executed"]:
        return _NOT_RUN
    return Cell(row["first_bad_group"], tone="bad") if row["first_bad_group"] else Cell("none", tone="muted")


def _limits(row: dict[str, Any]) -> str:
    """Samples and what limits the result; where it was not run, its result says why."""
    parts = [words.count(row["samples"], "sample"), row["reason"]] if row["executed"] else []
    return "; ".join(part for part in parts if part)


def _result(row: dict[str, Any]) -> Cell:
    if not row["executed"]:
        return Cell("not run", sub=row["reason"], tone="warn", badge=True)
    if row["passed"]:
        return Cell("within bound", tone="good", badge=True)
    return Cell("beyond bound", tone="bad", badge=True)

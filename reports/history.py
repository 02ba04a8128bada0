"""History: how the tail and the primary metrics moved over the last runs."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from reports import words
from reports.anchors import row_id
from reports.blocks import Cell, Column, Missing, Row, Section, Table, Tone
from reports.evidence import Evidence
from schemas.metric_words import metric_texts, metric_words

SHOWN: Final = ("latency_p99_us", "latency_p95_us", "launch_overhead_reduction", "on_chip_reuse_ratio")
MOST_RUNS: Final = 15
VERDICT_TONES: Final[dict[str, Tone]] = {"GO": "good", "HOLD": "warn", "NO_GO": "bad"}
_TITLE = "History"
_LEAD = "The candidate's side of the last runs, overall, newest first. For trends, not for the verdict."


def section(evidence: Evidence) -> Section:
    history = evidence.table("history")
    if history is None:
        return Section("history", _TITLE, _LEAD, (Missing(evidence.missing("history")),))
    runs = history.sort("created", descending=True, maintain_order=True)["run_id"].unique(maintain_order=True)
    rows = tuple(_row(history.filter(pl.col("run_id") == run)) for run in runs.head(MOST_RUNS))
    columns = (Column("Run"), Column("Made"), Column("Verdict"), Column("First failing mechanism"),
               *(Column(metric_words(metric).label, numeric=True) for metric in SHOWN))  # fmt: skip
    return Section("history", _TITLE, _LEAD, (Table("Last runs", columns, rows),))


def _row(run: pl.DataFrame) -> Row:
    first = run.row(0, named=True)
    own = run.filter((pl.col("side") == "candidate") & (pl.col("scope") == "overall"))
    values: dict[str, Any] = dict(zip(own["metric"], own["value"], strict=True))
    cells = (
        Cell(first["run_id"], sub=first["candidate_name"]),
        Cell(first["created"].strftime("%Y-%m-%d %H:%M")),
        Cell(words.verdict_word(first["verdict"]), tone=VERDICT_TONES[first["verdict"]], badge=True),
        Cell(first["first_failing_mechanism"] or "none"),
        *(Cell(metric_texts(metric, values.get(metric))[0]) for metric in SHOWN),
    )
    return Row(row_id("history", first["run_id"]), cells)

"""Trials: the same requests at other rates, batches and fusion policies: capacity, and what a setting is worth."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from reports import charts, words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Chart, Charts, Column, Fold, Missing, Note, Row, Section, Table
from reports.evidence import Evidence, side_order
from schemas.candidate import SIDES

_TITLE = "Capacity, batches and fusion under this traffic"
_LEAD = (
    "Each trial replays the same requests with the same seeds, on a part of the replications, and changes one thing. "
    "Where a queue grows without end there is no percentile, only the utilisation."
)
_CAPACITIES: Final = (
    ("sla", "highest rate at which 99 % of requests meet the SLA"),
    ("stable", "highest rate that does not let a queue grow without end"),
    ("knee", "the knee: most rate per p99"),
)
_EXPERIMENTS: Final = (("rate", "Rates"), ("batching", "Batches: size and wait"), ("fusion", "Fusion policies"))
_NS_PER_US: Final = 1e3


def section(evidence: Evidence) -> Section:
    trials = evidence.table("trials")
    if trials is None:
        return Section("trials", _TITLE, _LEAD, (Missing(evidence.missing("trials")),))
    kept = {name: trials.filter(pl.col("experiment") == name) for name, _ in _EXPERIMENTS}
    blocks: tuple[Block, ...] = (
        _capacity(kept["rate"]),
        Charts(tuple(_drawn(kept))),
        Note("The charts leave out unstable trials; the tables have them all.", tone="muted"),
        *(Fold(title, (_table(name, title, kept[name]),)) for name, title in _EXPERIMENTS if kept[name].height),
    )
    return Section("trials", _TITLE, _LEAD, blocks)


def capacity_of(rates: pl.DataFrame, side: str, mark: str) -> float | None:
    """Rate that carries the mark on that side, requests a second."""
    own = rates.filter((pl.col("side") == side) & pl.col("mark").str.split(" ").list.contains(mark))
    return float(own["rate_per_s"][0]) if own.height else None


def _capacity(rates: pl.DataFrame) -> Table:
    columns = (
        Column("Capacity", wide=True),
        *(Column(f"{side}, requests/s", numeric=True) for side in SIDES),
        Column("Change", numeric=True),
    )
    rows = []
    for mark, meaning in _CAPACITIES:
        found = [capacity_of(rates, side, mark) for side in SIDES]
        shown = tuple(Cell("none found" if rate is None else words.number(rate)) for rate in found)
        before, after = found
        change = after / before - 1 if before and after else None
        changed = Cell("none" if change is None else words.signed_percent(change))
        rows.append(Row(row_id("trials", "capacity", mark), (Cell(meaning), *shown, changed)))
    return Table("Highest rates found by bisection", columns, tuple(rows))


def _drawn(kept: dict[str, pl.DataFrame]) -> list[Chart]:
    said = {
        "rate": ("p99 against rate", ("rate_per_s", "rate, requests/s")),
        "batching": ("p99 by batch size and wait", ("label", "batching")),
        "fusion": ("Operator fusion effect: p99 by policy", ("label", "fusion policy")),
    }
    drawn = []
    for name, (title, x) in said.items():
        stable = kept[name].filter(pl.col("p99_us").is_not_null())
        if stable.is_empty():
            continue
        scale = words.time_scale(value * _NS_PER_US for value in stable["p99_us"])
        points = stable.select(
            "side", "label", "rate_per_s", p99=(pl.col("p99_us") * _NS_PER_US / scale.per_unit).round(4)
        ).to_dicts()
        description = f"{title}, both sides; the same requests in every trial."
        drawn.append(charts.lines(f"chart-trials-{name}", title, description, points, x=x,
                                  y=("p99", f"p99, {scale.unit}"), ordered=name != "rate"))  # fmt: skip
    return drawn


def _table(name: str, title: str, rows: pl.DataFrame) -> Table:
    ordered = rows.sort(side_order(), maintain_order=True).to_dicts()
    scale = words.time_scale(row["p99_us"] * _NS_PER_US for row in ordered if row["p99_us"] is not None)
    columns = (
        Column("Trial", wide=True),
        Column("Side"),
        *(Column(f"{level}, {scale.unit}", numeric=True) for level in ("p99", "p95", "p50")),
        Column("Miss the SLA", numeric=True),
        Column("Utilisation", numeric=True),
    )
    return Table(f"{title}; this side runs the marked rows", columns, tuple(_row(name, row, scale) for row in ordered))


def _row(name: str, row: dict[str, Any], scale: words.Scale) -> Row:
    own = row["mark"] == "own"
    marks = [meaning for mark, meaning in _CAPACITIES if mark in row["mark"].split()]
    cells = (
        Cell(row["label"], sub="this side runs it" if own else words.listed(marks, nothing="")),
        Cell(row["side"]),
        *(_time(row, level, scale) for level in ("p99_us", "p95_us", "p50_us")),
        Cell("no SLA" if row["missed_share"] is None else words.percent(row["missed_share"])),
        Cell(words.percent(row["utilisation"]), tone="bad" if row["unstable"] else ""),
    )
    return Row(row_id("trials", row["side"], name, row["label"]), cells, mark="note" if row["mark"] else "")


def _time(row: dict[str, Any], level: str, scale: words.Scale) -> Cell:
    if row["unstable"]:
        return Cell("unstable", tone="bad")
    value = row[level]
    return Cell("too few completed" if value is None else scale.text(value * _NS_PER_US))

"""One plan in time and in memory: the plan that serves most traffic, both sides."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from reports import charts, words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Chart, Charts, Column, Fold, Missing, Note, Row, Section, Table
from reports.evidence import Evidence
from reports.plans import PlanKey, plan_keys
from schemas.candidate import SIDES

MOST_BARS: Final = 600
_TITLE = "One plan in time and in memory"
_LEAD = (
    "The plan that serves most traffic, run once alone on the machine, and the on-chip memory of its tightest kernel."
)


def section(evidence: Evidence) -> Section:
    return Section("timeline", _TITLE, _LEAD, (*_timelines(evidence), *_placements(evidence)))


def _timelines(evidence: Evidence) -> tuple[Block, ...]:
    timeline = evidence.table("timeline")
    if timeline is None:
        return (Missing(evidence.missing("timeline")),)
    key = plan_keys(evidence, timeline)[0]
    rows = key.rows(timeline)
    # Both sides in one unit and from zero, so that lengths can be compared.
    last_ns = float(rows["end_ps"].max() or 1) / 1e3  # type: ignore[arg-type]
    scale = words.time_scale([last_ns])
    drawn: list[Chart] = []
    notes: list[Block] = []
    for side in SIDES:
        own = rows.filter(pl.col("side") == side).sort("start_ps", "lane")
        if own.is_empty():
            notes.append(Missing(f"timeline of the {side} for {key.name}"))
            continue
        shown = own.head(MOST_BARS)
        bars = [_bar(row, scale) for row in shown.to_dicts()]
        title, until = f"{side}: {key.name}", last_ns / scale.per_unit
        drawn.append(charts.timeline(f"chart-timeline-{side}", title, bars, lane_order(bars), scale.unit, until))
        if len(shown) < len(own):
            notes.append(Note(f"{side}: the first {MOST_BARS} of {words.number(len(own))} bars are drawn.", "muted"))
    return (Charts(tuple(drawn)), *notes)


def _bar(row: dict[str, Any], scale: words.Scale) -> dict[str, Any]:
    per_unit = scale.per_unit * 1e3
    return {
        **{name: row[name] for name in ("lane", "name", "kind", "group")},
        "start": row["start_ps"] / per_unit,
        "end": row["end_ps"] / per_unit,
        "dram": words.bytes_text(row["dram_bytes"]),
    }


def lane_order(bars: list[dict[str, Any]]) -> list[str]:
    """Lanes by when their sort first works, then by number: host, core 0, core 1 …, core 10."""
    lanes = list(dict.fromkeys(bar["lane"] for bar in bars))
    sorts = list(dict.fromkeys(lane.rstrip("0123456789") for lane in lanes))

    def place(lane: str) -> tuple[int, int]:
        name = lane.rstrip("0123456789")
        return sorts.index(name), int(lane[len(name) :] or 0)

    return sorted(lanes, key=place)


def _placements(evidence: Evidence) -> tuple[Block, ...]:
    buffers, kernels = evidence.table("buffers"), evidence.table("kernels")
    if buffers is None:
        return (Missing(evidence.missing("buffers")),)
    if kernels is None:
        return (Missing(evidence.missing("kernels")),)
    key = plan_keys(evidence, buffers)[0]
    found = [(side, tightest(key, kernels, side)) for side in SIDES]
    placed = [(side, kernel, _own(buffers, key, side, kernel)) for side, kernel in found if kernel is not None]
    kept = [(side, kernel, rows) for side, kernel, rows in placed if not rows.is_empty()]
    if not kept:
        return (Missing(f"buffers of {key.name}"),)
    drawn = [_map(side, kernel, rows) for side, kernel, rows in kept if rows["offset_bytes"].drop_nulls().len()]
    tables = tuple(_table(key, side, kernel, rows) for side, kernel, rows in kept)
    folded = Fold("Buffers of these kernels", tables)
    return (Charts(tuple(drawn)), folded) if drawn else (folded,)


def tightest(key: PlanKey, kernels: pl.DataFrame, side: str) -> dict[str, Any] | None:
    """The kernel of one side's plan with the most spill, then the largest working set."""
    own = key.rows(kernels).filter(pl.col("side") == side)
    if own.is_empty():
        return None
    return own.sort("spill_bytes", "peak_bytes", descending=True, maintain_order=True).row(0, named=True)


def _own(buffers: pl.DataFrame, key: PlanKey, side: str, kernel: dict[str, Any]) -> pl.DataFrame:
    return key.rows(buffers).filter((pl.col("side") == side) & (pl.col("group") == kernel["group"]))


def _map(side: str, kernel: dict[str, Any], rows: pl.DataFrame) -> Chart:
    scale = words.bytes_scale([kernel["capacity_bytes"]])
    boxes = [
        {
            "buffer": row["buffer"], "tensor": row["tensor"], "role": row["role"],
            "low": row["offset_bytes"] / scale.per_unit,
            "high": (row["offset_bytes"] + row["size_bytes"]) / scale.per_unit,
            "start": row["start_step"], "end": row["end_step"], "size": words.bytes_text(row["size_bytes"]),
        }
        for row in rows.filter(~pl.col("spilled")).head(MOST_BARS).to_dicts()
    ]  # fmt: skip
    capacity = kernel["capacity_bytes"] / scale.per_unit
    title = f"{side}: on-chip memory of {kernel['group']}"
    return charts.placement(f"chart-placement-{side}", title, boxes, capacity, scale.unit)


def _table(key: PlanKey, side: str, kernel: dict[str, Any], rows: pl.DataFrame) -> Table:
    columns = (
        Column("Buffer"), Column("Tensor"), Column("Role"), Column("Size", numeric=True),
        Column("Offset", numeric=True), Column("Live, steps"), Column("Place"),
    )  # fmt: skip
    listed = tuple(
        Row(
            row_id("buffers", side, key.workload, key.bucket, key.batch, row["group"], row["buffer"]),
            (
                Cell(row["buffer"]),
                Cell(row["tensor"]),
                Cell(row["role"]),
                Cell(words.bytes_text(row["size_bytes"])),
                Cell("none" if row["offset_bytes"] is None else words.number(row["offset_bytes"])),
                Cell(f"{row['start_step']} to {row['end_step']}"),
                Cell("spilled to DRAM", tone="bad") if row["spilled"] else Cell("on chip"),
            ),
        )
        for row in rows.to_dicts()
    )
    return Table(f"Buffers of {kernel['group']}, {side}", columns, listed, fold_after=30)

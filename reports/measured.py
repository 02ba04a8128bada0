"""Measured kernels: what the profiles of both sides hold, by kernel name."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from reports import words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Column, Missing, Note, Row, Section, Table
from reports.evidence import Evidence
from schemas.candidate import SIDES

MOST_NAMES: Final = 20
_TITLE = "Measured kernels"
_LEAD = "Kernels of the profiles by total time. What a profile does not hold is missing, never modelled."


def section(evidence: Evidence) -> Section:
    profile = evidence.table("profile_kernels")
    if profile is None:
        promised = evidence.candidate.comparator.profiles + evidence.candidate.candidate.profiles
        absent: Block = Missing(evidence.missing("profile_kernels"))
        if not promised:
            absent = Note("Neither side gives a measured profile: nothing here was measured.")
        return Section("measured", _TITLE, _LEAD, (absent,))
    blocks: list[Block] = []
    for workload in evidence.workloads:
        for side in SIDES:
            own = profile.filter((pl.col("side") == side) & (pl.col("workload") == workload))
            blocks += [Missing(f"profile of {workload}, {side}")] if own.is_empty() else _kernels(own, workload, side)
    return Section("measured", _TITLE, _LEAD, tuple(blocks))


def _kernels(own: pl.DataFrame, workload: str, side: str) -> list[Block]:
    by_name = (
        own.group_by("name")
        .agg(
            runs=pl.len(),
            total_ns=pl.col("duration_ns").sum(),
            mean_ns=pl.col("duration_ns").mean(),
            # A mean over what happens to be there would pass for the whole: one gap makes it missing.
            delay_ns=pl.when(pl.col("launch_delay_ns").is_not_null().all()).then(pl.col("launch_delay_ns").mean()),
            dram_bytes=pl.when(pl.col("dram_bytes").is_not_null().all()).then(pl.col("dram_bytes").mean()),
        )
        .sort("total_ns", "name", descending=[True, False])
    )
    whole = float(by_name["total_ns"].sum())
    shown = by_name.head(MOST_NAMES)
    rows = tuple(_row(row, whole, workload, side) for row in shown.to_dicts())
    blocks: list[Block] = [Table(f"{workload}, {side}: {words.count(len(own), 'kernel')} measured", _COLUMNS, rows)]
    if len(shown) < len(by_name):
        rest = words.percent(1 - float(shown["total_ns"].sum()) / whole) if whole else words.MISSING
        left = words.count(len(by_name) - len(shown), "more kernel name", "more kernel names")
        blocks.append(Note(f"{left}, {rest} of the time, in profile_kernels.parquet.", "muted"))
    return blocks


_COLUMNS = (
    Column("Kernel"),
    Column("Runs", numeric=True),
    Column("Share of time", numeric=True),
    Column("Total", numeric=True),
    Column("Mean", numeric=True),
    Column("Mean launch delay", numeric=True, hint="Start of the kernel − end of its launch; negative ones are real."),
    Column("DRAM of one run", numeric=True),
)


def _row(row: dict[str, Any], whole: float, workload: str, side: str) -> Row:
    delay, dram = words.time_text(row["delay_ns"]), words.bytes_text(row["dram_bytes"])
    cells = (
        Cell(row["name"]),
        Cell(words.number(row["runs"])),
        Cell(words.percent(row["total_ns"] / whole) if whole else words.MISSING),
        Cell(words.time_text(row["total_ns"])),
        Cell(words.time_text(row["mean_ns"])),
        *(Cell(text, tone="warn" if text == words.MISSING else "") for text in (delay, dram)),
    )
    return Row(row_id("profile_kernels", side, workload, row["name"]), cells)

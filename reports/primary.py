"""Primary metrics of both sides: launch overhead reduction and on-chip reuse ratio, per workload and overall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from reports import words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Column, Fold, Missing, Note, Row, Section, Table, Tone
from reports.evidence import Evidence, side_order
from schemas.candidate import SIDES

_SUMMED = (
    "launches", "launch_ns", "exposed_launch_ns", "reference_launch_ns", "dram_bytes", "requested_bytes",
    "spill_bytes", "total_ns",
)  # fmt: skip
_DEFINITIONS = (
    "Launch overhead reduction = 1 − launch time of the plan ÷ launch time of the comparator's unfused plan. "
    "On-chip reuse ratio = 1 − DRAM bytes ÷ requested bytes. Over several plans both are ratios of sums weighted by "
    "traffic. Launch time counts every launch, hidden or not; exposed launch time is what the device waits for."
)


@dataclass(frozen=True, slots=True)
class Primary:
    """Traffic-weighted sums of one side over the plans of one scope, and the two ratios of them.

    Times in ns and sizes in bytes of the mean request. A ratio is None where any plan behind it is missing it."""

    side: str
    scope: str
    evidence: str
    launches: float
    launch_ns: float
    exposed_launch_ns: float
    dram_bytes: float
    spill_bytes: float
    total_ns: float
    launch_overhead_reduction: float | None
    on_chip_reuse_ratio: float | None


def primaries(metrics: pl.DataFrame) -> dict[tuple[str, str, str], Primary]:
    """(side, scope, evidence) -> sums, for every workload and for `overall`.

    Of the mean request: weight is a plan's share of the requests, and one run of a plan serves a whole batch. Plans
    that serve no traffic do not count."""
    served = metrics.filter(pl.col("weight") > 0)
    scoped = pl.concat([served.with_columns(scope=pl.lit("overall")), served.with_columns(scope=pl.col("workload"))])
    weight = pl.col("weight")
    summed = scoped.group_by("side", "scope", "evidence", maintain_order=True).agg(
        *((pl.col(name) * weight / pl.col("batch")).sum() / weight.sum() for name in _SUMMED),
        unreduced=pl.col("launch_overhead_reduction").is_null().any(),
        unreused=pl.col("on_chip_reuse_ratio").is_null().any(),
    )
    return {(row["side"], row["scope"], row["evidence"]): _primary(row) for row in summed.to_dicts()}


def _primary(row: dict[str, Any]) -> Primary:
    reduction = None if row["unreduced"] else _rest(row["launch_ns"], row["reference_launch_ns"])
    reuse = None if row["unreused"] else _rest(row["dram_bytes"], row["requested_bytes"])
    return Primary(
        row["side"], row["scope"], row["evidence"], row["launches"], row["launch_ns"], row["exposed_launch_ns"],
        row["dram_bytes"], row["spill_bytes"], row["total_ns"], reduction, reuse,
    )  # fmt: skip


def _rest(part: float, whole: float) -> float | None:
    return 1 - part / whole if whole > 0 else None


def section(evidence: Evidence) -> Section:
    """Both sides by scope, then every plan behind them."""
    metrics = evidence.table("metrics")
    if metrics is None:
        return Section("primary", "Primary metrics", _DEFINITIONS, (Missing(evidence.missing("metrics")),))
    blocks: tuple[Block, ...] = (
        *_by_evidence(evidence, metrics),
        Fold(f"Every plan behind these numbers ({words.number(len(metrics))} rows)", (_plans(metrics),)),
    )
    return Section("primary", "Primary metrics", _DEFINITIONS, blocks)


def _by_evidence(evidence: Evidence, metrics: pl.DataFrame) -> list[Block]:
    values = primaries(metrics)
    kinds = list(dict.fromkeys(kind for _, _, kind in values))
    blocks: list[Block] = []
    for kind in kinds:
        ratios = _table(f"Primary metrics, {kind}", _RATIOS, kind, evidence.workloads, values)
        parts = _table(f"Of the mean request, {kind}", _PARTS, kind, evidence.workloads, values)
        blocks += [ratios, Fold(f"Launches, launch time and traffic behind them, {kind}", (parts,))]
    if len(kinds) > 1:
        blocks.append(Note(f"Evidence of different kinds is never mixed: {words.listed(kinds)} stand apart."))
    return blocks


_COLUMNS = (
    Column("Scope"),
    Column("Metric"),
    Column("Comparator", numeric=True),
    Column("Candidate", numeric=True),
    Column("Difference", numeric=True),
)


_RATIOS = (
    ("launch_overhead_reduction", "launch overhead reduction", "share"),
    ("on_chip_reuse_ratio", "on-chip reuse ratio", "share"),
)
_PARTS = (
    ("launches", "launches", "count"),
    ("launch_ns", "launch time", "time"),
    ("exposed_launch_ns", "exposed launch time", "time"),
    ("total_ns", "time alone on the machine", "time"),
    ("dram_bytes", "DRAM traffic", "bytes"),
    ("spill_bytes", "spill traffic", "bytes"),
)


def _table(
    caption: str,
    shown: tuple[tuple[str, str, str], ...],
    kind: str,
    workloads: tuple[str, ...],
    values: dict[tuple[str, str, str], Primary],
) -> Table:
    rows = tuple(
        row
        for scope in ("overall", *workloads)
        for row in _scope_rows(shown, scope, kind, *(values.get((side, scope, kind)) for side in SIDES))
    )
    return Table(caption, _COLUMNS, rows)


def _scope_rows(
    shown: tuple[tuple[str, str, str], ...],
    scope: str,
    kind: str,
    comparator: Primary | None,
    candidate: Primary | None,
) -> list[Row]:
    if comparator is None and candidate is None:
        return []
    rows = []
    for field, label, unit in shown:
        pair = (getattr(comparator, field, None), getattr(candidate, field, None))
        head = unit == "share"
        cells = (Cell(scope), Cell(label), *_pair_cells(unit, *pair), _difference(unit, *pair, higher_is_better=head))
        rows.append(Row(row_id("primary", scope, field, kind), cells))
    return rows


def _pair_cells(unit: str, *pair: float | None) -> tuple[Cell, ...]:
    if unit == "share":
        texts = [words.percent(value) for value in pair]
    else:
        scale = {"time": words.time_scale, "bytes": words.bytes_scale}.get(unit, lambda _: words.PLAIN)(pair)
        texts = [scale.with_unit(words.whole(value) if scale is words.PLAIN else value) for value in pair]
    return tuple(Cell(text, tone="warn" if text == words.MISSING else "") for text in texts)


def _difference(unit: str, comparator: float | None, candidate: float | None, *, higher_is_better: bool) -> Cell:
    if comparator is None or candidate is None:
        return Cell(words.MISSING, tone="warn")
    difference = candidate - comparator
    tone: Tone = "" if difference == 0 else "good" if (difference > 0) == higher_is_better else "bad"
    if unit == "share":
        return Cell(words.points(difference) if difference else "same", tone=tone)
    if difference == 0:
        return Cell("same")
    if comparator == 0:
        return Cell("new", tone=tone)
    return Cell(words.signed_percent(difference / comparator), tone=tone)


def _plans(metrics: pl.DataFrame) -> Table:
    ordered = metrics.sort("workload", "bucket", "batch", side_order(), maintain_order=True).to_dicts()
    times = words.time_scale(row["launch_ns"] for row in ordered)
    sizes = words.bytes_scale(row["dram_bytes"] for row in ordered)
    columns = (
        Column("Plan"),
        Column("Evidence"),
        Column("Share of traffic", numeric=True),
        Column("Launches", numeric=True),
        Column(f"Launch time, {times.unit}", numeric=True),
        Column(f"Exposed, {times.unit}", numeric=True),
        Column("Launch overhead reduction", numeric=True),
        Column(f"DRAM, {sizes.unit}", numeric=True),
        Column(f"Spill, {sizes.unit}", numeric=True),
        Column("On-chip reuse", numeric=True),
        Column("Working set ÷ capacity", numeric=True),
        Column("Ops without a kernel", numeric=True),
    )
    rows = tuple(
        Row(
            row_id("metrics", row["side"], row["workload"], row["bucket"], row["batch"], row["evidence"]),
            (
                Cell(f"{row['workload']}, {row['bucket']}, batch {row['batch']}", sub=row["side"]),
                Cell(row["evidence"]),
                Cell(words.percent(row["weight"])),
                Cell(words.number(row["launches"])),
                Cell(times.text(row["launch_ns"])),
                Cell(times.text(row["exposed_launch_ns"])),
                Cell(words.percent(row["launch_overhead_reduction"])),
                Cell(sizes.text(row["dram_bytes"])),
                Cell(sizes.text(row["spill_bytes"])),
                Cell(words.percent(row["on_chip_reuse_ratio"])),
                Cell(words.number(row["working_set_ratio"])),
                Cell(words.percent(row["fallback_op_share"])),
            ),
        )
        for row in ordered
    )
    return Table("Primary metrics by plan", columns, rows, fold_after=40)

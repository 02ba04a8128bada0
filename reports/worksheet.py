"""Fusion and tile-plan worksheet: per plan, every group of both sides, with the bottleneck shifts to expect."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import polars as pl

from reports import words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Column, Fold, Missing, Note, Row, Section, Table, Tone
from reports.evidence import Evidence
from reports.plans import PlanKey, plan_keys
from schemas.candidate import SIDES

MOST_ROWS: Final = 1200
"""Rows of all plans together. Beyond it a plan shows its totals and says where its rows are."""
FOLD_AFTER: Final = 24
MOST_SPILLS: Final = 8
_OPS_SHOWN = 3
_TITLE = "Fusion and tile-plan worksheet"
_LEAD = (
    "What became one kernel on each side, how it is tiled, and what limits it. Alone: the same ops as one kernel "
    "each. In the plan: the fused kernel. Where the two differ in class, the bottleneck shifts. Classes are of a "
    "kernel alone on the machine: under load the slots share DRAM, and the groups that spill wait for it, so that the "
    "bottleneck of the traffic may be spill where no class shifts here."
)


def section(evidence: Evidence) -> Section:
    kernels = evidence.table("kernels")
    if kernels is None:
        return Section("worksheet", _TITLE, _LEAD, (Missing(evidence.missing("kernels")),))
    plans: list[Block] = []
    shown: list[PlanKey] = []
    left = MOST_ROWS
    keys = plan_keys(evidence, kernels)
    for index, key in enumerate(keys):
        rows = key.rows(kernels).sort("position", maintain_order=True)
        fits = len(rows) <= left
        plans.append(_plan(key, rows, fits=fits, first=index == 0))
        left -= len(rows) if fits else 0
        shown += [key] if fits else []
    return Section("worksheet", _TITLE, _LEAD, (*_spills(keys, shown, kernels), *plans))


def _spills(keys: tuple[PlanKey, ...], shown: list[PlanKey], kernels: pl.DataFrame) -> tuple[Block, ...]:
    """The candidate's groups that spill most by the traffic they serve, or that there is none."""
    spilling = kernels.filter((pl.col("side") == "candidate") & (pl.col("spill_bytes") > 0))
    if spilling.is_empty():
        return (Note("No group of the candidate spills."),)
    found = [(key, row) for key in keys for row in key.rows(spilling).to_dicts()]
    found.sort(key=lambda pair: -pair[1]["spill_bytes"] * (1.0 if pair[0].weight is None else pair[0].weight))
    rows = tuple(_spill_row(key, row, linked=key in shown) for key, row in found[:MOST_SPILLS])
    columns = (
        Column("Group"),
        Column("Plan"),
        Column("Spill", numeric=True),
        Column("Working set", numeric=True),
        Column("DRAM demand", numeric=True, hint="Share of the DRAM bandwidth that the kernel takes while it runs "
               "alone. Where those of kernels that run at once exceed 100 %, they wait for one another."),
        Column("Alone → in the plan"),
        Column("Ops", wide=True),
    )  # fmt: skip
    left = len(found) - len(rows)
    caption = "Groups of the candidate that spill, most spill by traffic first"
    return (Table(f"{caption}; {left} more below" if left > 0 else caption, columns, rows),)


def _spill_row(key: PlanKey, row: dict[str, Any], *, linked: bool) -> Row:
    names = (row["side"], key.workload, key.bucket, key.batch, row["group"])
    cells = (
        Cell(row["group"], sub=row["reason"], href=f"#{row_id('kernels', *names)}" if linked else ""),
        Cell(key.name, sub=key.traffic),
        Cell(words.bytes_text(row["spill_bytes"]), tone="bad"),
        _working_set(row),
        _dram_demand(row),
        Cell(f"{row['unfused_bottleneck']} → {row['bottleneck']}"),
        ops_cell(row["ops"], row["op_count"]),
    )
    return Row(row_id("spill", *names), cells)


def _working_set(row: dict[str, Any]) -> Cell:
    if not row["capacity_bytes"]:
        return Cell(words.MISSING, tone="warn")
    share = row["peak_bytes"] / row["capacity_bytes"]
    return Cell(words.percent(share), tone="bad" if share > 1 else "")


def _dram_demand(row: dict[str, Any]) -> Cell:
    if not row["busy_ns"]:
        return Cell(words.MISSING, tone="warn")
    return Cell(words.percent(row["dram_ns"] / row["busy_ns"]))


def _plan(key: PlanKey, rows: pl.DataFrame, *, fits: bool, first: bool) -> Fold:
    by_side = {side: rows.filter(pl.col("side") == side).to_dicts() for side in SIDES}
    blocks: list[Block] = [_totals(key, by_side)]
    for side in reversed(SIDES):
        own, other = by_side[side], by_side[SIDES[1 - SIDES.index(side)]]
        if not own:
            blocks.append(Missing(f"worksheet of the {side}: the run made no such plan"))
            continue
        blocks.append(Note(f"{side}: {shifts_text(own)}"))
        if fits:
            table = _groups(key, side, own, other)
            blocks.append(Fold(f"{side}: {words.count(len(own), 'group')}, {_policy(own)}", (table,),
                               open=first and side == "candidate"))  # fmt: skip
    if not fits:
        blocks.append(Note(f"Not shown here to keep the page small: the {words.number(len(rows))} rows of this plan "
                           "are in kernels.parquet of the run."))  # fmt: skip
    return Fold(f"{key.name}: {_headline(by_side)} ({key.traffic})", tuple(blocks), open=first)


def _policy(rows: list[dict[str, Any]]) -> str:
    policies = words.listed(dict.fromkeys(row["policy"] for row in rows))
    exact = "proven least modelled cost" if all(row["exact"] for row in rows) else "not proven least cost"
    return f"fusion policy {policies}, {exact}"


def _headline(by_side: dict[str, list[dict[str, Any]]]) -> str:
    if not all(by_side.values()):
        side = next(side for side in SIDES if by_side[side])
        return f"{side} only"
    launches = [sum(row["launches"] for row in by_side[side]) for side in SIDES]
    spill = [sum(row["spill_bytes"] for row in by_side[side]) for side in SIDES]
    scale = words.bytes_scale(spill)
    return (
        f"launches {words.number(launches[0])} → {words.number(launches[1])}, "
        f"spill {scale.text(spill[0])} → {scale.with_unit(spill[1])}"
    )


def shifts_text(rows: list[dict[str, Any]]) -> str:
    """Expected bottleneck shifts of one side's plan, most frequent first: `launch → dram (3 groups)`."""
    moved = Counter((row["unfused_bottleneck"], row["bottleneck"]) for row in rows if row["launches"] > 0)
    shifted = [(pair, times) for pair, times in moved.most_common() if pair[0] != pair[1]]
    stay = sum(times for pair, times in moved.items() if pair[0] == pair[1])
    kept = f"{words.count(stay, 'kernel')} {'keeps its' if stay == 1 else 'keep their'} class."
    if not shifted:
        return f"no bottleneck shifts; {kept}"
    parts = [f"{before} → {after} ({words.count(times, 'kernel')})" for (before, after), times in shifted]
    return f"expected bottleneck shifts {', '.join(parts)}; {kept}"


def _totals(key: PlanKey, by_side: dict[str, list[dict[str, Any]]]) -> Table:
    shown = (
        ("groups", None, "count"),
        ("launches", "launches", "count"),
        ("launch time", "launch_ns", "time"),
        ("total, alone on the machine", "total_ns", "time"),
        ("the same ops as one kernel each", "unfused_ns", "time"),
        ("DRAM traffic", "dram_bytes", "bytes"),
        ("spill traffic", "spill_bytes", "bytes"),
        ("halo traffic", "halo_bytes", "bytes"),
    )
    rows = []
    for label, field, unit in shown:
        values = [None if not by_side[side] else _sum(by_side[side], field) for side in SIDES]
        scale = {"time": words.time_scale, "bytes": words.bytes_scale}.get(unit, lambda _: words.PLAIN)(values)
        cells = [Cell(scale.with_unit(words.whole(value) if scale is words.PLAIN else value)) for value in values]
        rows.append(Row(row_id("plan", key.workload, key.bucket, key.batch, field or "groups"),
                        (Cell(label), *cells, _change(*values))))  # fmt: skip
    columns = (Column("Plan"), Column("Comparator", numeric=True), Column("Candidate", numeric=True),
               Column("Change", numeric=True))  # fmt: skip
    return Table(f"Totals of {key.name}", columns, tuple(rows))


def _sum(rows: list[dict[str, Any]], field: str | None) -> float:
    return float(len(rows)) if field is None else float(sum(row[field] for row in rows))


def _change(before: float | None, after: float | None) -> Cell:
    if before is None or after is None:
        return Cell(words.MISSING, tone="warn")
    if before == after:
        return Cell("same", tone="muted")
    if before == 0:
        return Cell("new", tone="bad")
    return Cell(words.signed_percent(after / before - 1), tone="bad" if after > before else "good")


def _groups(key: PlanKey, side: str, own: list[dict[str, Any]], other: list[dict[str, Any]]) -> Table:
    times = words.time_scale(row["total_ns"] for row in own)
    sizes = words.bytes_scale(row["dram_bytes"] for row in own)
    others = {row["ops"]: row for row in other}
    columns = (
        Column("Group"),
        Column("Ops", wide=True),
        Column("Beside the other side"),
        Column(f"Alone, {times.unit}", numeric=True, hint="The same ops as one kernel each, launches included."),
        Column(f"In the plan, {times.unit}", numeric=True, hint="The kernel alone on the machine, launch included."),
        Column("Plan ÷ bound", numeric=True, hint="Busy time over its provable lower bound; below it DRAM bytes."),
        Column("Launches", numeric=True),
        Column(f"DRAM, {sizes.unit}", numeric=True),
        Column(f"Spill, {sizes.unit}", numeric=True),
        Column("Working set", numeric=True, hint="Most on-chip bytes live at one step, over the capacity of a core."),
        Column(f"Measured, {times.unit}", numeric=True),
        Column("Tile", wide=True),
    )
    rows = tuple(_group_row(key, side, row, others, times, sizes) for row in own)
    return Table(f"Groups of {key.name}, {side}", columns, rows, fold_after=FOLD_AFTER)


def _group_row(
    key: PlanKey,
    side: str,
    row: dict[str, Any],
    others: dict[str, dict[str, Any]],
    times: words.Scale,
    sizes: words.Scale,
) -> Row:
    shifts = row["unfused_bottleneck"] != row["bottleneck"]
    tone: Tone = "bad" if row["bottleneck"] in ("spill", "fallback") else "warn" if shifts else ""
    cells = (
        Cell(row["group"], sub=row["reason"]),
        ops_cell(row["ops"], row["op_count"]),
        _beside(row, others),
        Cell(times.text(row["unfused_ns"]), sub=row["unfused_bottleneck"]),
        Cell(times.text(row["total_ns"]), sub=row["bottleneck"], tone=tone),
        _over_bound(row),
        Cell(words.number(row["launches"])),
        Cell(sizes.text(row["dram_bytes"])),
        Cell(sizes.text(row["spill_bytes"]), tone="bad" if row["spill_bytes"] else ""),
        _working_set(row),
        Cell(times.text(row["measured_ns"]) if row["measured_ns"] is not None else "not measured",
             tone="" if row["measured_ns"] is not None else "muted"),
        tile_cell(row),
    )  # fmt: skip
    return Row(row_id("kernels", side, key.workload, key.bucket, key.batch, row["group"]), cells)


def _over_bound(row: dict[str, Any]) -> Cell:
    latency, dram = row["latency_over_bound"], row["dram_over_bound"]
    shown = "bound is 0" if latency is None else words.number(latency)
    return Cell(shown, sub="" if dram is None else f"DRAM {words.number(dram)}")


def ops_cell(ops: str, op_count: int) -> Cell:
    """The first few ops of a group; all of them behind a fold where there are more."""
    names = ops.split(", ")
    if len(names) <= _OPS_SHOWN:
        return Cell(ops)
    return Cell(f"{', '.join(names[:_OPS_SHOWN])} and {op_count - _OPS_SHOWN} more", more=ops)


def tile_cell(row: dict[str, Any]) -> Cell:
    """Tile sizes, and below them loop order, streamed block, tiles, waves and cores."""
    if not row["tile"]:
        return Cell("no tile", sub="view or fallback", tone="muted")
    parts = [f"loops {row['loop_order']}"] if row["loop_order"] else []
    parts += [f"k block {words.number(row['k_tile'])}"] if row["k_tile"] else []
    parts.append(f"{words.count(row['tiles'], 'tile')} in {words.count(row['waves'], 'wave')}")
    parts.append(words.count(row["cores"], "core"))
    parts += ["double buffered"] if row["double_buffer"] else []
    return Cell(row["tile"], sub=", ".join(parts))


def _beside(row: dict[str, Any], others: dict[str, dict[str, Any]]) -> Cell:
    """Whether the other side has the same group with the same tile."""
    twin = others.get(row["ops"])
    if not others:
        return Cell(words.MISSING, tone="warn")
    if twin is None:
        return Cell("boundary moved", tone="warn", badge=True)
    if (twin["tile"], twin["k_tile"], twin["loop_order"]) != (row["tile"], row["k_tile"], row["loop_order"]):
        return Cell("same ops, other tile", tone="warn")
    return Cell("same", tone="muted")

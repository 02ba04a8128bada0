"""Bandwidth lens: how hard each fusion policy presses on on-chip space and DRAM, and in which zone that puts it."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from reports import charts, words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Charts, Column, Missing, Note, Row, Section, Table, Tone
from reports.evidence import SIDES, Evidence, side_order
from reports.plans import PlanKey, plan_keys
from schemas.zones import THRESHOLDS, ZONES

POLICIES: Final = ("none", "pattern", "optimal", "aggressive")
"""In the order of the iterations."""
_TONES: Final[dict[str, Tone]] = dict(zip(ZONES, ("good", "", "warn", "bad"), strict=True))  # type: ignore[arg-type]
_SHORT: Final = ("working set", "DRAM demand", "p99 ÷ p50")
_TITLE = "Bandwidth lens"
_LEAD = (
    "Working-set pressure over the iterations none, pattern, optimal, aggressive: more fusion saves launches and "
    "presses harder on memory. The zone is the worst that any of the quantities below reaches."
)


def section(evidence: Evidence) -> Section:
    sweep = evidence.table("sweep")
    if sweep is None:
        return Section("lens", _TITLE, _LEAD, (Missing(evidence.missing("sweep")), _thresholds()))
    keys = plan_keys(evidence, sweep)
    drawn = [key for index, key in enumerate(keys) if key.workload not in {k.workload for k in keys[:index]}]
    blocks: tuple[Block, ...] = (
        *(_charts(key, key.rows(sweep), index) for index, key in enumerate(drawn)),
        Note("Drawn for the plan of each workload that serves most traffic; the table has them all.", tone="muted"),
        _thresholds(),
        _table(evidence, keys, sweep),
    )
    return Section("lens", _TITLE, _LEAD, blocks)


def _charts(key: PlanKey, rows: pl.DataFrame, index: int) -> Charts:
    points = [
        {
            **{name: row[name] for name in ("side", "policy", "zone", "launches")},
            "working_set_ratio": round(row["working_set_ratio"], 4),
            "dram_demand_ratio": round(row["dram_demand_ratio"], 4),
            "spill": words.bytes_text(row["spill_bytes"]),
        }
        for row in _ordered(rows).to_dicts()
    ]
    used = [policy for policy in POLICIES if policy in rows["policy"]]
    shown = (("working_set_ratio", "Working set"), ("dram_demand_ratio", "DRAM demand"))
    return Charts(
        tuple(
            charts.lens(f"chart-lens-{index}-{place}", f"{label}: {key.name}", quantity, points, used)
            for place, (quantity, label) in enumerate(shown)
        )
    )


def _ordered(rows: pl.DataFrame) -> pl.DataFrame:
    place = pl.col("policy").replace_strict({policy: i for i, policy in enumerate(POLICIES)}, return_dtype=pl.Int8)
    return rows.sort(side_order(), place, maintain_order=True)


def _thresholds() -> Table:
    columns = (Column("Quantity"), *(Column(f"{zone} from", numeric=True) for zone in ZONES))
    rows = tuple(
        Row(
            row_id("zones", item.quantity),
            (
                Cell(item.meaning),
                Cell("0" if item.tuning is not None else "below the next"),
                *(
                    Cell(
                        "does not lead there" if start is None else f"{start:g}", tone="muted" if start is None else ""
                    )
                    for start in (item.tuning, item.unstable, item.saturation)
                ),
            ),
        )
        for item in THRESHOLDS
    )
    return Table("Where zones begin; p99 ÷ p50 counts only for the policy that the side runs", columns, rows)


def decided_by(row: dict[str, Any]) -> str:
    """The pressures that reach the row's zone by themselves; the tail where neither does."""
    place = ZONES.index(row["zone"])
    reached = [name for item, name in zip(THRESHOLDS, _SHORT, strict=True)
               if item.quantity in row and item.zone(row[item.quantity]) >= place]  # fmt: skip
    if place == 0:
        return "nothing"
    return words.listed(reached, nothing=_SHORT[-1])


def _table(evidence: Evidence, keys: tuple[PlanKey, ...], sweep: pl.DataFrame) -> Table:
    times = words.time_scale(sweep["total_ns"].to_list())
    sizes = words.bytes_scale(sweep["dram_bytes"].to_list())
    own = {side: getattr(evidence.candidate, side).settings.fusion.policy for side in SIDES}
    columns = (
        Column("Plan"),
        Column("Fusion policy"),
        Column("Zone"),
        Column("Decided by", hint="The quantities that reach the zone."),
        Column("Working set ÷ capacity", numeric=True),
        Column("DRAM demand ÷ peak", numeric=True),
        Column("Launches", numeric=True),
        Column(f"Launch time, {times.unit}", numeric=True),
        Column(f"DRAM, {sizes.unit}", numeric=True),
        Column(f"Spill, {sizes.unit}", numeric=True),
        Column(f"Busy, {times.unit}", numeric=True),
        Column(f"Total, {times.unit}", numeric=True),
    )
    rows = []
    for key in keys:
        for row in _ordered(key.rows(sweep)).to_dicts():
            runs = row["policy"] == own[row["side"]]
            cells = (
                Cell(key.name, sub=row["side"]),
                Cell(row["policy"], sub="this side runs it" if runs else ""),
                Cell(row["zone"], tone=_TONES[row["zone"]], badge=True),
                Cell(decided_by(row)),
                Cell(words.number(row["working_set_ratio"])),
                Cell(words.number(row["dram_demand_ratio"])),
                Cell(words.number(row["launches"])),
                Cell(times.text(row["launch_ns"])),
                Cell(sizes.text(row["dram_bytes"])),
                Cell(sizes.text(row["spill_bytes"])),
                Cell(times.text(row["busy_ns"])),
                Cell(times.text(row["total_ns"])),
            )
            anchor = row_id("sweep", row["side"], key.workload, key.bucket, key.batch, row["policy"])
            rows.append(Row(anchor, cells, mark="note" if runs else ""))
    return Table("Every plan and policy", columns, tuple(rows), fold_after=24)

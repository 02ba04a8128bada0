"""Bandwidth lens: how hard each fusion policy presses on on-chip space and DRAM, and in which zone that puts it."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from reports import charts, words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Charts, Column, Fold, Missing, Note, Row, Section, Table, Tone
from reports.evidence import Evidence, side_order
from reports.plans import PlanKey, plan_keys
from schemas.candidate import SIDES
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
        Note("Drawn for the plan of each workload that serves most traffic; the tables have them all.", tone="muted"),
        _thresholds(),
        *(_plan(evidence, key, key.rows(sweep), first=index == 0) for index, key in enumerate(keys)),
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


def _plan(evidence: Evidence, key: PlanKey, rows: pl.DataFrame, *, first: bool) -> Fold:
    times = words.time_scale(rows["total_ns"].to_list())
    sizes = words.bytes_scale(rows["dram_bytes"].to_list())
    own = {side: getattr(evidence.candidate, side).settings.fusion.policy for side in SIDES}
    columns = (
        Column("Fusion policy"),
        Column("Side"),
        Column("Zone"),
        Column("Decided by", wide=True),
        Column("Working set ÷ capacity", numeric=True),
        Column("DRAM demand ÷ peak", numeric=True),
        Column("Launches", numeric=True),
        Column(f"Launch time, {times.unit}", numeric=True),
        Column(f"DRAM, {sizes.unit}", numeric=True),
        Column(f"Spill, {sizes.unit}", numeric=True),
        Column(f"Total, {times.unit}", numeric=True),
    )
    made = []
    for row in _ordered(rows).to_dicts():
        runs = row["policy"] == own[row["side"]]
        cells = (
            Cell(row["policy"], sub="this side runs it" if runs else ""),
            Cell(row["side"]),
            Cell(row["zone"], tone=_TONES[row["zone"]], badge=True),
            Cell(decided_by(row)),
            Cell(words.number(row["working_set_ratio"])),
            Cell(words.number(row["dram_demand_ratio"])),
            Cell(words.number(row["launches"])),
            Cell(times.text(row["launch_ns"])),
            Cell(sizes.text(row["dram_bytes"])),
            Cell(sizes.text(row["spill_bytes"])),
            Cell(times.text(row["total_ns"]), sub=f"busy {times.text(row['busy_ns'])}"),
        )
        anchor = row_id("sweep", row["side"], key.workload, key.bucket, key.batch, row["policy"])
        made.append(Row(anchor, cells, mark="note" if runs else ""))
    summary = f"{key.name}: {_zones_text(rows, own)} ({key.traffic})"
    return Fold(summary, (Table(f"Policies of {key.name}", columns, tuple(made)),), open=first)


def _zones_text(rows: pl.DataFrame, own: dict[str, str]) -> str:
    """The zone that each side's own policy is in: `baseline → saturation`."""
    found = {row["side"]: row["zone"] for row in rows.to_dicts() if row["policy"] == own[row["side"]]}
    return " → ".join(found.get(side, words.MISSING) for side in SIDES)

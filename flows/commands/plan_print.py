"""The worksheet of `tilegate plan` in the terminal: one line a kernel, then what cannot run, then the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelmodel.importers.profile_file import printable
from accelmodel.metrics import PrimaryMetrics
from accelmodel.plan import Group, Plan
from flows.plan_rows import Row
from schemas.words import bytes_text, percent, time_text

SHOWN_TYPES = 3  # op types of a group in the terminal; --json has every op
WIDE = 120  # columns from which the ops' own names are shown too
MIB = 2**20


def print_plan(
    console: Console, plan: Plan, rows: Sequence[Row], metrics: PrimaryMetrics, alone_ns: float | None, top: int | None
) -> None:
    """top: only so many kernels, the slowest first; None for all, in their order."""
    title = f"{plan.workload} on {plan.target}: {len(rows)} kernels, {_fused(plan)}"
    console.print(printable(title), markup=False, highlight=False)
    shown = rows if top is None else sorted(rows, key=lambda row: -_number(row, "total_ns"))[:top]
    console.print(_worksheet(plan, shown, names=console.width >= WIDE))
    if len(shown) < len(rows):
        took = sum(_number(row, "total_ns") for row in shown) / max(1.0, metrics.total_ns)
        console.print(f"{len(rows) - len(shown)} more kernels; those above take {percent(took)} of the time, launches "
                      "in full", style="dim", highlight=False)  # fmt: skip
    for item in plan.infeasible:
        console.print(printable(f"cannot run: {item.group}: {item.reason}"), style="red", markup=False)
    for note in plan.grouping.notes:
        console.print(printable(note), style="dim", markup=False)
    console.print(_metrics(metrics, alone_ns))
    for reason, count in _fallbacks(plan).most_common():
        console.print(printable(f"on the host: {reason}" + (f" ({count} ops)" if count > 1 else "")), markup=False)


def _fused(plan: Plan) -> str:
    if plan.grouping.policy == "none":
        return "nothing fused"
    sure = "no grouping is cheaper" if plan.grouping.exact else "a cheaper grouping may exist"
    return f"fused by policy {plan.grouping.policy} ({sure})"


def _worksheet(plan: Plan, rows: Sequence[Row], *, names: bool) -> Table:
    """One line a kernel; spilled bytes only where there are any."""
    groups = {group.name: group for group in plan.grouping.groups}
    spills = any(_number(row, "spill_bytes") for row in rows)
    table = Table(box=None, padding=(0, 1, 0, 0))
    for title, right in (("", False), ("ops", False), ("tile", False), ("µs", True), ("DRAM MiB", True)):
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    if spills:
        table.add_column("spill MiB", justify="right", no_wrap=True)
    table.add_column("limited by", no_wrap=True)
    table.add_column("÷ bound", justify="right", no_wrap=True)
    if names:
        table.add_column("names", no_wrap=True, overflow="ellipsis")
    for row in rows:
        spilled = (f"{_number(row, 'spill_bytes') / MIB:.3f}",) if spills else ()
        name = (str(row["ops"]),) if names else ()
        cells = (*_cells(plan, groups[str(row["group"])], row), *spilled, *_limits(row), *name)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _cells(plan: Plan, group: Group, row: Row) -> tuple[str, ...]:
    number, tile = group.name.partition("_")[0], str(row["tile"]).split(", ")
    return (
        number, op_types(plan, group), "×".join(part.partition("=")[2] for part in tile),
        f"{_number(row, 'total_ns') / 1e3:.2f}", f"{_number(row, 'dram_bytes') / MIB:.3f}",
    )  # fmt: skip


def _limits(row: Row) -> tuple[str, str]:
    """What takes the time, fused; and DRAM traffic over its lower bound."""
    ratio = row["dram_over_bound"]
    return str(row["bottleneck"]), "" if ratio is None else f"{float(str(ratio)):.2f}"


def op_types(plan: Plan, group: Group) -> str:
    """Types of a group's ops, without the views, which only rename."""
    ops = [plan.lowered.ops[number] for number in group.ops]
    types = [op.op_type for op in ops if op.kind != "view"] or [op.op_type for op in ops]
    more = f"+{len(types) - SHOWN_TYPES} more" if len(types) > SHOWN_TYPES else ""
    return "+".join(types[:SHOWN_TYPES]) + more


def _fallbacks(plan: Plan) -> Counter[str]:
    """Why ops run on the host instead of in a kernel, by type."""
    return Counter(f"{op.op_type}: {op.fallback_reason}" for op in plan.lowered.ops if op.kind == "fallback")


def _metrics(metrics: PrimaryMetrics, alone_ns: float | None) -> Table:
    lines = {
        "time alone on the machine": f"{time_text(alone_ns)}, as the replay takes it",
        "time, launches in full": time_text(metrics.total_ns),
        "launches": f"{metrics.launches}, {time_text(metrics.launch_ns)}",
        "launch time exposed": time_text(metrics.exposed_launch_ns),
        "launch overhead reduction": percent(metrics.launch_overhead_reduction),
        "on-chip reuse ratio": percent(metrics.on_chip_reuse_ratio),
        "DRAM traffic": f"{bytes_text(metrics.dram_bytes)} of {bytes_text(metrics.requested_bytes)} requested",
        "spill traffic": bytes_text(metrics.spill_bytes),
        "largest working set": f"{percent(metrics.working_set_ratio)} of the on-chip capacity",
        "fallback ops": percent(metrics.fallback_op_share),
    }
    table = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        table.add_row(f"[dim]{name}[/]", value)
    return table


def _number(row: Mapping[str, Any], name: str) -> float:
    return float(row[name])

"""`tilegate plan`: the worksheet and the primary metrics of a model, without a candidate file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelmodel.compile import compile_plan, reference_plan, unfused_costs
from accelmodel.importers.onnx import read_graph
from accelmodel.importers.profile_file import printable
from accelmodel.memo import Memo
from accelmodel.metrics import PrimaryMetrics, primary_metrics
from accelmodel.plan import Plan
from accelmodel.settings import FusionSettings, Settings
from accelmodel.target import Target
from accelmodel.timeline import exposed_launch_ns
from flows.inputs import load_target
from flows.plan_rows import PlanKeys, Row, kernel_rows
from schemas.errors import DocumentError

SHOWN_OPS = 3  # names of a group's ops in the terminal; --json has all


def plan_model(model: Path, target_name: str, shapes: Sequence[str], policy: str, *, as_json: bool) -> int:
    """Plan one model on one target and print what came of it."""
    target, bound = load_target(target_name), parse_shapes(shapes)
    graph = read_graph(model, bound, model.stem)
    settings, memo = replace(Settings(), fusion=FusionSettings(policy=policy)), Memo()
    plan = compile_plan(graph, target, settings, model.stem, memo)
    rows = worksheet(plan, target, settings, memo)
    reference = reference_plan(graph, target, settings, model.stem, memo)
    metrics = primary_metrics(plan, reference, target, sum(float(str(row["exposed_launch_ns"])) for row in rows))
    if as_json:
        print(json.dumps(_document(plan, rows, metrics)))
    else:
        print_plan(Console(), plan, rows, metrics)
    return 0


def parse_shapes(shapes: Sequence[str]) -> dict[str, int]:
    """`DIM=SIZE` texts as sizes by dim."""
    bound: dict[str, int] = {}
    for text in shapes:
        dim, _, size = text.partition("=")
        if not dim or not size.isascii() or not size.isdigit():
            raise DocumentError(
                source="command line", where="--shape", expected="DIM=SIZE with a whole number", found=repr(text),
                remedy="Write for example --shape batch=1.",
            )  # fmt: skip
        bound[dim] = int(size)
    return bound


def worksheet(plan: Plan, target: Target, settings: Settings, memo: Memo) -> list[Row]:
    """Rows of the table `kernels`."""
    alone = {
        kernel.group.name: unfused_costs(plan.lowered, kernel.group, target, settings, memo) for kernel in plan.kernels
    }
    keys = PlanKeys("candidate", plan.workload, "default", 1)
    exposed = exposed_launch_ns(plan, settings.execution)
    return list(kernel_rows(keys, plan, target, exposed, alone, {}))


def print_plan(console: Console, plan: Plan, rows: Sequence[Row], metrics: PrimaryMetrics) -> None:
    """The worksheet, what cannot run, and the primary metrics."""
    policy = plan.grouping.policy
    exact = "exact" if plan.grouping.exact else "not proven least"
    title = printable(f"{plan.workload} on {plan.target}: policy {policy} ({exact}), {len(rows)} kernels")
    console.print(title, markup=False, highlight=False)
    table = Table(
        "kernel", "ops", "tile", "µs", "DRAM MB", "spill MB", "bottleneck alone → fused", "DRAM ÷ bound", box=None
    )
    for column in table.columns[3:6]:
        column.justify = "right"
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in _cells(row)))
    console.print(table)
    for item in plan.infeasible:
        console.print(printable(f"cannot run: {item.group}: {item.reason}"), style="red", markup=False)
    for note in plan.grouping.notes:
        console.print(printable(note), style="dim", markup=False)
    console.print(_metrics_table(metrics))


def _cells(row: Row) -> tuple[str, ...]:
    ops = str(row["ops"]).split(", ")
    more = f" +{len(ops) - SHOWN_OPS}" if len(ops) > SHOWN_OPS else ""
    ratio = row["dram_over_bound"]
    shift = str(row["bottleneck"])
    if row["unfused_bottleneck"] != row["bottleneck"]:
        shift = f"{row['unfused_bottleneck']} → {shift}"
    return (
        str(row["group"]), ", ".join(ops[:SHOWN_OPS]) + more, str(row["tile"]), f"{_number(row, 'total_ns') / 1e3:.2f}",
        f"{_number(row, 'dram_bytes') / 1e6:.3f}", f"{_number(row, 'spill_bytes') / 1e6:.3f}", shift,
        "" if ratio is None else f"{float(str(ratio)):.2f}",
    )  # fmt: skip


def _metrics_table(metrics: PrimaryMetrics) -> Table:
    def share(value: float | None) -> str:
        return "missing" if value is None else f"{value:.4f}"

    lines = {
        "launch overhead reduction": share(metrics.launch_overhead_reduction),
        "on-chip reuse ratio": share(metrics.on_chip_reuse_ratio),
        "launches": f"{metrics.launches}, {metrics.launch_ns / 1e3:.1f} µs",
        "launch time exposed": f"{metrics.exposed_launch_ns / 1e3:.1f} µs",
        "DRAM traffic": f"{metrics.dram_bytes / 1e6:.3f} MB of {metrics.requested_bytes / 1e6:.3f} MB requested",
        "spill traffic": f"{metrics.spill_bytes / 1e6:.3f} MB",
        "largest working set": f"{metrics.working_set_ratio:.3f} of the on-chip capacity",
        "fallback ops": f"{metrics.fallback_op_share:.1%}",
        "time, launches in full": f"{metrics.total_ns / 1e3:.1f} µs",
    }
    table = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        table.add_row(f"[dim]{name}[/]", value)
    return table


def _number(row: Mapping[str, Any], name: str) -> float:
    return float(row[name])


def _document(plan: Plan, rows: Sequence[Row], metrics: PrimaryMetrics) -> dict[str, object]:
    return {
        "workload": plan.workload, "target": plan.target, "policy": plan.grouping.policy, "exact": plan.grouping.exact,
        "metrics": asdict(metrics), "kernels": list(rows),
        "infeasible": [asdict(item) for item in plan.infeasible], "notes": list(plan.grouping.notes),
    }  # fmt: skip

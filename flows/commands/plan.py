"""`tilegate plan`: the worksheet and the primary metrics of a model, without a candidate file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from accelmodel.compile import compile_plan, reference_plan, unfused_costs
from accelmodel.errors import InputError
from accelmodel.graph import Graph
from accelmodel.importers.onnx import inspect, read_graph
from accelmodel.memo import Memo
from accelmodel.metrics import PrimaryMetrics, primary_metrics
from accelmodel.plan import Plan
from accelmodel.program import PS_PER_NS
from accelmodel.settings import FusionSettings, Settings
from accelmodel.target import Target
from accelmodel.timeline import exposed_launch_ns, timeline
from flows.commands.plan_print import print_plan
from flows.inputs import load_target
from flows.plan_rows import PlanKeys, Row, kernel_rows
from schemas.errors import DocumentError


def plan_model(
    model: Path, target_name: str, shapes: Sequence[str], policy: str, *, top: int | None = None, as_json: bool
) -> int:
    """Plan one model on one target and print what came of it. top: how many kernels to print; None for all."""
    target, bound = load_target(target_name), parse_shapes(shapes)
    graph = _graph(model, bound)
    settings, memo = replace(Settings(), fusion=FusionSettings(policy=policy)), Memo()
    plan = compile_plan(graph, target, settings, model.stem, memo)
    rows = worksheet(plan, target, settings, memo)
    reference = reference_plan(graph, target, settings, model.stem, memo)
    metrics = primary_metrics(plan, reference, target, sum(float(str(row["exposed_launch_ns"])) for row in rows))
    if as_json:
        print(json.dumps(_document(plan, rows, metrics, alone_ns(plan, target, settings))))
    else:
        print_plan(Console(), plan, rows, metrics, alone_ns(plan, target, settings), top)
    return 0


def alone_ns(plan: Plan, target: Target, settings: Settings) -> float | None:
    """From the first launch to the end of the last kernel, alone on the machine, as the replay takes it, in ns.

    None where a group of the plan cannot run.
    """
    if plan.infeasible:
        return None
    return timeline([plan], target, settings.execution).completion_ps[0] / PS_PER_NS


def _graph(model: Path, shapes: Mapping[str, int]) -> Graph:
    """The graph of a model that was named on the command line; what is wrong is said in terms of that line."""
    if not model.is_file():
        raise DocumentError(
            source="command line", where="MODEL.onnx", expected="an ONNX file",
            found=f"a folder: {model}" if model.is_dir() else f"no file {model}", remedy="Correct the path.",
        )  # fmt: skip
    try:
        return read_graph(model, shapes, model.stem)
    except InputError as error:
        dims = inspect(model).symbolic_dims
        missing = [dim for dim in dims if dim not in shapes]
        if not missing or not set(shapes) <= set(dims):
            raise
        example = " ".join(f"--shape {shlex.quote(dim)}=1" for dim in missing)
        raise DocumentError(
            source=str(model), where="--shape", expected="a size for each symbolic dim",
            found=f"none for {', '.join(missing)}", remedy=f"Give them, for example {example}",
        ) from error  # fmt: skip


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


def _document(plan: Plan, rows: Sequence[Row], metrics: PrimaryMetrics, alone: float | None) -> dict[str, object]:
    return {
        "workload": plan.workload, "target": plan.target, "policy": plan.grouping.policy, "exact": plan.grouping.exact,
        "metrics": asdict(metrics), "alone_ns": alone, "kernels": list(rows),
        "infeasible": [asdict(item) for item in plan.infeasible], "notes": list(plan.grouping.notes),
    }  # fmt: skip

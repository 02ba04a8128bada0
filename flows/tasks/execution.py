"""Execution: kernels get their cost, the plan its timeline, and both their rows in the tables."""

from __future__ import annotations

from pathlib import Path

from accelmodel.compile import assemble_plan, unfused_costs
from accelmodel.plan import Grouping, Lowered, Plan
from accelmodel.timeline import exposed_launch_ns, timeline
from flows.labels import bucket_and_batch
from flows.plan_rows import PlanKeys, Row, buffer_rows, kernel_rows, op_rows, timeline_rows
from flows.stages import Context, Payload, Work, stage_task
from flows.store import Store
from flows.tasks.planning import Placements, Plans, Tiles, memo
from flows.values import put_frame, put_value
from schemas.tables import from_rows

TABLES = ("ops", "kernels", "buffers", "timeline")


@stage_task("execution", reads=("tiling", "execution"), label="{work[workload]} {work[side]}")
def execution(
    context: Context, work: Work, lowered: Payload, fused: Payload, tiled: Payload, placed: Payload
) -> Payload:
    store, plans = Store(Path(context["store"])), Plans(context, work)
    values, rows = {}, {name: list[Row]() for name in TABLES}
    for label in work["graphs"]:
        plan = assemble_plan(
            plans.of(lowered, label, Lowered), plans.of(fused, label, Grouping), plans.of(tiled, label, Tiles),
            plans.of(placed, label, Placements), plans.target, plans.settings(label), f"{work['workload']} {label}",
        )  # fmt: skip
        values[label] = put_value(store, plan, Plan)
        _add_rows(rows, PlanKeys(work["side"], work["workload"], *bucket_and_batch(label)), plan, plans, label)
    tables = {f"table:{name}": put_frame(store, name, from_rows(name, found)) for name, found in rows.items()}
    return {"stage": "execution", "values": {**values, **tables}, "facts": {}}


def _add_rows(rows: dict[str, list[Row]], keys: PlanKeys, plan: Plan, plans: Plans, label: str) -> None:
    settings, target = plans.settings(label), plans.target
    alone = {
        kernel.group.name: unfused_costs(plan.lowered, kernel.group, target, settings, memo) for kernel in plan.kernels
    }
    rows["ops"] += op_rows(keys, plan, target)
    rows["kernels"] += kernel_rows(keys, plan, target, exposed_launch_ns(plan, settings.execution), alone, {})
    rows["buffers"] += buffer_rows(keys, plan)
    rows["timeline"] += timeline_rows(keys, timeline([plan], target, settings.execution))

"""Lowering: each op gets its iteration space, engine and kernel."""

from __future__ import annotations

from accelmodel.compile import lower_stage
from accelmodel.plan import Lowered
from flows.stages import Context, Payload, Work, stage_task
from flows.tasks.planning import Plans


@stage_task("lowering", reads=("lowering",), label="{work[workload]} {work[side]}")
def lowering(context: Context, work: Work) -> Payload:
    plans = Plans(context, work)
    return plans.keep(
        "lowering", Lowered,
        lambda label: lower_stage(plans.graph(label), plans.target, plans.settings(label)),
    )  # fmt: skip

"""Fusion: ops are grouped into kernels."""

from __future__ import annotations

from accelmodel.compile import fuse_stage
from accelmodel.plan import Grouping, Lowered
from flows.stages import Context, Payload, Work, stage_task
from flows.tasks.planning import Plans, in_turn, memo


# The groups of policy `optimal` follow from what they cost, so from tiling and execution settings too.
@stage_task("fusion", reads=("fusion", "tiling", "execution"), label="{work[workload]} {work[side]}")
def fusion(context: Context, work: Work, lowered: Payload) -> Payload:
    plans = Plans(context, work)

    def grouped(label: str) -> Grouping:
        return fuse_stage(plans.of(lowered, label, Lowered), plans.target, plans.settings(label), memo)

    with in_turn:
        return plans.keep("fusion", Grouping, grouped)

"""Placement: each buffer of a kernel gets its offset on the chip, or is spilled."""

from __future__ import annotations

from accelmodel.compile import place_stage
from accelmodel.plan import Grouping
from flows.stages import Context, Payload, Work, stage_task
from flows.tasks.planning import Placements, Plans, Tiles


@stage_task("placement", reads=("placement",), label="{work[workload]} {work[side]}")
def placement(context: Context, work: Work, fused: Payload, tiled: Payload) -> Payload:
    plans = Plans(context, work)
    return plans.keep(
        "placement", Placements,
        lambda label: place_stage(
            plans.of(fused, label, Grouping), plans.of(tiled, label, Tiles), plans.target, plans.settings(label)
        ),
    )  # fmt: skip

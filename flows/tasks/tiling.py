"""Tiling: each group gets the tile that its kernel works on at once."""

from __future__ import annotations

from accelmodel.compile import tile_stage
from accelmodel.plan import Grouping, Lowered
from flows.stages import Context, Payload, Work, stage_task
from flows.tasks.planning import Plans, Tiles, memo


@stage_task("tiling", reads=("tiling", "execution"), label="{work[workload]} {work[side]}")
def tiling(context: Context, work: Work, lowered: Payload, fused: Payload) -> Payload:
    plans = Plans(context, work)
    return plans.keep(
        "tiling", Tiles,
        lambda label: tile_stage(
            plans.of(lowered, label, Lowered), plans.of(fused, label, Grouping), plans.target, plans.settings(label),
            memo,
        ),
    )  # fmt: skip

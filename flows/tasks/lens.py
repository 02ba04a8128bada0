"""The bandwidth lens: the busiest plan of each side and workload under every fusion policy."""

from __future__ import annotations

from pathlib import Path

from accelmodel.sweep import fusion_sweep
from flows.assembling import sweep_row
from flows.hybrids import PLAN_STAGES
from flows.labels import bucket_and_batch
from flows.plan_rows import PlanKeys
from flows.stages import Context, Payload, Work, stage_task
from flows.store import Store
from flows.tasks.planning import Plans, in_turn, memo
from flows.values import put_frame
from schemas.tables import from_rows


@stage_task("lens", reads=PLAN_STAGES, label="{work[workload]} {work[side]}")
def lens(context: Context, work: Work, busiest: str, tail_ratio: float | None) -> Payload:
    store, plans = Store(Path(context["store"])), Plans(context, work)
    settings = plans.settings(busiest)
    with in_turn:
        found = fusion_sweep(plans.graph(busiest), plans.target, settings, work["workload"], memo)
    keys = PlanKeys(work["side"], work["workload"], *bucket_and_batch(busiest))
    rows = [sweep_row(keys, row, tail_ratio if row.policy == settings.fusion.policy else None) for row in found]
    table = put_frame(store, "sweep", from_rows("sweep", rows))
    return {"stage": "lens", "values": {"table:sweep": table}, "facts": {}}

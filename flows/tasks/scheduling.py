"""Scheduling: the traffic of every replication runs through one side's plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from accelmodel.plan import Plan
from accelmodel.target import Target
from flows.inputs import settings_from
from flows.replaying import Served, replay_side
from flows.stages import Context, Payload, stage_task
from flows.store import Store
from flows.values import Ref, get_arrivals, get_value, put_frame
from schemas.candidate import Workload

NOISE_OF_SECOND_RUN = 1_000_003
"""Added to the seeds of the comparator's second run: other noise, the same arrivals."""


class Service(TypedDict):
    """One side as the runtime sees it. plans: workload -> label -> Plan. noise: added to the replications' seeds."""

    side: str
    workloads: list[dict[str, Any]]
    plans: dict[str, dict[str, Ref]]
    target: Ref
    settings: dict[str, dict[str, Any]]
    arrivals: list[Ref]
    seeds: list[int]
    noise: int


@stage_task("scheduling", reads=("ingress", "execution", "scheduling", "assembly"), label="{work[side]} {work[noise]}")
def scheduling(context: Context, work: Service) -> Payload:
    store = Store(Path(context["store"]))
    served = serve(store, work)
    facts = {"unstable": served.unstable, "utilisation": served.utilisation, "warnings": served.warnings}
    return {"stage": "scheduling", "values": {"requests": put_frame(store, "requests", served.requests)},
            "facts": facts}  # fmt: skip


def serve(store: Store, work: Service) -> Served:
    """Replay one side's plans from the store."""
    plans = {
        workload: {label: get_value(store, ref, Plan) for label, ref in labels.items()}
        for workload, labels in work["plans"].items()
    }
    workloads = [Workload.model_validate(item) for item in work["workloads"]]
    return replay_side(
        work["side"], workloads, plans, settings_from(work["settings"]),
        get_value(store, work["target"], Target), [get_arrivals(store, ref) for ref in work["arrivals"]],
        [seed + work["noise"] for seed in work["seeds"]],
    )  # fmt: skip

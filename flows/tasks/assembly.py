"""Assembly: the parts of all workloads become the run's tables, weighted by what the traffic asked for."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from accelmodel.compile import reference_plan
from accelmodel.graph import Graph
from accelmodel.plan import Plan
from flows.assembling import metric_rows, plan_weights
from flows.plan_rows import Row
from flows.stages import Context, Payload, Work, settings_of, stage_task
from flows.store import Store
from flows.tasks.execution import TABLES
from flows.tasks.planning import Plans, memo
from flows.values import Ref, get_frame, get_value, put_frame
from schemas.tables import from_rows


@stage_task("assembly", reads=())
def assembly(
    context: Context,
    works: list[Work],
    executed: list[Payload],
    checked: list[Payload],
    served: list[Payload],
    profiles: list[Ref],
) -> Payload:
    """works, executed, checked: in the same order. served: of both sides."""
    store = Store(Path(context["store"]))
    tables = {name: _joined(store, name, [part["values"][f"table:{name}"] for part in executed]) for name in TABLES}
    tables["quality"] = _joined(store, "quality", [part["values"]["table:quality"] for part in checked])
    tables["requests"] = _joined(store, "requests", [part["values"]["requests"] for part in served])
    if profiles:
        tables["profile_kernels"] = _joined(store, "profile_kernels", profiles)
    requests = get_frame(store, tables["requests"])
    rows = [
        row
        for work, part in zip(works, executed, strict=True)
        for row in _metrics(context, works, work, part, requests)
    ]
    tables["metrics"] = put_frame(store, "metrics", from_rows("metrics", rows))
    return {"stage": "assembly", "values": tables, "facts": {}}


def _joined(store: Store, name: str, parts: list[Ref]) -> Ref:
    return put_frame(store, name, pl.concat([get_frame(store, part) for part in parts]))


def _metrics(context: Context, works: list[Work], work: Work, part: Payload, requests: pl.DataFrame) -> list[Row]:
    """Primary metrics of one side of one workload, referred to the comparator's unfused plans."""
    store, plans, side = Store(Path(context["store"])), Plans(context, work), work["side"]
    settings = settings_of(work)
    comparator = next(
        settings_of(other) for other in works
        if other["side"] == "comparator" and other["workload"] == work["workload"]
    )  # fmt: skip
    own = {label: get_value(store, part["values"][label], Plan) for label in work["graphs"]}
    references = {
        label: reference_plan(get_value(store, ref, Graph), plans.target, comparator, label, memo)
        for label, ref in work["graphs"].items()
    }
    weights = plan_weights(requests, side, settings.scheduling.max_batch)
    return list(metric_rows(side, work["workload"], own, references, settings, plans.target, weights))

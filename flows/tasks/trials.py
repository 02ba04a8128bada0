"""Trials: one side's traffic at other rates, batches and fusion policies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from accelmodel.compile import compile_plan
from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_graph
from accelmodel.plan import Plan
from accelmodel.settings import Settings
from accelmodel.target import Target
from flows.hybrids import PLAN_STAGES
from flows.inputs import settings_from
from flows.labels import FALLBACK, batch_sizes, bucket_and_batch, label_of, plan_settings, shapes_of
from flows.stages import Context, Payload, stage_task
from flows.store import Store
from flows.tasks.planning import in_turn, memo
from flows.tasks.scheduling import Service
from flows.trials import Plans, setting_of, trial_rows
from flows.values import Ref, get_arrivals, get_value, put_frame
from schemas.candidate import Workload
from schemas.tables import from_rows


@stage_task("trials", reads=("ingress", *PLAN_STAGES, "scheduling", "assembly"), label="{work[side]}")
def trials(context: Context, work: Service, graphs: dict[str, dict[str, Ref]], warmup_share: float) -> Payload:
    """graphs: workload -> label -> Graph; those of batches that no side fills are read from the models."""
    store = Store(Path(context["store"]))
    target, settings = get_value(store, work["target"], Target), settings_from(work["settings"])
    workloads = {item["name"]: Workload.model_validate(item) for item in work["workloads"]}

    def graph_of(workload: Workload, label: str) -> Graph:
        if label in graphs[workload.name]:
            return get_value(store, graphs[workload.name][label], Graph)
        bucket, batch = bucket_and_batch(label)
        index = next(place for place, item in enumerate(workload.buckets) if item.name == bucket)
        path = Path(context["models"][workload.name])
        return read_graph(path, shapes_of(workload, index, batch), workload.name)

    def plan_of(workload: Workload, label: str, changed: Settings) -> Plan:
        known = work["plans"][workload.name]
        if changed == settings and label in known:
            return get_value(store, known[label], Plan)
        own = plan_settings(changed, label)
        return compile_plan(graph_of(workload, label), target, own, f"{workload.name} {label}", memo)

    def compile_all(changed: Settings, most: int) -> Plans:
        with in_turn:
            return {
                name: {label: plan_of(workload, label, changed) for label in _labels(workload, graphs[name], most)}
                for name, workload in workloads.items()
            }

    setting = setting_of(
        work["side"], tuple(workloads.values()), settings, target,
        [get_arrivals(store, ref) for ref in work["arrivals"]], work["seeds"], warmup_share,
    )  # fmt: skip
    table = put_frame(store, "trials", from_rows("trials", trial_rows(setting, compile_all)))
    return {"stage": "trials", "values": {"table:trials": table}, "facts": {}}


def _labels(workload: Workload, graphs: Mapping[str, object], most: int) -> list[str]:
    """Plans of a workload for batches of up to `most`."""
    last = [label_of(FALLBACK, 1)] if label_of(FALLBACK, 1) in graphs else []
    return [label_of(bucket.name, batch) for bucket in workload.buckets for batch in batch_sizes(most)] + last

"""Ingress: everything that the candidate file names is read, bound and checked, before a run exists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from accelmodel.fuse import require_splits
from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_graph
from accelmodel.target import Target
from flows.arrivals import Arrivals, replications
from flows.fit import require_same_iterations, require_streams, unused_no_kernel
from flows.inputs import LoadedCandidate, load_candidate, recorded_traffic
from flows.labels import FALLBACK, batch_sizes, bucket_and_batch, label_of, shapes_of
from flows.profiles import load_profile, profile_frame
from flows.replaying import bucket_size
from flows.stages import Context, Payload, naming, stage_task
from flows.store import Store
from flows.values import Ref, put_arrivals, put_frame, put_value
from schemas.candidate import Workload
from schemas.errors import DocumentError


@stage_task("ingress")
def ingress(context: Context, digest: str) -> Payload:
    """digest: of the candidate file and of all that it names.

    Values: `target`; `graph:WORKLOAD:BUCKET/BATCH`; `numeric:WORKLOAD:BATCH`, at the shapes of the numeric check;
    `arrivals:N` of each replication; `profile:SIDE:WORKLOAD`.
    """
    store, loaded = Store(Path(context["store"])), load_candidate(Path(context["candidate"]))
    recorded = recorded_traffic(loaded)
    if recorded is not None:
        require_streams(loaded.document, recorded.stream_names, str(loaded.path), {})
    arrivals = replications(loaded.document, recorded)
    most = max((int(each.iterations.max()) for each in arrivals if each.iterations is not None), default=1)
    unrun = require_same_iterations(loaded.document, most, str(loaded.path), {})
    values: dict[str, Ref] = {"target": put_value(store, loaded.target, Target)}
    graphs: list[Graph] = []
    for index, workload in enumerate(loaded.document.workloads):
        for label, graph in plan_graphs(loaded, index, arrivals):
            graphs.append(graph)
            values[f"graph:{workload.name}:{label}"] = put_value(store, graph, Graph)
        for batch in (1, 2) if workload.batch_dim is not None else (1,):
            graph = read_graph(loaded.models[workload.name], quality_shapes(workload, batch), workload.name)
            values[f"numeric:{workload.name}:{batch}"] = put_value(store, graph, Graph)
    for side in ("comparator", "candidate"):
        with naming(side):
            require_splits(loaded.settings(side).fusion, graphs)
    for number, each in enumerate(arrivals):
        values[f"arrivals:{number}"] = put_arrivals(store, each)
    for (side, name), path in loaded.profiles.items():
        values[f"profile:{side}:{name}"] = put_frame(store, "profile_kernels", read_profile(path, side, name))
    warnings = [
        *(recorded.warnings if recorded is not None else ()),
        *unused_no_kernel(loaded.document, graphs),
        *unrun,
    ]
    return {"stage": "ingress", "values": values, "facts": {"warnings": warnings}}


def plan_graphs(loaded: LoadedCandidate, number: int, arrivals: tuple[Arrivals, ...]) -> Iterator[tuple[str, Graph]]:
    """Label and graph of every plan of the workload at that place, for the batches of both sides."""
    workload = loaded.document.workloads[number]
    path = loaded.models[workload.name]
    sides = (loaded.document.comparator, loaded.document.candidate)
    batches = sorted({size for side in sides for size in batch_sizes(side.settings.scheduling.max_batch)})
    for index, bucket in enumerate(workload.buckets):
        for batch in batches:
            yield label_of(bucket.name, batch), read_graph(path, shapes_of(workload, index, batch), workload.name)
    if _uncovered(loaded, workload, number, arrivals):
        largest = max(range(len(workload.buckets)), key=lambda index: bucket_size(workload, index))
        yield label_of(FALLBACK, 1), read_graph(path, shapes_of(workload, largest, 1), workload.name)


def quality_shapes(workload: Workload, batch: int) -> dict[str, int]:
    """Shapes of the numeric check: its own where the candidate gives any, over those of the first bucket."""
    return {**shapes_of(workload, 0, batch), **workload.quality_shapes, **_batch(workload, batch)}


def _batch(workload: Workload, batch: int) -> dict[str, int]:
    return {} if workload.batch_dim is None else {workload.batch_dim: batch}


def _uncovered(loaded: LoadedCandidate, workload: Workload, index: int, arrivals: tuple[Arrivals, ...]) -> bool:
    """Whether any request of the workload fits no bucket under the rule of either side."""
    if workload.size_dim is None:
        return False
    sizes = {bucket_size(workload, number) for number in range(len(workload.buckets))}
    asked = np.unique(np.concatenate([each.size[each.workload == index] for each in arrivals]))
    exact = any(loaded.settings(side).ingress.bucket_rule == "exact" for side in ("comparator", "candidate"))
    return bool((asked > max(sizes)).any() or (exact and not np.isin(asked, list(sizes)).all()))


def read_profile(path: Path, side: str, workload: str) -> pl.DataFrame:
    """A measured profile of any known form. One without a kernel is no evidence, and is refused."""
    profile = load_profile(path)
    if not profile.kernels:
        raise DocumentError(
            source=str(path), where="profile", expected="at least one kernel",
            found=" ".join(profile.findings) or "none",
            remedy="Record it again with the device's activity on, or leave the profile out.",
        )  # fmt: skip
    return profile_frame(profile.rows, side, workload)


def graphs_of(payload: Payload, kind: str, workload: str) -> dict[str, Ref]:
    """References to the graphs of a workload; kind `graph`: by label, kind `numeric`: by batch."""
    prefix = f"{kind}:{workload}:"
    values = payload["values"].items()
    return {name.removeprefix(prefix): ref for name, ref in values if name.startswith(prefix)}


def needed(graphs: dict[str, Ref], most: int) -> dict[str, Ref]:
    """Those of the plans that a side with batches of up to `most` needs."""
    wanted = set(batch_sizes(most))
    return {label: ref for label, ref in graphs.items() if bucket_and_batch(label)[1] in wanted}


def profiles_of(payload: Payload) -> list[Ref]:
    """The measured profiles of both sides."""
    return [ref for name, ref in payload["values"].items() if name.startswith("profile:")]

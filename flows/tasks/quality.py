"""Numeric quality: the plan runs tile by tile and is compared with ONNX Runtime; results find their requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from accelmodel.compile import compile_plan
from accelmodel.graph import Graph
from accelmodel.plan import Plan
from accelmodel.settings import Settings
from accelmodel.target import Target
from flows.numerics import Subject, check_numerics
from flows.plan_rows import Row
from flows.stages import Context, Payload, Work, settings_of, stage_task
from flows.store import Store
from flows.tasks.ingress import quality_shapes
from flows.tasks.planning import memo
from flows.values import Ref, get_value, put_frame
from schemas.candidate import Workload
from schemas.tables import from_rows

Numbers = tuple[list[Row], int | None]
SETTINGS = ("lowering", "fusion", "tiling", "placement", "execution", "assembly")


_guard = Lock()
_running: dict[Hashable, Lock] = {}
_known: dict[Hashable, Numbers] = {}


@stage_task("quality", reads=SETTINGS, label="{work[workload]} {work[side]}")
def quality(
    context: Context, work: Work, workload: dict[str, object], graphs: dict[str, Ref], weights: list[str]
) -> Payload:
    """graphs: batch -> Graph at the shapes of the check. weights: digests of the model's files."""
    store = Store(Path(context["store"]))
    document = Workload.model_validate(workload)
    found = {int(batch): get_value(store, ref, Graph) for batch, ref in graphs.items()}
    target = get_value(store, work["target"], Target)
    model = Path(context["models"][document.name])
    rows, misdelivered = quality_of(work["side"], document, model, weights, found, target, settings_of(work))
    values = {"table:quality": put_frame(store, "quality", from_rows("quality", rows))}
    return {"stage": "quality", "values": values, "facts": {"misdelivered": misdelivered}}


def quality_of(
    side: str,
    workload: Workload,
    model: Path,
    weights: Sequence[str],
    graphs: Mapping[int, Graph],
    target: Target,
    settings: Settings,
) -> Numbers:
    """Rows of `quality`, and requests that got a result which is not theirs (None where nothing ran)."""
    plans = {
        batch: compile_plan(graph, target, settings, f"{workload.name} numeric/{batch}", memo)
        for batch, graph in graphs.items()
    }
    first = workload.buckets[0].shapes
    reduced = any(size < first.get(dim, size) for dim, size in workload.quality_shapes.items())
    subject = Subject(side, workload.name, model, plans, quality_shapes(workload, 1), workload.batch_dim, reduced)
    key = (tuple(weights), workload.name, reduced, settings.assembly.order, *map(_numbers_of, plans.values()))
    rows, misdelivered = _once(key, lambda: check_numerics(subject, settings.assembly.order))
    return [{**row, "side": side} for row in rows], misdelivered


def _numbers_of(plan: Plan) -> tuple[object, ...]:
    """What the numbers of a plan follow from: its ops, its groups, and how each is cut. No cost, no launch mode."""
    tiles = ((kernel.group.ops, kernel.tile_plan) for kernel in plan.kernels)
    cuts = tuple((ops, tile and (tile.tile, tile.loop_order, tile.k_tile)) for ops, tile in tiles)
    return plan.lowered.ops, tuple(sorted(plan.lowered.element_bytes.items())), cuts


def _once(key: Hashable, make: Callable[[], Numbers]) -> Numbers:
    """Sides and hybrids whose numbers are the same run them once in a process; a second thread waits for the first."""
    with _guard:
        lock = _running.setdefault(key, Lock())
    with lock:
        if key not in _known:
            _known[key] = make()
        return _known[key]

"""Numeric quality of one side's plan of one workload: run tile by tile, compared with ONNX Runtime, and batched.

Three requests (two where requests run one at a time) are run alone and compared with the reference; then they are run
in padded batches that complete out of order, and handed back by the side's assembly rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.assemble import BatchResult, assemble, check_assembly
from accelmodel.error_bound import error_bounds
from accelmodel.execute import Execution, execute
from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_weights
from accelmodel.importers.onnxruntime import NoReferenceError, run_reference
from accelmodel.plan import Plan
from accelmodel.quality import OutputError, compare, first_bad_group
from accelmodel.samples import seeded_inputs
from flows.plan_rows import Row

Array = npt.NDArray[Any]
REFERENCE = "ONNX Runtime, CPU, graph optimisation off"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is run. plans: by batch, 1 and, where requests are batched, 2. shapes: those of the numeric check, by
    symbolic dim. reduced: whether they are smaller than production's."""

    side: str
    workload: str
    model: Path
    plans: Mapping[int, Plan]
    shapes: Mapping[str, int]
    batch_dim: str | None
    reduced: bool


def check_numerics(subject: Subject, order: str) -> tuple[list[Row], int | None]:
    """Rows of the table `quality`, and how many requests got a result that is not theirs; None where nothing ran.

    order: the side's assembly rule.
    """
    alone = subject.plans[1]
    graph = alone.lowered.graph
    weights = read_weights(subject.model, _shapes(subject, 1))
    requests = [seeded_inputs(graph, seed) for seed in range(3 if 2 in subject.plans else 2)]
    runs = [execute(alone, weights, inputs) for inputs in requests]
    if not runs[0].executed:
        return [_not_run(subject, name, "; ".join(runs[0].skipped)) for name in graph.outputs], None
    bounds = error_bounds(alone.lowered)
    try:
        references = [run_reference(subject.model, inputs) for inputs in requests]
    except NoReferenceError as error:
        reason = f"no reference to compare with: {error.found}"
        return [_not_run(subject, name, reason) for name in graph.outputs], None
    rows = [_row(subject, name, requests, runs, references, bounds) for name in graph.outputs]
    return rows, _misdelivered(subject, order, weights, requests, runs, bounds)


def _row(
    subject: Subject,
    name: str,
    requests: Sequence[Mapping[str, Array]],
    runs: Sequence[Execution],
    references: Sequence[Mapping[str, Array]],
    bounds: Mapping[str, float],
) -> Row:
    """The worst of all samples for one output."""
    errors = [compare({name: run.outputs[name]}, reference, bounds)[0]
              for run, reference in zip(runs, references, strict=True)]  # fmt: skip
    at = max(range(len(errors)), key=lambda index: (not errors[index].passed, errors[index].relative_l2))
    worst, passed = errors[at], all(error.passed for error in errors)
    agreements = [error.top1_agreement for error in errors if error.top1_agreement is not None]
    return {
        **_common(subject, name), "executed": True, "reason": "; ".join((*runs[at].problems, *runs[at].notes)),
        "samples": len(errors), "max_abs_error": _finite(worst.max_abs),
        "max_relative_error": _finite(worst.max_relative), "relative_l2_error": _finite(worst.relative_l2),
        "cosine": _finite(worst.cosine), "top1_agreement": min(agreements) if agreements else None,
        "nonfinite": max(error.nonfinite for error in errors), "worst_index": _index(worst), "bound": worst.bound,
        "passed": passed, "reference": REFERENCE,
        "first_bad_group": None if passed else _first_bad(subject, requests[at], runs[at], bounds),
    }  # fmt: skip


def _first_bad(
    subject: Subject, inputs: Mapping[str, Array], run: Execution, bounds: Mapping[str, float]
) -> str | None:
    """The first group whose results are wrong; None too where the tensors inside the model have no reference."""
    inner = [name for outputs in run.groups.values() for name in outputs]
    try:
        return first_bad_group(run.groups, run_reference(subject.model, inputs, inner), bounds)
    except NoReferenceError:
        return None


def _misdelivered(
    subject: Subject,
    order: str,
    weights: Mapping[str, Array],
    requests: Sequence[Mapping[str, Array]],
    runs: Sequence[Execution],
    bounds: Mapping[str, float],
) -> int:
    """Requests whose result is missing or not their own, when the last request's batch completes first."""
    last = len(requests) - 1
    alone = {number: _batched(subject, run.outputs) for number, run in enumerate(runs)}
    if 2 in subject.plans:
        padded = _run_batch(subject, weights, requests, (last, last))
        batches = [BatchResult((last,), padded), BatchResult((0, 1), _run_batch(subject, weights, requests, (0, 1)))]
    else:
        batches = [BatchResult((number,), alone[number]) for number in reversed(range(len(requests)))]
    results = assemble(batches, order)
    return sum(bool(check_assembly(_only(results, number), {number: alone[number]}, bounds)) for number in alone)


def _run_batch(
    subject: Subject, weights: Mapping[str, Array], requests: Sequence[Mapping[str, Array]], members: tuple[int, int]
) -> Mapping[str, Array]:
    """Outputs of two requests run as one batch."""
    plan = subject.plans[2]
    axes = _batch_axes(subject, plan.lowered.graph)
    inputs = {
        name: requests[0][name] if axis is None
        else np.concatenate([requests[member][name] for member in members], axis=axis)
        for name, axis in axes.items()
    }  # fmt: skip
    values = {**weights, **read_weights(subject.model, _shapes(subject, 2))}
    return _batched(subject, execute(plan, values, inputs).outputs)


def _batch_axes(subject: Subject, batched: Graph) -> dict[str, int | None]:
    """The axis of each input that the batch dim fills: the one whose size differs between the two graphs."""
    single = subject.plans[1].lowered.graph
    axes: dict[str, int | None] = {}
    for name in batched.inputs:
        pairs = zip(single.tensors[name].shape, batched.tensors[name].shape, strict=True)
        axes[name] = next((axis for axis, (one, two) in enumerate(pairs) if one != two), None)
    return axes


def _batched(subject: Subject, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs that belong to requests one row each; others (a table of constants) belong to no request."""
    if 2 not in subject.plans:
        return {name: value[None] for name, value in outputs.items()}
    one, two = (subject.plans[batch].lowered.graph.tensors for batch in (1, 2))
    return {name: value for name, value in outputs.items()
            if one[name].shape[:1] == (1,) and two[name].shape[:1] == (2,)}  # fmt: skip


def _only(results: Mapping[int, dict[str, Array]], number: int) -> dict[int, dict[str, Array]]:
    return {number: results[number]} if number in results else {}


def _shapes(subject: Subject, batch: int) -> dict[str, int]:
    return {**subject.shapes, **({subject.batch_dim: batch} if subject.batch_dim else {})}


def _common(subject: Subject, name: str) -> Row:
    graph = subject.plans[1].lowered.graph
    shapes = "; ".join(f"{item} {' x '.join(map(str, graph.tensors[item].shape))}" for item in graph.inputs)
    return {
        "side": subject.side, "workload": subject.workload, "output": name, "shapes": shapes,
        "reduced": subject.reduced,
    }  # fmt: skip


def _not_run(subject: Subject, name: str, reason: str) -> Row:
    return {
        **_common(subject, name), "executed": False, "reason": reason, "samples": 0, "nonfinite": 0,
        "worst_index": "", "reference": "",
    }  # fmt: skip


def _index(error: OutputError) -> str:
    return ", ".join(map(str, error.worst_index))


def _finite(value: float) -> float | None:
    """A table holds no infinity: an infinite error is null, and the row did not pass."""
    return value if isfinite(value) else None

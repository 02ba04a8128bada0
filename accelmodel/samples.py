"""Inputs to run numerics on: seeded values that fit a graph, and smaller shapes where production's are too large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.graph import Graph, Tensor
from accelmodel.precision import FLOATS, store

# What NumPy works off in some ten seconds; larger models run on reduced shapes.
FLOPS_LIMIT = 2 * 10**11


def seeded_inputs(graph: Graph, seed: int) -> dict[str, npt.NDArray[Any]]:
    """A value for every input: floats normal, booleans even, integers valid as an index where they are one, else 0 or
    1. The same seed and graph give the same values; inputs do not depend on one another's order."""
    return {
        name: _value(graph, graph.tensors[name], np.random.default_rng([seed, *name.encode()])) for name in graph.inputs
    }


def _value(graph: Graph, tensor: Tensor, rng: np.random.Generator) -> npt.NDArray[Any]:
    if tensor.dtype in FLOATS:
        return store(rng.standard_normal(tensor.shape), tensor.dtype)
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(np.bool_)
    return store(rng.integers(0, _index_limit(graph, tensor.name), tensor.shape), tensor.dtype)


def _index_limit(graph: Graph, name: str) -> int:
    """Rows of the smallest table that is gathered from by this input; 2 where none is."""
    rows = [
        graph.tensors[op.inputs[0]].shape[_axis(op.attribute("axis", 0))]
        for op in graph.ops
        if op.op_type == "Gather" and op.inputs[1] == name
    ]
    return max(1, min(rows, default=2))


def _axis(value: object) -> int:
    assert isinstance(value, int)
    return value


def reduced_shapes(shapes: Mapping[str, int], flops: int, limit: int = FLOPS_LIMIT) -> dict[str, int]:
    """Smaller sizes of the symbolic dims, so that a model of `flops` at `shapes` takes at most about `limit`.

    The largest dim is halved, again and again, as if flops were proportional to each dim (attention, where they grow
    faster, only ends up smaller). Shapes that fit already, or dims that are all 1, come back as they are.
    """
    reduced, left = dict(shapes), float(flops)
    while left > limit and max(reduced.values(), default=1) > 1:
        largest = max(reduced, key=lambda name: (reduced[name], name))
        half = reduced[largest] // 2
        left *= half / reduced[largest]
        reduced[largest] = half
    return reduced

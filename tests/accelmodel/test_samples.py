"""Seeded inputs fit the graph; reduced shapes shrink only as far as they must."""

import numpy as np

from accelmodel.graph import Graph, Op, Tensor
from accelmodel.samples import reduced_shapes, seeded_inputs

TENSORS = (
    Tensor("ids", (2, 50), "int64", "input"), Tensor("mask", (2, 50), "bool", "input"),
    Tensor("x", (3, 4), "bfloat16", "input"), Tensor("flags", (40,), "int32", "input"),
    Tensor("table", (7, 5), "float32", "weight"), Tensor("y", (2, 50, 5), "float32", "output"),
)  # fmt: skip
GRAPH = Graph(
    "g", (Op("gather", "Gather", "", ("table", "ids"), ("y",)),), {t.name: t for t in TENSORS},
    ("ids", "mask", "x", "flags"), ("y",), 17, {},
)  # fmt: skip


def test_values_have_the_graphs_shapes_and_types_and_indices_are_valid() -> None:
    values = seeded_inputs(GRAPH, seed=1)
    assert {name: (value.shape, value.dtype.name) for name, value in values.items()} == {
        "ids": ((2, 50), "int64"), "mask": ((2, 50), "bool"), "x": ((3, 4), "bfloat16"), "flags": ((40,), "int32"),
    }  # fmt: skip
    assert set(values["ids"].ravel().tolist()) == set(range(7))
    assert set(values["flags"].tolist()) == {0, 1}
    assert set(values["mask"].ravel().tolist()) == {True, False}


def test_the_seed_decides_and_each_input_has_its_own_values() -> None:
    first, again, other = (seeded_inputs(GRAPH, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["ids"], other["ids"])


def test_shapes_are_halved_from_the_largest_until_the_flops_fit() -> None:
    assert reduced_shapes({"batch": 8, "sequence": 512}, flops=10**9, limit=10**9) == {"batch": 8, "sequence": 512}
    assert reduced_shapes({"batch": 8, "sequence": 512}, flops=4 * 10**9, limit=10**9) == {"batch": 8, "sequence": 128}
    assert reduced_shapes({"batch": 1}, flops=10**15) == {"batch": 1}
    assert reduced_shapes({}, flops=10**15) == {}

"""Bounds by hand from precision and reduction length, and that real rounding stays well within them."""

from math import sqrt

import numpy as np
import pytest

from accelmodel.error_bound import CONFIDENCE, UNIT_ROUNDOFF, error_bounds
from accelmodel.graph import Graph, Op, Tensor
from accelmodel.lower import lower
from accelmodel.plan import Lowered
from accelmodel.precision import load, numpy_type, rounded, storage_types, store
from accelmodel.settings import LoweringSettings
from tests.accelmodel.numeric_worlds import A100


def lowered(precision: str = "model", accumulator: str = "float32", k: int = 300) -> Lowered:
    """relu(x @ w), then a view of it."""
    tensors = (
        Tensor("x", (4, k), "float32", "input"), Tensor("w", (k, 6), "float32", "weight"),
        Tensor("m", (4, 6), "float32", "activation"), Tensor("r", (4, 6), "float32", "activation"),
        Tensor("y", (24,), "float32", "output"), Tensor("s", (1,), "int64", "weight"),
    )  # fmt: skip
    ops = (
        Op("matmul", "MatMul", "", ("x", "w"), ("m",)), Op("relu", "Relu", "", ("m",), ("r",)),
        Op("flat", "Reshape", "", ("r", "s"), ("y",)),
    )  # fmt: skip
    graph = Graph("g", ops, {t.name: t for t in tensors}, ("x",), ("y",), 17, {"s": (24,)})
    return lower(graph, LoweringSettings(precision=precision, accumulator=accumulator), A100)


def test_bounds_follow_the_formula_along_the_path() -> None:
    bounds = error_bounds(lowered("bfloat16"))
    narrow, wide = 2.0**-8, 2.0**-24
    product = (3 * narrow**2 + 300 * wide**2) / 3  # the result and two rounded operands; 300 terms
    reference = (1 * wide**2 + 300 * wide**2) / 3
    assert bounds["x"] == bounds["w"] == 0.0
    assert bounds["m"] == pytest.approx(CONFIDENCE * (sqrt(product) + sqrt(reference)))
    after = sqrt(product + (narrow**2 + narrow**2) / 3), sqrt(reference + (wide**2 + wide**2) / 3)
    assert bounds["r"] == pytest.approx(CONFIDENCE * sum(after))
    assert bounds["y"] == bounds["r"]  # a view rounds nothing


def test_a_longer_reduction_and_a_narrower_accumulator_allow_more() -> None:
    base = error_bounds(lowered("float16"))["m"]
    assert error_bounds(lowered("float16", "float16"))["m"] > 3 * base
    assert (
        error_bounds(lowered("float16", "float16", k=1200))["m"]
        > 1.8 * error_bounds(lowered("float16", "float16"))["m"]
    )


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_unit_roundoff_is_half_the_spacing_at_one(name: str) -> None:
    u = UNIT_ROUNDOFF[name]
    values = np.array([1 + 0.9 * u, 1 + 1.1 * u], dtype=np.float32)
    assert rounded(values, name).tolist() == [1.0, 1 + 2 * u]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_storing_a_tensor_costs_less_than_its_roundoff_in_the_mean(name: str) -> None:
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    error = np.linalg.norm(load(store(values, name), "float32") - values) / np.linalg.norm(values)
    assert 0.2 * UNIT_ROUNDOFF[name] < error < UNIT_ROUNDOFF[name] / sqrt(3) * 1.05


def test_eight_bit_floats_saturate_and_half_precision_overflows() -> None:
    big = np.array([1e6, -1e6], dtype=np.float32)
    assert load(store(big, "float8_e4m3fn"), "float32").tolist() == [448.0, -448.0]
    assert load(store(big, "float16"), "float32").tolist() == [np.inf, -np.inf]


def test_tensors_are_stored_at_the_sides_precision_and_integers_at_their_own() -> None:
    types = storage_types(lowered("bfloat16"))
    assert types == {"x": "bfloat16", "w": "bfloat16", "m": "bfloat16", "r": "bfloat16", "y": "bfloat16", "s": "int64"}
    assert set(storage_types(lowered()).values()) == {"float32", "int64"}
    assert numpy_type("bfloat16").itemsize == 2


def test_values_stored_wider_than_an_op_works_are_rounded_when_it_reads_them() -> None:
    value = np.array([1 + 2.0**-10], dtype=np.float32)
    assert load(value, "bfloat16").tolist() == [1.0]
    assert load(value, "float32") is value
    assert load(value, "float64").dtype == np.float64

"""Pitfalls: what makes measured figures prove nothing, and what does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flows.judge.pitfalls import (
    Numerics,
    mixed_conditions,
    synthetic_shapes,
    too_few_iterations,
    unproven_numerics,
    warm_up_included,
)
from schemas.candidate import Conditions

PRODUCTION = {"batch=1": 60.0, "batch=8": 35.0, "batch=64": 5.0}
CALM = Conditions(clock_mhz=1_000.0, temperature_c=50.0, power_w=300.0, throttling=False)


def test_measured_shapes_that_cover_production_are_no_pitfall() -> None:
    assert synthetic_shapes("block", PRODUCTION, {"batch=1", "batch=8"}) is None


def test_measured_shapes_that_production_hardly_sends_are_synthetic() -> None:
    found = synthetic_shapes("block", PRODUCTION, {"batch=64", "batch=128"})
    assert found is not None
    assert found.blocking
    assert found.value == pytest.approx(0.05)
    assert found.action == "Measure batch=1, batch=8 as well."


@pytest.mark.parametrize("production", [{}, {"batch=1": 0.0}])
def test_unknown_production_is_covered_by_nothing(production: dict[str, float]) -> None:
    found = synthetic_shapes("block", production, {"batch=1"})
    assert found is not None
    assert found.value == 0.0


def test_conditions_within_tolerance_are_not_mixed() -> None:
    near = CALM.model_copy(update={"clock_mhz": 1_009.0, "temperature_c": 54.0, "power_w": 305.0})
    assert mixed_conditions({"a": CALM, "b": near}) == ()
    assert mixed_conditions({"a": CALM}) == ()


@pytest.mark.parametrize(
    ("condition", "value"), [("clock_mhz", 900.0), ("temperature_c", 60.0), ("power_w", 200.0), ("throttling", True)]
)
def test_one_condition_that_differs_is_named(condition: str, value: object) -> None:
    (found,) = mixed_conditions({"a": CALM, "b": CALM, "c": CALM.model_copy(update={condition: value})})
    assert (found.field, found.blocking) == (condition, True)
    assert "for a" in found.text
    assert "for c" in found.text


HALF = Numerics({"gemm": "float16", "relu": "float16"}, {"gemm": "float32"})


def test_the_same_numerics_need_no_evidence() -> None:
    assert unproven_numerics(HALF, HALF, has_quality=False, has_fallback=False) == ()


@pytest.mark.parametrize(
    "changed",
    [replace(HALF, precisions={"gemm": "int8", "relu": "float16"}), replace(HALF, accumulators={"gemm": "float16"}),
     replace(HALF, sparsity="2:4")],
)  # fmt: skip
def test_changed_numerics_need_both_quality_and_fallback_evidence(changed: Numerics) -> None:
    found = unproven_numerics(HALF, changed, has_quality=False, has_fallback=False)
    assert [each.field for each in found] == ["quality", "fallback"]
    assert all(each.blocking and "→" in each.text for each in found)
    assert [each.field for each in unproven_numerics(HALF, changed, has_quality=True, has_fallback=False)] == [
        "fallback"
    ]
    assert unproven_numerics(HALF, changed, has_quality=True, has_fallback=True) == ()


def test_an_op_that_only_one_side_has_is_no_change_of_its_precision() -> None:
    assert unproven_numerics(HALF, Numerics({"fused": "int8"}), has_quality=False, has_fallback=False) == ()


def test_percentiles_without_enough_iterations_are_named_with_what_they_take() -> None:
    found = too_few_iterations(90, (0.5, 0.95, 0.99))
    assert [(each.field, each.limit, each.blocking) for each in found] == [("p99", 459.0, False)]


def test_a_profile_without_iterations_has_too_few_of_them() -> None:
    (found,) = too_few_iterations(None, (0.5,))
    assert found.value is None
    assert "marks no iterations" in found.text


def test_slow_first_iterations_are_warm_up() -> None:
    found = warm_up_included("block", [9_000, 3_000, 1_010, 990, 1_000, 1_005, 995, 1_002])
    assert found is not None
    assert found.value == 2.0
    assert "up to 8.99 times" in found.text


@pytest.mark.parametrize(
    "times",
    [[1_000] * 8, [1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 9_000], [1_040] + [1_000] * 7, [9_000, 1_000, 1_000]],
    ids=["steady", "a late outlier", "within 5 %", "too few to tell"],
)
def test_what_is_no_warm_up_is_not_called_one(times: list[int]) -> None:
    assert warm_up_included("block", times) is None


def test_noise_alone_is_seldom_called_warm_up() -> None:
    draws = np.random.default_rng(0).normal(1_000.0, 50.0, size=(500, 40))
    assert sum(warm_up_included("block", times) is not None for times in draws) <= 10

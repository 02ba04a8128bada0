"""Comparison with a reference: figures by hand, and the defects that the bounds must let through or catch."""

import numpy as np
import pytest

from accelmodel.errors import InputError
from accelmodel.quality import compare, compare_one, first_bad_group


def test_figures_of_a_small_table_by_hand() -> None:
    row = compare_one("y", np.array([[3.0, 4.5]]), np.array([[3.0, 4.0]]), bound=0.2)
    assert row.max_abs == 0.5
    assert row.relative_l2 == pytest.approx(0.5 / 5.0)
    assert row.max_relative == pytest.approx(0.5 / 4.0)  # 4 is above the rms of 3.54
    assert row.cosine == pytest.approx((9 + 18) / (5 * np.hypot(3, 4.5)))
    assert row.worst_index == (0, 1)
    assert row.top1_agreement == 1.0
    assert row.compared == 2 and row.nonfinite == 0 and row.passed


def test_an_error_on_a_tiny_element_is_measured_against_the_tensor() -> None:
    row = compare_one("y", np.array([1e-3, 2.0]), np.array([0.0, 2.0]), bound=0.01)
    assert row.max_relative == pytest.approx(1e-3 / np.sqrt(2))


def test_one_wrong_element_among_a_million_fails_though_the_norm_passes() -> None:
    reference = np.random.default_rng(0).standard_normal(1_000_000)
    ours = reference.copy()
    ours[123_456] += 1.0
    row = compare_one("y", ours, reference, bound=0.01)
    assert row.relative_l2 < row.bound and not row.passed
    assert row.worst_index == (123_456,)


def test_noise_within_the_bound_passes_elementwise_too() -> None:
    rng = np.random.default_rng(1)
    reference = rng.standard_normal(200_000)
    sigma = 0.01 / 4
    assert compare_one("y", reference * (1 + sigma * rng.standard_normal(200_000)), reference, bound=0.01).passed


def test_non_finite_elements_fail_unless_the_reference_has_them_too() -> None:
    reference = np.array([1.0, np.inf, np.nan, 2.0])
    assert compare_one("y", reference.copy(), reference, 1e-6).passed
    for wrong in ([np.nan, np.inf, np.nan, 2.0], [1.0, -np.inf, np.nan, 2.0], [1.0, 5.0, np.nan, 2.0]):
        row = compare_one("y", np.array(wrong), reference, 1e-6)
        assert row.nonfinite == 1 and not row.passed


def test_a_reference_with_nothing_finite_proves_nothing() -> None:
    nothing = np.array([np.nan, np.nan])
    row = compare_one("y", nothing, nothing, 1.0)
    assert row.compared == 0 and not row.passed and row.worst_index == ()


def test_zero_against_zero_is_equal_and_against_anything_else_is_not() -> None:
    zero = np.zeros(3)
    assert compare_one("y", zero, zero, 0.0).passed
    row = compare_one("y", np.ones(3), zero, 0.5)
    assert row.relative_l2 == np.inf and not row.passed


def test_integers_must_be_equal() -> None:
    assert compare_one("y", np.array([1, 2]), np.array([1, 2]), bound=0.5).passed
    assert not compare_one("y", np.array([1, 3]), np.array([1, 2]), bound=0.9).passed


def test_top1_counts_rows_and_takes_any_of_the_tied_classes() -> None:
    reference = np.array([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]])
    assert compare_one("y", np.array([[0.2, 0.8], [0.6, 0.4], [0.1, 0.9]]), reference, 1.0).top1_agreement == 2 / 3
    assert compare_one("y", np.zeros((2, 3, 4)), np.zeros((2, 3, 4)), 1.0).top1_agreement is None


def test_only_what_the_reference_has_is_compared_and_shapes_must_agree() -> None:
    rows = compare({"a": np.ones(2), "b": np.ones(2)}, {"b": np.ones(2)}, {"a": 0.1, "b": 0.1})
    assert [row.name for row in rows] == ["b"]
    with pytest.raises(InputError, match="reference's shape"):
        compare_one("y", np.ones(2), np.ones(3), 0.1)


def test_the_first_group_beyond_its_bound_is_named() -> None:
    reference = {"a": np.ones(4), "b": np.ones(4), "c": np.ones(4)}
    groups = {"g0": {"a": np.ones(4)}, "g1": {"b": np.ones(4) * 1.1, "x": np.ones(1)}, "g2": {"c": np.ones(4) * 2}}
    bounds = dict.fromkeys(reference, 0.01)
    assert first_bad_group(groups, reference, bounds) == "g1"
    assert first_bad_group({"g0": groups["g0"]}, reference, bounds) is None

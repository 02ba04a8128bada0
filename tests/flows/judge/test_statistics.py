"""Statistics against hand arithmetic, and their refusals."""

from __future__ import annotations

from math import exp, log, nan, sqrt

import numpy as np
import pytest

from flows.judge.statistics import (
    Change,
    Undecidable,
    difference,
    further_replications,
    half_width,
    holm,
    least_per_replication,
    minimum_samples,
    paired_change,
    unpaired_change,
)


def changed(comparator: list[float], candidate: list[float], **options: bool) -> Change:
    change = paired_change(
        np.array(comparator), np.array(candidate), confidence=0.95,
        lower_is_better=options.get("lower", True), zero_allowed=options.get("zero", False),
    )  # fmt: skip
    assert isinstance(change, Change), change
    return change


def test_interval_of_the_log_ratio_by_hand() -> None:
    # Ratios e^0.1, e^0.2, e^0.3, e^0.2: mean 0.2, s^2 = 0.02 / 3, error = s / 2, t(0.975, 3) = 3.182446.
    change = changed([10, 10, 10, 10], [10 * exp(0.1), 10 * exp(0.2), 10 * exp(0.3), 10 * exp(0.2)])
    half = 3.182446 * sqrt(0.02 / 3) / 2
    assert change.estimate == pytest.approx(exp(0.2) - 1)
    assert change.low == pytest.approx(exp(0.2 - half) - 1, rel=1e-6)
    assert change.high == pytest.approx(exp(0.2 + half) - 1, rel=1e-6)


def test_p_value_by_hand() -> None:
    # t = (0.2 - log 1.05) / (sqrt(0.02 / 3) / 2) = 3.7038 with 3 degrees of freedom: one-sided p = 0.01708.
    change = changed([10] * 4, [10 * exp(value) for value in (0.1, 0.2, 0.3, 0.2)])
    assert change.p_above(0.05) == pytest.approx(0.01708, abs=2e-5)


def test_interval_of_a_difference_by_hand() -> None:
    # Comparator mean 0.02; differences 0.01, 0, 0.01, 0.02 -> worsening 0.5, 0, 0.5, 1: mean 0.5, s^2 = 0.5 / 3.
    change = changed([0.0, 0.02, 0.03, 0.03], [0.01, 0.02, 0.04, 0.05], zero=True)
    half = 3.182446 * sqrt(0.5 / 3) / 2
    assert (change.scale, change.estimate) == ("linear", pytest.approx(0.5))
    assert (change.low, change.high) == (pytest.approx(0.5 - half, rel=1e-6), pytest.approx(0.5 + half, rel=1e-6))


def test_half_width_is_t_times_the_standard_error() -> None:
    assert half_width(1.0, 11, 0.95) == pytest.approx(2.228139, rel=1e-6)


def test_worsening_is_positive_in_the_direction_of_the_metric() -> None:
    slower = changed([100] * 4, [110] * 4)
    less = changed([100] * 4, [90] * 4, lower=False)
    assert (slower.estimate, less.estimate) == (pytest.approx(0.1), pytest.approx(0.1))
    assert less.low <= less.estimate <= less.high


def test_equal_values_have_no_width_and_no_harm() -> None:
    change = changed([3.0, 5.0, 7.0, 9.0], [3.0, 5.0, 7.0, 9.0])
    assert (change.low, change.high, change.p_above(0.0)) == (0.0, 0.0, 1.0)


def test_pairing_takes_out_what_replications_share() -> None:
    shared = np.array([1.0, 3.0, 9.0, 27.0])
    paired = changed(list(shared), list(shared * 1.02))
    apart = unpaired_change(shared, shared[::-1] * 1.02, confidence=0.95)
    assert isinstance(apart, Change)
    assert paired.high < 0.021 < apart.high


def test_welch_by_hand() -> None:
    # Logs 0, 2 against 1, 5: means 1 and 3, errors 1 and 2, variance 5, df = 25 / (1 + 16) = 1.47 -> 2 samples.
    change = unpaired_change(np.exp([0.0, 2.0]), np.exp([1.0, 5.0]), confidence=0.95)
    assert isinstance(change, Change)
    assert (change.centre, change.error, change.samples) == (pytest.approx(2), pytest.approx(sqrt(5)), 2)


@pytest.mark.parametrize(
    ("comparator", "candidate", "words"),
    [
        ([], [], "0 replications"),
        ([1, 2, 3], [1, 2, 3], "3 replications"),
        ([1, 2, 3, 4], [1, 2, 3], "cannot be paired"),
        ([nan] * 4, [nan] * 4, "8 of 8 values are no finite numbers"),
        ([1, 2, 3, 4], [1, nan, 3, 4], "1 of 8"),
        ([0, 0, 0, 0], [1, 1, 1, 1], "zero"),
        ([-1, 1, 1, 1], [1, 1, 1, 1], "negative"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(
    comparator: list[float], candidate: list[float], words: str
) -> None:
    refused = paired_change(
        np.array(comparator, dtype=float), np.array(candidate, dtype=float),
        lower_is_better=True, confidence=0.95, zero_allowed=False,
    )  # fmt: skip
    assert isinstance(refused, Undecidable)
    assert words in refused.reason


def test_difference_stands_where_the_comparator_is_zero() -> None:
    change = difference(np.zeros(4), np.array([1.0, 2.0, 3.0, 2.0]), lower_is_better=True, confidence=0.95)
    assert isinstance(change, Change)
    assert change.estimate == 2.0


def test_holm_by_hand() -> None:
    # alpha 0.05 over four: 0.01 <= 0.05 / 4, 0.013 <= 0.05 / 3, 0.03 > 0.05 / 2: the rest stand.
    assert holm([0.03, 0.01, 0.04, 0.013], 0.05) == (False, True, False, True)
    assert holm([0.02, 0.02], 0.05) == (True, True)
    assert holm([0.026, 0.04], 0.05) == (False, False)
    assert holm([], 0.05) == ()


def test_holm_rejects_nothing_that_is_no_number() -> None:
    assert holm([nan, 0.5], 0.05) == (False, False)


@pytest.mark.parametrize(("quantile", "samples", "each"), [(0.99, 459, 100), (0.95, 90, 20), (0.5, 7, 2)])
def test_floor_of_samples_per_percentile(quantile: float, samples: int, each: int) -> None:
    assert minimum_samples(quantile) == samples
    assert 1 - quantile**samples >= 0.99 > 1 - quantile ** (samples - 1)
    assert least_per_replication(quantile) == each


def test_further_replications_would_decide_it() -> None:
    rng = np.random.default_rng(3)
    worse = np.exp(0.03 + 0.05 * rng.standard_normal(8))
    change = changed([1.0] * 8, list(worse))
    further = further_replications(change, 0.05, 0.95)
    assert change.high > 0.05
    assert further is not None and further > 0
    spread = change.error * sqrt(8)
    assert half_width(spread / sqrt(8 + further), 8 + further, 0.95) <= abs(change.centre - log(1.05))


def test_no_number_of_replications_decides_what_lies_on_the_margin() -> None:
    change = Change(0.05, 0.0, 0.1, "linear", 0.05, 0.01, 8, True)
    assert further_replications(change, 0.05, 0.95) is None


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(2000):
        base = np.exp(0.3 * rng.standard_normal(8))
        change = changed(list(base), list(base * np.exp(0.04 + 0.1 * rng.standard_normal(8))))
        hits += change.low <= exp(0.04) - 1 <= change.high
    assert 0.94 <= hits / 2000 <= 0.96

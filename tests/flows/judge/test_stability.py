"""The comparator against itself."""

from __future__ import annotations

import numpy as np
import pytest

from flows.judge.facts import OVERALL
from flows.judge.stability import unstable_checks
from tests.flows.judge.worlds import policy, side, with_values


def test_quiet_comparator_is_stable_by_halves_and_against_itself() -> None:
    assert unstable_checks(policy(), side()) == ()
    assert unstable_checks(policy(), side(), side()) == ()


def test_comparator_whose_halves_differ_is_unstable() -> None:
    drifting = with_values(side(), latency_p99_us=[300, 400, 301, 402, 299, 398, 300, 401])
    (found,) = unstable_checks(policy(), drifting)
    assert found.check == "p99"
    assert "worse than the other half" in found.text


def test_halves_of_noisy_traffic_are_not_called_unstable() -> None:
    alarms = sum(bool(unstable_checks(policy(), side(seed, spread=0.2))) for seed in range(300))
    assert alarms <= 6


@pytest.mark.parametrize("factor", [1.2, 1 / 1.2])
def test_second_run_that_differs_either_way_is_unstable(factor: float) -> None:
    (found,) = unstable_checks(policy(), side(), side(scale={"latency_p99_us": factor}))
    assert "run again is fail" in found.text


def test_second_run_that_only_may_be_equal_is_unstable() -> None:
    noise = np.exp([0.2, -0.2, 0.15, -0.1, 0.1, -0.2, 0.1, -0.05])
    again = with_values(side(), latency_p99_us=side()["latency_p99_us", OVERALL] * noise)
    (found,) = unstable_checks(policy(), side(), again)
    assert "run again is undecided" in found.text

"""Capacity against what queueing theory and arithmetic say it is."""

import math

import numpy as np
import pytest

from accelmodel.capacity import Capacity, capacity
from accelmodel.errors import InputError
from accelmodel.replay import Replayed, replay
from accelmodel.settings import Settings
from tests.accelmodel.worlds import US, bucket, program, requests, settings, target

ONE = [bucket(program([{"compute": US}]))]


def capacity_of(gaps: np.ndarray, chosen: Settings, sla_us: float, scale: np.ndarray | None = None) -> Capacity:
    arrivals = np.cumsum(gaps)

    def at(factor: float) -> tuple[Replayed]:
        return (replay(requests((arrivals / factor).astype(np.int64)), ONE, target(), chosen, 0, scale),)

    return capacity(at, sla_us, warmup_share=0.0)


def test_even_arrivals_hold_any_target_above_the_service_up_to_its_rate() -> None:
    found = capacity_of(np.full(400, 10 * US), settings(), sla_us=1.5)
    assert found.stable_rate_per_s == pytest.approx(1e6, rel=0.012)
    assert found.sla_rate_per_s == found.stable_rate_per_s
    assert found.sla_rate_per_s < 1e6


def test_the_rate_of_m_m_1_at_which_p99_meets_the_target() -> None:
    """P(sojourn > t) = exp(-(1 - load) t): p99 = 10 services at load 1 - ln(100) / 10 = 0.539."""
    random = np.random.default_rng(4)
    gaps, scale = random.exponential(2 * US, 200_000), random.exponential(1.0, 200_000)
    found = capacity_of(gaps, settings(), 10.0, scale)
    assert found.sla_rate_per_s == pytest.approx(1e6 * (1 - math.log(100) / 10), rel=0.03)
    assert found.stable_rate_per_s == pytest.approx(1e6, rel=0.03)
    assert found.knee_per_s == pytest.approx(0.5e6, rel=0.2)  # most power of M/M/1 is at half load


def test_beyond_capacity_there_is_a_utilisation_and_no_percentile() -> None:
    found = capacity_of(np.full(400, 10 * US), settings(), sla_us=1.5)
    beyond = [trial for trial in found.trials if trial.unstable]
    assert beyond and all(trial.quantiles_ps == (None, None, None) for trial in beyond)
    assert all(trial.utilisation >= 1.0 for trial in beyond)
    rates = [trial.rate_per_s for trial in found.trials]
    assert rates == sorted(rates) and len(set(rates)) == len(rates)


def test_a_target_below_the_service_holds_at_no_rate() -> None:
    found = capacity_of(np.full(100, 10 * US), settings(), sla_us=0.5)
    assert found.sla_rate_per_s is None
    assert found.stable_rate_per_s is not None


def test_rejected_requests_miss_the_target() -> None:
    random = np.random.default_rng(5)
    gaps = random.exponential(2 * US, 20_000)
    strict, patient = (capacity_of(gaps, settings(admit=limit), 10.0) for limit in (1, 0))
    assert strict.sla_rate_per_s is not None and patient.sla_rate_per_s is not None
    assert strict.sla_rate_per_s < 0.5 * patient.sla_rate_per_s


def test_arrivals_without_a_rate_have_no_capacity() -> None:
    with pytest.raises(InputError, match="all at one instant"):
        capacity_of(np.zeros(5), settings(), 1.0)

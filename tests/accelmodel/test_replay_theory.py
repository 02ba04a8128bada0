"""Replay against queueing theory: means within five standard errors, which come from the run's own batch means.

Service times are exponential through `service_scale`; one unit of service is a microsecond.
"""

import math

import numpy as np
import pytest

from accelmodel.replay import Replayed, replay
from tests.accelmodel.worlds import US, bucket, program, requests, settings, target

COUNT = 300_000
WARM_UP = 20_000


def poisson(rate: float, seed: int, count: int = COUNT) -> np.ndarray:
    """Arrival instants, ps; `rate` per unit of service."""
    return np.cumsum(np.random.default_rng(seed).exponential(US / rate, count)).astype(np.int64)


def exponential(seed: int, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng([seed, 1]).exponential(1.0, count)


def mean_and_error(values: np.ndarray, batches: int = 40) -> tuple[float, float]:
    """Mean after warm-up and its standard error from batch means, which respects the dependence in a queue."""
    means = np.array([part.mean() for part in np.array_split(values[WARM_UP:], batches)])
    return float(means.mean()), float(means.std(ddof=1) / math.sqrt(batches))


def wait(result: Replayed) -> np.ndarray:
    return (result.start_ps - result.arrival_ps) / US


def agrees(values: np.ndarray, expected: float) -> bool:
    mean, error = mean_and_error(values)
    assert error < 0.15 * expected, "the run is too short to say anything"
    return abs(mean - expected) < 5 * error


ONE_UNIT = program([{"compute": US}])


def erlang_c(servers: int, load: float) -> float:
    """Probability of waiting in M/M/c; load = arrival rate / service rate."""
    tail = load**servers / math.factorial(servers) * servers / (servers - load)
    return tail / (sum(load**n / math.factorial(n) for n in range(servers)) + tail)


@pytest.mark.parametrize(("servers", "utilisation"), [(1, 0.7), (4, 0.8), (8, 0.8)])
def test_waits_of_m_m_c_follow_erlang(servers: int, utilisation: float) -> None:
    load = servers * utilisation
    arrivals = requests(poisson(load, seed=servers))
    result = replay(arrivals, [bucket(ONE_UNIT)], target(slots=servers), settings(), 0, exponential(servers))
    p_wait = erlang_c(servers, load)
    assert agrees((wait(result) > 0).astype(float), p_wait)
    assert agrees(wait(result), p_wait / (servers - load))
    p95 = math.log(p_wait / 0.05) / (servers - load)
    assert agrees((wait(result) > p95).astype(float), 0.05)
    assert result.utilisation == pytest.approx(utilisation, rel=0.02)
    assert not result.unstable


def test_m_d_1_waits_half_as_long_as_m_m_1() -> None:
    result = replay(requests(poisson(0.7, seed=5)), [bucket(ONE_UNIT)], target(), settings(), 0)
    assert agrees(wait(result), 0.7 / (2 * (1 - 0.7)))  # Pollaczek and Khinchine


def test_lognormal_noise_gives_the_wait_of_m_g_1() -> None:
    result = replay(requests(poisson(0.6, seed=6)), [bucket(ONE_UNIT)], target(), settings(noise=0.8), 11)
    assert agrees(wait(result), 0.6 * (1 + 0.8**2) / (2 * (1 - 0.6)))


def test_bulk_service_takes_up_to_four_at_once() -> None:
    """M/M(1,4)/1 at 3.2 arrivals a service: with r the root of r + r^2 + r^3 + r^4 = 3.2 below 1, the wait is
    geometric in the number that waits (Chaudhry and Templeton 1983); mean 3.18062."""
    programs = bucket(*(program([{"compute": US}], batch=size) for size in (1, 2, 4)))
    arrivals = requests(poisson(3.2, seed=7))
    result = replay(arrivals, [programs], target(), settings(batch=4), 0, exponential(7))
    assert agrees(wait(result), 3.18062)


@pytest.mark.parametrize("cv", [0.0, 1.0])
def test_sharing_bandwidth_is_processor_sharing_whose_mean_knows_only_the_mean_size(cv: float) -> None:
    """Kernels that each want all of DRAM: M/G/1-PS, mean sojourn 1 / (1 - load) whatever the size distribution."""
    streaming = [bucket(program([{"memory": US, "bytes": US}]))]
    sizes = [streaming[0]]
    which = None
    if cv:  # two sizes, 0.5 and 3 units, mean 1: probability 0.8 and 0.2
        sizes = [bucket(program([{"memory": size, "bytes": size}])) for size in (US // 2, 3 * US)]
        which = (np.random.default_rng(8).random(COUNT) < 0.2).astype(np.int32)
    result = replay(requests(poisson(0.5, seed=8), which), sizes, target(slots=40), settings(), 0)
    assert not result.driver("queueing").any()
    assert agrees(result.latency_ps / US, 1 / (1 - 0.5))


def test_a_shared_queue_waits_less_than_own_queues() -> None:
    arrivals = requests(poisson(3.2, seed=9))
    means = {}
    for policy in ("least_loaded", "join_shortest_queue", "round_robin"):
        result = replay(arrivals, [bucket(ONE_UNIT)], target(slots=4), settings(policy=policy), 0, exponential(9))
        means[policy] = wait(result).mean()
        assert bool(result.driver("imbalance").any()) == (policy != "least_loaded")
    assert means["least_loaded"] < means["join_shortest_queue"] < means["round_robin"]

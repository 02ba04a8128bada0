"""Replay against queueing theory: means within five standard errors, which come from the run's own batch means.

Service times are exponential through `service_scale`; one unit of service is a microsecond.
"""

from dataclasses import replace

import numpy as np
import pytest

from accelmodel.replay import Replayed, replay
from tests.accelmodel import queueing
from tests.accelmodel.worlds import US, bucket, program, requests, settings, target

COUNT = 300_000
WARM_UP = 20_000


def poisson(rate: float, seed: int, count: int = COUNT) -> np.ndarray:
    """Arrival instants, ps; `rate` per unit of service."""
    return np.cumsum(np.random.default_rng(seed).exponential(US / rate, count)).astype(np.int64)


def exponential(seed: int, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng([seed, 1]).exponential(1.0, count)


def wait(result: Replayed) -> np.ndarray:
    return (result.start_ps - result.arrival_ps) / US


def agrees(values: np.ndarray, expected: float) -> bool:
    mean, error = queueing.mean_and_error(values, WARM_UP)
    assert error < 0.15 * expected, "the run is too short to say anything"
    return abs(mean - expected) < 5 * error


ONE_UNIT = program([{"compute": US}])


@pytest.mark.parametrize("by_events", [False, True], ids=["recursion", "events"])
@pytest.mark.parametrize(("servers", "utilisation"), [(1, 0.7), (4, 0.8), (8, 0.8)])
def test_waits_of_m_m_c_follow_erlang(servers: int, utilisation: float, by_events: bool) -> None:
    load, count = servers * utilisation, COUNT if servers < 8 else 1_000_000
    arrivals = requests(poisson(load, servers, count))
    chosen = settings(admit=10**9 if by_events else 0)
    result = replay(arrivals, [bucket(ONE_UNIT)], target(slots=servers), chosen, 0, exponential(servers, count))
    expected = queueing.m_m_c_wait(servers, load)
    assert agrees((wait(result) > 0).astype(float), expected[0])
    assert agrees(wait(result), queueing.mean(expected))
    assert agrees((wait(result) > queueing.quantile(expected, 0.95)).astype(float), 0.05)
    assert agrees((wait(result) > queueing.quantile(expected, 0.99)).astype(float), 0.01)
    assert result.utilisation == pytest.approx(utilisation, rel=0.02)
    assert not result.unstable


def test_the_closed_forms_give_the_published_figures() -> None:
    m_m_4, bulk = queueing.m_m_c_wait(4, 3.2), queueing.bulk_wait(3.2, 4)
    assert m_m_4[0] == pytest.approx(0.596432, abs=1e-6)
    assert queueing.mean(m_m_4) == pytest.approx(0.745541, abs=1e-6)
    assert queueing.quantile(m_m_4, 0.99) == pytest.approx(5.1105, abs=1e-4)
    assert queueing.mean(bulk) == pytest.approx(3.18062, abs=1e-5)
    assert queueing.quantile(bulk, 0.99) == pytest.approx(14.9589, abs=1e-4)


def test_m_d_1_waits_half_as_long_as_m_m_1() -> None:
    result = replay(requests(poisson(0.7, seed=5)), [bucket(ONE_UNIT)], target(), settings(), 0)
    assert agrees(wait(result), queueing.m_g_1_wait(0.7, 1.0))
    for time in (1.0, 3.5):
        assert agrees((wait(result) > time).astype(float), queueing.m_d_1_exceeds(0.7, time))


def test_lognormal_noise_gives_the_wait_of_m_g_1() -> None:
    result = replay(requests(poisson(0.6, seed=6)), [bucket(ONE_UNIT)], target(), settings(noise=0.8), 11)
    assert agrees(wait(result), queueing.m_g_1_wait(0.6, 1 + 0.8**2))


def test_bulk_service_takes_up_to_four_at_once() -> None:
    """M/M(1,4)/1 at 3.2 arrivals a service."""
    programs = bucket(*(program([{"compute": US}], batch=size) for size in (1, 2, 4)))
    count = 1_500_000  # the queue forgets slowly
    arrivals = requests(poisson(3.2, 7, count))
    result = replay(arrivals, [programs], target(), settings(batch=4), 0, exponential(7, count))
    expected = queueing.bulk_wait(3.2, 4)
    assert agrees((wait(result) > 0).astype(float), expected[0])
    assert agrees(wait(result), queueing.mean(expected))
    assert agrees((wait(result) > queueing.quantile(expected, 0.99)).astype(float), 0.01)


def test_two_classes_with_priority_wait_as_cobham_says_and_conserve_work() -> None:
    rates = (0.3, 0.4)
    classes = (np.random.default_rng(12).random(COUNT) < rates[1] / sum(rates)).astype(np.int32)
    arrivals = replace(requests(poisson(sum(rates), seed=12)), stream=classes, streams=("urgent", "batch"))
    chosen = settings(queue="priority", priority={"batch": 1})
    result = replay(arrivals, [bucket(ONE_UNIT)], target(), chosen, 0, exponential(12))
    waits = [wait(result) * (classes == which) * sum(rates) / rates[which] for which in (0, 1)]
    for which, expected in enumerate(queueing.cobham_waits(rates, 2.0)):
        assert agrees(waits[which], expected)
    weighed = sum(rate * values for rate, values in zip(rates, waits, strict=True))
    assert agrees(weighed, sum(rates) * queueing.m_g_1_wait(sum(rates), 2.0))  # Kleinrock's conservation law


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

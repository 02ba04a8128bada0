"""Bottleneck class of a finding."""

from __future__ import annotations

import pytest

from flows.judge.bottleneck import CLASS_OF_DRIVER, DRIVERS, classify, driver_growth
from flows.judge.facts import OVERALL
from schemas.tables import from_rows
from tests.flows.judge.test_metrics import US, request
from tests.flows.judge.worlds import side


def test_every_driver_has_a_class() -> None:
    assert set(CLASS_OF_DRIVER) == set(DRIVERS)


def test_growth_is_taken_over_the_slowest_twentieth() -> None:
    rows = [request(0, number, 10, side="comparator") for number in range(40)]
    rows += [request(0, number, 10) for number in range(38)]
    # Two slow requests, 100 us in contention each: the slowest 5 % of 40.
    slow = {"latency_ps": 110 * US, "contention_ps": 100 * US}
    rows += [request(0, number, 10, **slow, completion_ps=(number + 110) * US) for number in (38, 39)]
    growth = driver_growth(from_rows("requests", rows), OVERALL)
    assert growth["contention"] == pytest.approx(100)
    assert (growth["queueing"], growth["compute"]) == (0, 0)


def test_no_growth_is_known_of_a_side_without_requests() -> None:
    assert driver_growth(from_rows("requests", [request(0, 0, 10)]), OVERALL) == {}


def grown(**microseconds: float) -> dict[str, float]:
    return {**dict.fromkeys(DRIVERS, 0.0), **microseconds}


@pytest.mark.parametrize(("driver", "bottleneck"), CLASS_OF_DRIVER.items())
def test_driver_that_grew_names_the_class(driver: str, bottleneck: str) -> None:
    assert classify("latency_p99_us", OVERALL, grown(**{driver: 5.0}), side(), side()) == bottleneck  # type: ignore[arg-type]


def test_queue_that_grows_because_service_does_is_not_the_cause() -> None:
    growth = grown(queueing=50.0, contention=20.0)
    assert classify("latency_p99_us", OVERALL, growth, side(), side()) == "dram"  # type: ignore[arg-type]
    alone = grown(queueing=50.0, contention=0.1)
    assert classify("latency_p99_us", OVERALL, alone, side(), side()) == "queue"  # type: ignore[arg-type]


def test_memory_time_is_spill_where_spill_explains_the_traffic() -> None:
    growth = grown(contention=20.0)
    spilling = side(replace={"dram_bytes": 1.5e6, "spill_bytes": 4e5})
    assert classify("latency_p95_us", OVERALL, growth, side(), spilling) == "spill"  # type: ignore[arg-type]
    little = side(replace={"dram_bytes": 1.5e6, "spill_bytes": 1e5})
    assert classify("latency_p95_us", OVERALL, growth, side(), little) == "dram"  # type: ignore[arg-type]
    assert classify("latency_p95_us", OVERALL, growth, {}, {}) == "dram"  # type: ignore[arg-type]


def test_metric_that_says_it_itself_needs_no_drivers() -> None:
    assert classify("launch_overhead_reduction", OVERALL, {}, side(), side()) == "launch"
    assert classify("fallback_op_share", OVERALL, {}, side(), side()) == "fallback"


def test_nothing_is_said_where_nothing_shows_it() -> None:
    assert classify("quality_failed_outputs", "block", grown(compute=5.0), side(), side()) is None  # type: ignore[arg-type]
    assert classify("latency_p99_us", OVERALL, {}, side(), side()) is None

"""Rollback criteria and their rehearsal, on two sides served on the same arrivals."""

from __future__ import annotations

import numpy as np
import pytest

from flows.judge.checks import evaluate
from flows.judge.rollback import Served, criteria, rehearse, served, windows
from schemas.policy import Check, Policy, Rollback
from schemas.tables import from_rows
from tests.flows.judge.test_metrics import US, request
from tests.flows.judge.worlds import P99, QUALITY, side

GAP_PS = 1000 * US  # one request a millisecond
COUNT = 2000


def line(latency_us: object, count: int = COUNT) -> Served:
    """Requests a millisecond apart with the given latencies."""
    latency = np.broadcast_to(np.asarray(latency_us, dtype=np.float64), (count,)).copy()
    arrival = np.arange(count, dtype=np.int64) * GAP_PS
    done = arrival + np.where(np.isfinite(latency), latency * US, 0).astype(np.int64)
    order = np.argsort(done, kind="stable")
    return Served(arrival[order], done[order], latency[order], np.zeros(count, dtype=bool))


def rules(**rollback: float) -> Policy:
    settings = Rollback(**{"window_s": 1.0, "min_samples": 200, "tolerance": 0.05, **rollback})  # type: ignore[arg-type]
    tail = Check(id="p95", metric="latency_p95_us", margin=0.05)
    return Policy(checks=(P99, tail, QUALITY), rollback=settings)


GOOD = evaluate(rules(), side(), side())
FAILED = evaluate(rules(), side(), side(scale={"latency_p99_us": 2.0}))


def test_windows_hold_the_last_finished_requests_within_the_time() -> None:
    ramp = line(np.arange(COUNT) / 1000)
    ends, values = windows(ramp, "latency_mean_us", 1.0, 200)
    assert (int(ends[0]), values[0]) == (199, pytest.approx(0.0995))
    assert len(windows(ramp, "latency_mean_us", 0.1, 200)[0]) == 0
    assert len(windows(line(1.0, count=199), "latency_mean_us", 1.0, 200)[0]) == 0


def test_criteria_of_a_failure_come_from_the_failed_check() -> None:
    (criterion,) = criteria(rules(), FAILED, line(100.0))
    assert (criterion.id, criterion.metric, criterion.unit) == ("rollback-p99", "latency_p99_us", "us")
    assert criterion.threshold == pytest.approx(105)
    assert "last 200 finished requests" in criterion.text and "105 µs" in criterion.text


def test_criteria_of_a_good_candidate_come_from_the_tail_checks() -> None:
    assert [item.id for item in criteria(rules(), GOOD, line(100.0))] == ["rollback-p99", "rollback-p95"]


def test_failure_that_no_runtime_can_see_leaves_the_tail_checks() -> None:
    broken = evaluate(rules(), side(), side(replace={"quality_failed_outputs": 1.0}))
    assert [item.metric for item in criteria(rules(), broken, line(100.0))] == ["latency_p99_us", "latency_p95_us"]


def test_threshold_rests_on_the_comparators_worst_window() -> None:
    burst = np.full(COUNT, 100.0)
    burst[500:520] = 400.0
    (criterion,) = criteria(rules(), FAILED, line(burst))
    assert criterion.threshold == pytest.approx(420)


def test_limit_of_an_absolute_check_is_the_threshold() -> None:
    rejected = Check(id="rejected", metric="rejected_share", limit=0.01)
    policy = rules().model_copy(update={"checks": (P99, rejected, QUALITY)})
    results = evaluate(policy, side(), side(replace={"rejected_share": [0.02] * 8}))
    (criterion,) = criteria(policy, results, line(100.0))
    assert (criterion.metric, criterion.threshold) == ("rejected_share", 0.01)


def test_windows_that_never_fill_give_no_criterion_and_no_drill() -> None:
    made = criteria(rules(min_samples=5000), GOOD, line(100.0))
    assert made == ()
    assert rehearse(made, line(100.0), line(100.0), failed=False) is None


def test_drill_of_a_failing_candidate_fires_and_recovers() -> None:
    slow = np.full(COUNT, 100.0)
    slow[600:] = 200.0
    drill = rehearse(criteria(rules(), FAILED, line(100.0)), line(100.0), line(slow), failed=True)
    assert drill is not None and drill.passed and drill.recovered
    # 1 % of a window of 200 are 2 requests; windows start 10 requests apart: seen by request 609.
    assert drill.detection_s == pytest.approx(0.609, abs=0.011)
    assert "fault" not in drill.text


def test_drill_of_a_good_candidate_injects_a_stated_fault() -> None:
    drill = rehearse(criteria(rules(), GOOD, line(100.0)), line(100.0), line(100.0), failed=False)
    assert drill is not None and drill.passed
    assert "with an injected fault (latencies x 2.1)" in drill.text


def test_candidate_that_is_far_better_gets_a_fault_that_shows() -> None:
    drill = rehearse(criteria(rules(), GOOD, line(100.0)), line(100.0), line(10.0), failed=False)
    assert drill is not None and drill.passed
    assert "latencies x 21)" in drill.text


def test_drill_fails_where_the_criterion_does_not_see_the_failure() -> None:
    drill = rehearse(criteria(rules(), FAILED, line(100.0)), line(100.0), line(101.0), failed=True)
    assert drill is not None and not drill.passed
    assert (drill.detection_s, drill.recovered) == (None, False)
    assert "no criterion fired" in drill.text


def test_drill_fails_where_the_comparator_does_not_recover() -> None:
    made = criteria(rules(), FAILED, line(100.0))
    drill = rehearse(made, line(150.0), line(200.0), failed=True)
    assert drill is not None and not drill.passed
    assert drill.detection_s is not None and not drill.recovered
    assert "still fires in the last window" in drill.text


def test_traffic_starts_over_where_the_failure_shows_late() -> None:
    slow = np.full(COUNT, 100.0)
    slow[1900:] = 200.0
    drill = rehearse(criteria(rules(), FAILED, line(100.0)), line(100.0), line(slow), failed=True)
    assert drill is not None and drill.passed
    assert "the traffic started over" in drill.text


def test_rejected_requests_are_later_than_any_threshold() -> None:
    turned_away = np.full(COUNT, 100.0)
    turned_away[::20] = np.inf
    drill = rehearse(criteria(rules(), FAILED, line(100.0)), line(100.0), line(turned_away), failed=True)
    assert drill is not None and drill.passed


def test_replications_are_put_one_after_the_other_alike_on_both_sides() -> None:
    rows = [
        request(number // 3, number % 3, 10, side=name) for name in ("comparator", "candidate") for number in range(6)
    ]
    rows.append(request(1, 3, None))
    frame = from_rows("requests", rows)
    stable, new = served(frame, "comparator"), served(frame, "candidate")
    assert np.all(np.diff(stable.done_ps) >= 0)
    assert (len(stable), len(new)) == (6, 7)
    assert set(stable.arrival_ps) < set(new.arrival_ps)
    assert int(np.isinf(new.latency_us).sum()) == 1
    assert stable.arrival_ps[3] > stable.done_ps[2]

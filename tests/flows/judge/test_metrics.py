"""Values from the tables of one side, by hand."""

from __future__ import annotations

from math import isnan

import numpy as np
import polars as pl
import pytest

from flows.judge.facts import COMPLETED, FACTS, OVERALL, REJECTED, UNSTABLE
from flows.judge.metrics import metric_values, missing_causes
from schemas.tables import empty, from_rows
from tests.schemas.frames import METRIC, QUALITY, REQUEST

US = 1_000_000  # picoseconds


def request(replication: int, number: int, latency_us: int | None, **more: object) -> dict[str, object]:
    """A request that arrives at `number` us and is served after half of its latency; None: rejected."""
    row: dict[str, object] = {
        **REQUEST, "replication": replication, "request": number, "arrival_ps": number * US, **dict.fromkeys(
            ("launch_ps", "memory_ps", "contention_ps", "sync_ps"), 0
        ),
    }  # fmt: skip
    if latency_us is None:
        row |= {"status": "rejected", "batch": -1, "batch_size": 0, "slot": -1, "queueing_ps": 0, "compute_ps": 0}
        row |= {"start_ps": None, "completion_ps": None, "latency_ps": None}
    else:
        half = latency_us * US // 2
        row |= {"start_ps": number * US + half, "completion_ps": number * US + 2 * half, "latency_ps": 2 * half}
        row |= {"queueing_ps": half, "compute_ps": half}
    return {**row, **more}


def requests(*rows: dict[str, object]) -> pl.DataFrame:
    return from_rows("requests", rows)


def values(
    frame: pl.DataFrame | None = None,
    metrics: pl.DataFrame | None = None,
    quality: pl.DataFrame | None = None,
    warmup_share: float = 0.0,
    **more: object,
) -> dict[tuple[str, str], list[float]]:
    found = metric_values(
        empty("requests") if frame is None else frame,
        empty("metrics") if metrics is None else metrics,
        empty("quality") if quality is None else quality,
        "candidate", warmup_share, **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return {key: array.tolist() for key, array in found.items()}


def test_empty_tables_give_no_values_at_all() -> None:
    assert values() == {}


def test_percentiles_are_order_statistics_of_each_replication() -> None:
    rows = [request(0, number, 2 * (number + 1)) for number in range(100)]
    rows += [request(1, number, 4 * (number + 1)) for number in range(100)]
    found = values(requests(*rows))
    assert found["latency_p50_us", OVERALL] == [100, 200]
    assert found["latency_p95_us", OVERALL] == [190, 380]
    assert found["latency_p99_us", OVERALL] == [198, 396]
    assert found["latency_mean_us", OVERALL] == [101, 202]
    assert found["queueing_mean_us", OVERALL] == [50.5, 101]
    assert found["latency_p50_us", "block"] == found["latency_p50_us", OVERALL]


def test_rejected_requests_count_as_later_than_any_other() -> None:
    rows = [request(0, number, 10 if number < 98 else None) for number in range(100)]
    found = values(requests(*rows))
    assert found["latency_p95_us", OVERALL] == [10]
    assert isnan(found["latency_p99_us", OVERALL][0])
    assert found["rejected_share", OVERALL] == [0.02]
    assert (found[COMPLETED, OVERALL], found[REJECTED, OVERALL]) == ([98], [2])


def test_warm_up_leaves_out_the_first_requests_of_each_replication() -> None:
    rows = [request(0, number, 1000 if number < 10 else 10) for number in range(100)]
    assert values(requests(*rows), warmup_share=0.1)["latency_p99_us", OVERALL] == [10]
    assert values(requests(*rows), warmup_share=0.1)[COMPLETED, OVERALL] == [90]


def test_throughput_is_completed_requests_over_the_span() -> None:
    found = values(requests(*(request(0, number, 10) for number in range(100))))
    assert found["throughput_per_s", OVERALL] == [pytest.approx(100 / ((99 + 10) * 1e-6))]


def test_shares_of_fallback_and_missed_targets() -> None:
    rows = [request(0, number, 10, covered=number % 4 > 0, sla_met=number > 0) for number in range(8)]
    found = values(requests(*rows, request(0, 8, None), request(0, 9, None)))
    assert found["fallback_request_share", OVERALL] == [pytest.approx(0.2)]
    assert found["sla_missed_share", OVERALL] == [pytest.approx(0.3)]


def test_no_target_stamped_is_missing_not_zero() -> None:
    assert isnan(values(requests(request(0, 0, 10)))["sla_missed_share", OVERALL][0])


def test_replications_stay_aligned_where_a_workload_has_no_request() -> None:
    rows = [request(0, 0, 10), request(1, 0, 20, workload="other"), request(2, 0, 30)]
    found = values(requests(*rows))
    assert found["latency_mean_us", OVERALL] == [10, 20, 30]
    np.testing.assert_array_equal(found["latency_mean_us", "block"], [10, np.nan, 30])
    np.testing.assert_array_equal(found["latency_mean_us", "other"], [np.nan, 20, np.nan])


def test_unstable_replications_are_marked() -> None:
    found = values(requests(request(0, 0, 10), request(3, 0, 10)), unstable=frozenset({3}))
    assert found[UNSTABLE, OVERALL] == [0, 1]


def test_other_sides_are_left_out() -> None:
    rows = [request(0, 0, 10), request(0, 0, 1000, side="comparator")]
    assert values(requests(*rows))["latency_mean_us", OVERALL] == [10]


def test_primary_metrics_are_ratios_of_traffic_weighted_sums() -> None:
    short = {**METRIC, "weight": 0.75, "launch_ns": 2.0, "reference_launch_ns": 10.0, "dram_bytes": 100}
    short |= {"requested_bytes": 400, "spill_bytes": 0, "working_set_ratio": 0.5, "fallback_op_share": 0.0}
    long = {**METRIC, "weight": 0.25, "bucket": "long", "launch_ns": 30.0, "reference_launch_ns": 50.0}
    long |= {"dram_bytes": 800, "requested_bytes": 1200, "spill_bytes": 40, "working_set_ratio": 1.5}
    long |= {"fallback_op_share": 0.4}
    found = values(metrics=from_rows("metrics", [short, long]))
    assert found["launch_overhead_reduction", OVERALL] == [pytest.approx(1 - (1.5 + 7.5) / (7.5 + 12.5))]
    assert found["on_chip_reuse_ratio", OVERALL] == [pytest.approx(1 - (75 + 200) / (300 + 300))]
    assert found["dram_bytes", OVERALL] == [pytest.approx(275)]
    assert found["spill_bytes", "block"] == [pytest.approx(10)]
    assert found["working_set_ratio", OVERALL] == [1.5]
    assert found["fallback_op_share", OVERALL] == [pytest.approx(0.1)]


def test_a_plan_of_a_batch_is_shared_by_its_requests() -> None:
    one = {**METRIC, "batch": 1, "dram_bytes": 100, "requested_bytes": 200}
    four = {**METRIC, "batch": 4, "dram_bytes": 200, "requested_bytes": 800}
    assert values(metrics=from_rows("metrics", [one]))["dram_bytes", OVERALL] == [100]
    assert values(metrics=from_rows("metrics", [four]))["dram_bytes", OVERALL] == [50]


def test_ratio_that_any_plan_lacks_is_missing() -> None:
    lacking = {**METRIC, "bucket": "long", "launch_overhead_reduction": None}
    found = values(metrics=from_rows("metrics", [METRIC, lacking]))
    assert isnan(found["launch_overhead_reduction", OVERALL][0])
    assert found["dram_bytes", OVERALL] == [384]


def test_plans_that_serve_nothing_and_other_evidence_do_not_count() -> None:
    unused = {**METRIC, "bucket": "long", "weight": 0.0, "working_set_ratio": 9.0}
    measured = {**METRIC, "evidence": "measured", "working_set_ratio": 9.0}
    assert values(metrics=from_rows("metrics", [METRIC, unused, measured]))["working_set_ratio", OVERALL] == [0.5]
    assert values(metrics=from_rows("metrics", [unused])) == {}


def test_quality_counts_outputs_out_of_bound_and_disagreeing_classes() -> None:
    bad = {**QUALITY, "output": "z", "passed": False}
    astray = {**QUALITY, "output": "t", "top1_agreement": 0.98}
    frame = from_rows("quality", [QUALITY, bad, astray])
    assert values(quality=frame)["quality_failed_outputs", "block"] == [2]
    assert values(quality=frame, quality_top1_agreement=0.95)["quality_failed_outputs", OVERALL] == [1]


def test_output_that_was_not_run_makes_quality_missing() -> None:
    unrun = {**QUALITY, "output": "z", "executed": False, "passed": None, "reason": "too large"}
    other = {**QUALITY, "workload": "other"}
    found = values(quality=from_rows("quality", [QUALITY, unrun, other]))
    assert isnan(found["quality_failed_outputs", "block"][0])
    assert found["quality_failed_outputs", "other"] == [0]
    assert isnan(found["quality_failed_outputs", OVERALL][0])


def test_the_reason_that_an_output_was_not_run_is_the_cause_of_what_it_leaves_missing() -> None:
    why = "op 'y' (Lp) has no numeric rule"
    unrun = {**QUALITY, "workload": "lp", "executed": False, "passed": None, "reason": why}
    frame = from_rows("quality", [QUALITY, unrun, {**unrun, "side": "candidate"}])
    known = {"comparator": {"lp": None, "block": 0}, "candidate": {"lp": None, "block": 0}}
    assert missing_causes(frame, known) == {
        ("quality_failed_outputs", "lp"): why,
        ("quality_failed_outputs", OVERALL): f"lp: {why}",
        ("assembly_mismatches", "lp"): f"for the same cause as the outputs: {why}",
        ("assembly_mismatches", OVERALL): f"lp: for the same cause as the outputs: {why}",
    }
    assert ("assembly_mismatches", "lp") not in missing_causes(frame, {"candidate": {"lp": 0}})


def test_assembly_is_missing_unless_somebody_looked() -> None:
    assert ("assembly_mismatches", OVERALL) not in values()
    found = values(mismatches={"block": 3, "other": 0})
    assert (found["assembly_mismatches", OVERALL], found["assembly_mismatches", "other"]) == ([3], [0])


def test_every_metric_of_the_policy_can_be_had() -> None:
    found = values(
        requests(request(0, 0, 10, sla_met=True)), from_rows("metrics", [METRIC]), from_rows("quality", [QUALITY]),
        mismatches={"block": 0},
    )  # fmt: skip
    assert {metric for metric, scope in found if scope == OVERALL} == {*FACTS, COMPLETED, REJECTED, UNSTABLE}

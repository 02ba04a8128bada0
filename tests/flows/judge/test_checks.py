"""Checks: what passes, what fails, and everything that must not pass because nothing is known."""

from __future__ import annotations

from math import exp, nan

import numpy as np
import pytest

from flows.judge.checks import NO_SCOPE, CheckResult, compare, evaluate
from flows.judge.facts import COMPLETED, FACTS, OVERALL, REJECTED, UNSTABLE, MetricValues
from schemas.policy import DEFAULT_CHECKS, Check, Metric, Policy
from tests.flows.judge.worlds import P99, QUALITY, policy, side, with_values


def only(check: Check, comparator: MetricValues, candidate: MetricValues) -> CheckResult:
    return compare(check, OVERALL, comparator, candidate, 0.95)


def relative(metric: Metric, margin: float = 0.05) -> Check:
    return Check(id="c", metric=metric, margin=margin)


def test_the_same_values_pass_every_default_check() -> None:
    results = evaluate(Policy(), side(), side())
    assert {result.status for result in results} == {"pass"}
    assert {result.check.id for result in results} == {check.id for check in DEFAULT_CHECKS}


@pytest.mark.parametrize("metric", [metric for metric, facts in FACTS.items() if facts.comparison != "count"])
def test_clearly_worse_fails_and_better_passes(metric: Metric) -> None:
    lower = FACTS[metric].lower_is_better
    base = side(replace={metric: 0.4} if FACTS[metric].exact else {metric: [0.38, 0.4, 0.42, 0.4]})
    more, less = ({key: value * factor for key, value in base.items() if key[0] == metric} for factor in (1.5, 0.7))
    worse, better = (more, less) if lower else (less, more)
    assert only(relative(metric), base, {**base, **worse}).status == "fail"
    assert only(relative(metric), base, {**base, **better}).status == "pass"


def test_worsening_within_the_margin_passes_and_says_its_interval() -> None:
    result = only(P99, side(), side(scale={"latency_p99_us": 1.03}))
    assert (result.status, result.change) == ("pass", pytest.approx(0.03))
    assert "3.00 % worse, interval [+3.00 %, +3.00 %], within the margin of 5 %" in result.message


def test_noise_around_the_margin_is_undecided_and_says_how_many_more_replications() -> None:
    noisy = with_values(side(spread=0.0), latency_p99_us=300 * np.exp([0.2, -0.1, 0.1, -0.1, 0.05, 0.1, -0.05, 0.04]))
    result = only(P99, side(spread=0.0), noisy)
    assert result.status == "undecided"
    assert result.further is not None and f"{result.further} more replications" in result.message


def test_one_outlier_does_not_prove_harm() -> None:
    outlier = with_values(side(spread=0.0), latency_p99_us=[300.0] * 7 + [3000.0])
    assert only(P99, side(spread=0.0), outlier).status == "undecided"


def test_one_outlier_does_not_hide_harm_that_the_others_prove() -> None:
    values = 300 * np.exp([0.50, 0.52, 0.48, 0.51, 0.49, 0.50, 0.53, 0.20])
    assert only(P99, side(spread=0.0), with_values(side(spread=0.0), latency_p99_us=values)).status == "fail"


def test_ratios_near_one_are_compared_by_what_is_left() -> None:
    # 1 - r goes from 0.02 to 0.03: half as much again, though r itself only falls by 1 %.
    before, after = side(replace={"on_chip_reuse_ratio": 0.98}), side(replace={"on_chip_reuse_ratio": 0.97})
    result = only(relative("on_chip_reuse_ratio", 0.1), before, after)
    assert (result.status, result.change) == ("fail", pytest.approx(0.5))


def test_exact_values_on_the_margin_pass() -> None:
    before, after = side(replace={"dram_bytes": 100.0}), side(replace={"dram_bytes": 110.0})
    assert only(relative("dram_bytes", 0.1), before, after).status == "pass"
    assert only(relative("dram_bytes", 0.0999), before, after).status == "fail"


@pytest.mark.parametrize(
    "check", [relative("latency_p99_us"), relative("dram_bytes"), Check(id="c", metric="rejected_share", limit=0.1)]
)
@pytest.mark.parametrize("gone", [[], [nan], [nan] * 8])
def test_missing_or_all_nan_never_passes(check: Check, gone: list[float]) -> None:
    result = only(check, side(), with_values(side(), **{check.metric: gone}))
    assert (result.status, result.candidate_value) == ("missing", None)
    assert "candidate: no value" in result.message


def test_missing_comparator_never_passes() -> None:
    result = only(P99, with_values(side(), latency_p99_us=[]), side())
    assert (result.status, "comparator: no value" in result.message) == ("missing", True)


def test_no_data_at_all_gives_no_pass() -> None:
    results = evaluate(Policy(), {}, {})
    assert {result.status for result in results} == {"missing"}


def test_some_nan_is_undecided() -> None:
    assert only(P99, side(), with_values(side(), latency_p99_us=[nan] + [300.0] * 7)).status == "undecided"


def test_check_that_matches_no_workload_is_missing() -> None:
    (result,) = evaluate(policy(QUALITY), side(workloads=()), side(workloads=()))
    assert (result.scope, result.status) == (NO_SCOPE, "missing")
    assert "matched no workload" in result.message


def test_workload_without_values_is_missing_not_left_out() -> None:
    results = evaluate(policy(QUALITY), side(), side(), workloads=("block", "other"))
    assert [(result.scope, result.status) for result in results] == [("block", "pass"), ("other", "missing")]


def test_the_cause_of_a_missing_value_is_said() -> None:
    causes = {("quality_failed_outputs", "block"): "op 'y' (Lp) has no numeric rule"}
    (result,) = evaluate(policy(QUALITY), side(), side(replace={"quality_failed_outputs": nan}), ("block",), causes)
    assert (result.status, result.cause) == ("missing", "op 'y' (Lp) has no numeric rule")
    assert result.message == "candidate: no value (op 'y' (Lp) has no numeric rule)"
    (passing,) = evaluate(policy(QUALITY), side(), side(), ("block",), causes)
    assert (passing.status, passing.cause) == ("pass", "")


def test_comparator_that_is_zero_throughout_is_no_latency() -> None:
    result = only(P99, with_values(side(), latency_p99_us=[0.0] * 8), side())
    assert (result.status, "zero" in result.message) == ("undecided", True)


@pytest.mark.parametrize(("metric", "zero"), [("spill_bytes", [0.0]), ("rejected_share", [0.0] * 8)])
def test_zero_on_both_sides_is_equal(metric: Metric, zero: list[float]) -> None:
    both = side(replace={metric: zero})
    assert only(relative(metric), both, both).status == "pass"


def test_anything_above_a_comparator_of_zero_fails_and_says_so() -> None:
    exact = only(relative("spill_bytes", 10.0), side(), side(replace={"spill_bytes": 1.0}))
    assert (exact.status, exact.change) == ("fail", None)
    assert "any is above every margin" in exact.message
    much = only(relative("spill_bytes", 10.0), side(), side(replace={"spill_bytes": 90.2 * 2**20}))
    assert "the candidate 90.2 MiB: any" in much.message
    share = [0.01, 0.012, 0.011, 0.009, 0.01, 0.01, 0.011, 0.01]
    assert only(relative("rejected_share", 10.0), side(), side(replace={"rejected_share": share})).status == "fail"
    chance = [0.0] * 7 + [0.001]
    assert only(relative("rejected_share"), side(), side(replace={"rejected_share": chance})).status == "undecided"


def test_nothing_left_of_a_ratio_is_a_zero_too() -> None:
    # Reduction 1 means that no launch is left; 1 - r is zero, and half a launch is more than none.
    none = side(replace={"launch_overhead_reduction": 1.0})
    assert only(relative("launch_overhead_reduction"), none, none).status == "pass"
    half = side(replace={"launch_overhead_reduction": 0.5})
    assert only(relative("launch_overhead_reduction"), none, half).status == "fail"


def test_percentile_of_three_samples_is_undecided() -> None:
    few = {**side(), (COMPLETED, OVERALL): np.full(8, 3.0)}
    result = only(P99, side(), few)
    assert (result.status, "24 completed requests, and p99 needs 459: 435 more" in result.message) == (
        "undecided",
        True,
    )
    assert only(relative("latency_p99_us"), side(), {**side(), (COMPLETED, OVERALL): np.full(8, 60.0)}).status == (
        "undecided"
    )


def test_percentile_without_a_count_of_requests_is_undecided() -> None:
    without = {key: value for key, value in side().items() if key[0] != COMPLETED}
    assert only(P99, without, without).status == "undecided"


def test_one_replication_is_undecided() -> None:
    one = with_values(side(), latency_mean_us=[100.0])
    assert only(relative("latency_mean_us"), one, one).status == "undecided"


def test_rejected_requests_are_stated_beside_a_latency() -> None:
    rejecting = {**side(), (REJECTED, OVERALL): np.array([1.0] * 8)}
    assert "8 rejected requests count as later" in only(P99, side(), rejecting).message


def test_candidate_whose_queue_grows_without_end_fails_without_a_percentile() -> None:
    growing = {**side(), (UNSTABLE, OVERALL): np.ones(8)}
    result = only(P99, side(), growing)
    assert (result.status, result.candidate_value) == ("fail", None)
    assert result.comparator_value == pytest.approx(300.0, rel=0.05)
    assert only(P99, growing, growing).status == "undecided"
    assert only(P99, side(), {**side(), (UNSTABLE, OVERALL): np.array([1.0] + [0.0] * 7)}).status == "undecided"
    assert only(relative("dram_bytes"), side(), growing).status == "pass"


def test_harm_where_the_queue_holds_is_harm_though_it_grows_elsewhere() -> None:
    partly = {(UNSTABLE, OVERALL): np.array([1.0, 1.0] + [0.0] * 6)}
    worse = only(P99, side(), {**side(scale={"latency_p99_us": 3.0}), **partly})
    assert worse.status == "fail"
    assert "at the least" in worse.message
    unknown = np.array([np.inf, np.inf, 900.0, 905.0, 895.0, 910.0, 890.0, 900.0])
    also = only(P99, side(spread=0.0), {**with_values(side(spread=0.0), latency_p99_us=unknown), **partly})
    assert also.status == "fail"
    assert only(P99, side(), {**side(), **partly}).status == "undecided"
    assert only(P99, {**side(), **partly}, {**side(scale={"latency_p99_us": 3.0}), **partly}).status == "undecided"


def test_limits_look_at_the_candidate_alone() -> None:
    rejected = Check(id="c", metric="rejected_share", limit=0.01)
    share = [0.02, 0.021, 0.019, 0.02, 0.02, 0.022, 0.018, 0.02]
    worse = side(replace={"rejected_share": share})
    assert only(rejected, worse, side()).status == "pass"
    assert only(rejected, side(), worse).status == "fail"
    assert only(rejected, side(), worse).message.startswith("2.00 %, interval [1.9")
    assert "above the limit of 1 %" in only(rejected, side(), worse).message
    around = side(replace={"rejected_share": [0.0, 0.02, 0.0, 0.02, 0.0, 0.02, 0.0, 0.02]})
    assert only(rejected, side(), around).status == "undecided"


def test_lower_limit_of_a_metric_that_is_better_higher() -> None:
    least = Check(id="c", metric="throughput_per_s", limit=900.0)
    assert only(least, side(), side()).status == "pass"
    assert only(least, side(), side(scale={"throughput_per_s": 0.5})).status == "fail"
    ratio = Check(id="c", metric="on_chip_reuse_ratio", limit=0.95)
    assert only(ratio, side(), side()).status == "fail"


def test_one_wrong_output_breaks_a_limit_of_zero() -> None:
    result = only(QUALITY, side(), side(replace={"quality_failed_outputs": 1.0}))
    assert (result.status, result.p_harm) == ("fail", None)


def test_harm_must_survive_the_number_of_checks() -> None:
    # One check alone is just significant; among twenty that are not, it is not.
    worse = 300 * np.exp(np.array([0.06, 0.30, 0.02, 0.28, 0.10, 0.25, 0.05, 0.22]))
    comparator, candidate = side(spread=0.0), with_values(side(spread=0.0), latency_p99_us=worse)
    alone = evaluate(policy(P99), comparator, candidate)
    assert [result.status for result in alone] == ["fail"]
    others = [Check(id=f"c{index}", metric="latency_mean_us", margin=0.05) for index in range(20)]
    among = evaluate(policy(P99, *others, QUALITY), comparator, candidate)
    assert among[0].status == "undecided"
    assert "21 checks" in among[0].message and "Holm" in among[0].message


def test_warnings_do_not_weigh_on_blocking_checks() -> None:
    worse = 300 * np.exp(np.array([0.06, 0.30, 0.02, 0.28, 0.10, 0.25, 0.05, 0.22]))
    warnings = [Check(id=f"w{index}", metric="latency_mean_us", margin=0.05, severity="warning") for index in range(20)]
    results = evaluate(policy(P99, *warnings), side(spread=0.0), with_values(side(spread=0.0), latency_p99_us=worse))
    assert results[0].status == "fail"


def test_unchanged_pairs_with_noise_are_rarely_called_harm() -> None:
    rng = np.random.default_rng(5)
    checks = policy(*(Check(id=f"c{index}", metric="latency_mean_us", margin=0.0) for index in range(5)), P99, QUALITY)
    alarms = 0
    for seed in range(400):
        base = side(seed)
        noise = np.exp(0.05 * rng.standard_normal(8))
        again = with_values(base, latency_p99_us=base["latency_p99_us", OVERALL] * noise)
        alarms += any(result.status == "fail" for result in evaluate(checks, base, again))
    assert alarms <= 4


def test_worsening_of_exp_is_what_is_stated() -> None:
    result = only(P99, side(), side(scale={"latency_p99_us": exp(0.5)}))
    assert result.change == pytest.approx(exp(0.5) - 1)

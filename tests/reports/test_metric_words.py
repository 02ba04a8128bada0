"""Every metric of a policy has words and a unit."""

from typing import get_args

from schemas.metric_words import METRICS, metric_texts, metric_words
from schemas.policy import Metric


def test_every_metric_of_a_policy_has_words() -> None:
    assert set(METRICS) == set(get_args(Metric))


def test_two_latencies_share_the_unit_of_the_larger() -> None:
    assert metric_texts("latency_p99_us", 900.0, 48_000.0) == ("0.900\u00a0ms", "48.0\u00a0ms")


def test_a_missing_value_says_so_beside_one_that_is_there() -> None:
    assert metric_texts("dram_bytes", None, 2048.0) == ("missing", "2.00\u00a0KiB")


def test_a_metric_that_is_new_keeps_its_own_name() -> None:
    assert metric_words("warp_stalls").label == "warp stalls"
    assert metric_texts("warp_stalls", 3.0) == ("3.00",)

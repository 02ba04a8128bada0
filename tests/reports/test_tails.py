"""Tails before averages."""

import polars as pl
import pytest

from reports import tails
from reports.blocks import Charts, Missing, Table
from tests.reports.worlds import growing, world


def requests(latencies_us: list[int | None], side: str = "candidate", replication: int = 0) -> pl.DataFrame:
    """One request for each latency; None was rejected."""
    count = len(latencies_us)
    return pl.DataFrame(
        {
            "side": [side] * count,
            "replication": [replication] * count,
            "request": list(range(count)),
            "workload": ["w"] * count,
            "status": ["rejected" if value is None else "completed" for value in latencies_us],
            "latency_ps": pl.Series(
                [None if value is None else value * 10**6 for value in latencies_us], dtype=pl.Int64
            ),
        }
    )


def test_percentiles_are_the_latency_at_the_rank() -> None:
    found = tails.tails(requests(list(range(1, 101))))["candidate", "w"]

    assert (found.p50_ns, found.p95_ns, found.p99_ns) == (50_000.0, 95_000.0, 99_000.0)
    assert found.mean_ns == pytest.approx(50_500.0)


def test_statistics_are_taken_in_each_replication_and_then_averaged() -> None:
    frame = pl.concat([requests([10] * 100), requests([30] * 100, replication=1)])

    # pooled, the p99 would be 30
    assert tails.tails(frame)["candidate", "overall"].p99_ns == pytest.approx(20_000.0)


def test_a_request_that_timed_out_counts_as_one_without_an_answer() -> None:
    frame = requests([*range(1, 99), None, None])
    status = pl.Series("status", [*["completed"] * 98, "rejected", "timed_out"])
    found = tails.tails(frame.with_columns(status))["candidate", "overall"]
    assert found.rejected_share == pytest.approx(0.02)


def test_a_rejected_request_is_later_than_any_other() -> None:
    found = tails.tails(requests([*range(1, 99), None, None]))["candidate", "w"]

    assert found.p95_ns == 95_000.0
    assert found.p99_ns is None
    assert found.rejected_share == pytest.approx(0.02)


def test_the_start_up_of_each_replication_is_left_out() -> None:
    frame = pl.concat([requests([1] * 10), requests([2] * 20, replication=1)])
    kept = tails.settled(frame, 0.25)

    assert kept.group_by("replication").len().sort("replication")["len"].to_list() == [7, 15]
    assert kept["request"].min() == 3


def test_a_curve_ends_where_few_requests_lie_beyond_and_is_bounded() -> None:
    points = tails.curves(requests(list(range(1, 1001))))

    assert len(points) <= 90
    assert points["beyond"].max() == pytest.approx(100.0)  # 1000 requests: ten beyond p99
    assert points["latency_ns"].is_sorted()
    assert points["latency_ns"].max() == pytest.approx(990e3)


def test_a_curve_stops_where_rejected_requests_begin() -> None:
    points = tails.curves(requests([*range(1, 901), *[None] * 100]))

    assert points["latency_ns"].max() <= 900e3
    assert points["beyond"].max() < 11


def test_the_table_reads_tail_first_for_every_scope() -> None:
    table, drawn = tails.section(world(requests=2000)).blocks[:2]
    assert isinstance(table, Table) and isinstance(drawn, Charts)

    assert [row.cells[1].text for row in table.rows[:5]] == ["p99", "p95", "p50", "mean", "rejected or timed out"]
    assert list(dict.fromkeys(row.cells[0].text for row in table.rows)) == ["overall", "block", "conv"]
    assert table.rows[0].cells[4].text == "37.5\u00a0% worse"  # the matrix's own number
    assert [row.cells[4].sub for row in table.rows[:5]] == ["as in the matrix"] * 2 + ["ratio of the means"] * 2 + [""]
    assert [chart.title for chart in drawn.charts] == ["Latency by percentile: block", "Latency by percentile: conv"]


def test_a_side_that_has_no_requests_is_missing_and_not_zero() -> None:
    evidence = world(requests=400)
    alone = {**evidence.tables, "requests": evidence.tables["requests"].filter(pl.col("side") == "candidate")}
    section = tails.section(type(evidence)(evidence.run, evidence.decision, evidence.candidate, alone))
    table = section.blocks[0]
    assert isinstance(table, Table)

    assert [cell.text for cell in table.rows[0].cells][2] == "missing"
    assert table.rows[0].cells[4].text == "missing"


def test_without_requests_the_section_says_missing() -> None:
    assert isinstance(tails.section(world(without=["requests"], requests=200)).blocks[0], Missing)


def test_a_queue_that_grows_has_no_change_of_a_percentile() -> None:
    table = tails.section(growing(world(requests=400))).blocks[0]
    assert isinstance(table, Table)

    assert (table.rows[0].cells[4].text, table.rows[0].cells[4].sub) == ("no percentile", "the queue grows")
    latencies = [row for row in table.rows if "rejected" not in row.cells[1].text]
    assert {row.cells[3].text for row in latencies} == {"no percentile"}  # of the candidate, in every scope

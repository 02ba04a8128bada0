"""Waits over time, load of the cores, fairness across streams."""

import polars as pl
import pytest

from reports import scheduling
from reports.blocks import Charts, Fold, Missing, Table
from reports.scheduling import cores_of, jain, streams_of, waits_over_time
from tests.reports.worlds import growing, world


def requests(**columns: list[object]) -> pl.DataFrame:
    count = len(next(iter(columns.values())))
    rest = {"side": ["candidate"] * count, "replication": [0] * count, "imbalance_ps": [0] * count}
    return pl.DataFrame({**rest, "batching_ps": [0] * count, **columns})


def test_jains_index_is_one_of_equals_and_one_nth_where_one_has_all() -> None:
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([1.0, 2.0, 3.0]) == pytest.approx(36 / 42)
    assert jain([]) is None and jain([0.0, 0.0]) is None


def test_a_batch_occupies_its_slot_once() -> None:
    done = requests(
        slot=[0, 0, 1], batch=[0, 0, 1], arrival_ps=[0, 0, 0], start_ps=[0, 0, 50], completion_ps=[60, 60, 100],
        latency_ps=[60, 60, 100], queueing_ps=[0, 0, 50],
    )  # fmt: skip
    first, second = cores_of(done)
    assert (first.requests, first.load) == (2, pytest.approx(0.6))
    assert (second.requests, second.load) == (1, pytest.approx(0.5))


def test_a_stream_that_waits_is_served_for_less_of_its_time() -> None:
    done = requests(stream=["a", "b"], latency_ps=[100, 100], queueing_ps=[0, 75])
    assert [(item.name, item.load) for item in streams_of(done)] == [("a", 1.0), ("b", 0.25)]


def test_waits_are_averaged_by_time_of_arrival() -> None:
    rows = waits_over_time(requests(arrival_ps=[0, 0, 60 * 10**12], queueing_ps=[2_000_000, 4_000_000, 9_000_000]))
    assert [row["wait_us"] for row in rows] == [3.0, 9.0]
    assert rows[0]["time_s"] == pytest.approx(0.5)


def test_the_section_shows_chart_fairness_slots_and_streams() -> None:
    chart, fairness, waits, slots, streams = scheduling.section(world(requests=300)).blocks
    assert isinstance(chart, Charts) and isinstance(fairness, Table)
    assert isinstance(waits, Fold) and isinstance(waits.blocks[0], Table) and waits.blocks[0].rows
    assert isinstance(slots, Fold) and isinstance(streams, Fold)
    assert len(fairness.rows) == 3
    assert all(isinstance(block, Table) and block.rows for block in (*slots.blocks, *streams.blocks))


def test_without_requests_the_section_says_missing() -> None:
    (block,) = scheduling.section(world(requests=200, without=["requests"])).blocks
    assert isinstance(block, Missing)


def test_no_percentile_is_stated_where_a_queue_grows_without_end() -> None:
    section = scheduling.section(growing(world(requests=400)))
    fairness = next(block for block in section.blocks if isinstance(block, Table))
    slots = next(block for block in section.blocks if isinstance(block, Fold) and "slot" in block.summary)
    assert not any("p99" in row.cells[0].text for row in fairness.rows)
    assert {row.cells[3].text for table in slots.blocks for row in table.rows} == {"no percentile"}

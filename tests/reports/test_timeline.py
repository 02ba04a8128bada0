"""One plan in time and in memory."""

from dataclasses import replace

import polars as pl
import pytest

from reports import timeline
from reports.blocks import Charts, Fold, Missing, Note, Table
from reports.plans import PlanKey
from tests.reports import world_tables
from tests.reports.worlds import world


def test_both_sides_are_drawn_on_one_scale() -> None:
    drawn = timeline.section(world(requests=200)).blocks[0]
    assert isinstance(drawn, Charts)
    domains = [chart.spec["encoding"]["x"]["scale"]["domain"] for chart in drawn.charts]

    assert [chart.title.split(":")[0] for chart in drawn.charts] == ["comparator", "candidate"]
    assert domains == [[0, 30.0], [0, 30.0]]  # 2 groups of 15 us on the comparator
    assert drawn.charts[0].spec["encoding"]["x"]["title"] == "time, µs"


def test_lanes_stand_by_first_work_and_then_by_number() -> None:
    bars = [{"lane": lane} for lane in ("host", "core 10", "core 2", "DRAM", "core 0")]

    assert timeline.lane_order(bars) == ["host", "core 0", "core 2", "core 10", "DRAM"]


def test_bars_that_are_not_drawn_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_BARS", 3)
    notes = [block.text for block in timeline.section(world(requests=200)).blocks if isinstance(block, Note)]

    assert notes == ["comparator: the first 3 of 6 bars are drawn."]


def test_the_tightest_kernel_is_the_one_that_spills_most() -> None:
    key = PlanKey("block", "short", 1, None)
    kernel = timeline.tightest(key, world_tables.kernels(), "comparator")
    assert kernel is not None

    assert kernel["group"] == "g0"
    assert timeline.tightest(PlanKey("other", "short", 1, None), world_tables.kernels(), "comparator") is None


def test_a_spilled_buffer_is_listed_without_an_offset() -> None:
    fold = timeline.section(world(requests=200)).blocks[-1]
    assert isinstance(fold, Fold)
    candidate = fold.blocks[1]
    assert isinstance(candidate, Table)
    spilled = candidate.rows[-1]

    assert [spilled.cells[4].text, spilled.cells[6].text] == ["none", "spilled to DRAM"]


def test_a_side_without_a_timeline_is_missing() -> None:
    evidence = world(requests=200)
    only = evidence.tables["timeline"].filter(pl.col("side") == "candidate")
    blocks = timeline.section(replace(evidence, tables={**evidence.tables, "timeline": only})).blocks

    assert any(isinstance(block, Missing) and "comparator" in block.text for block in blocks)


@pytest.mark.parametrize("name", ["timeline", "buffers", "kernels"])
def test_each_missing_table_is_named(name: str) -> None:
    blocks = timeline.section(world(requests=200, without=[name])).blocks

    assert any(isinstance(block, Missing) and block.text.startswith(name) for block in blocks)

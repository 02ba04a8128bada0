"""Primary metrics: the ratios of sums, by hand."""

import polars as pl
import pytest

from reports import primary
from reports.blocks import Missing, Table
from reports.primary import primaries
from tests.reports import world_tables
from tests.reports.worlds import world


def two_plans() -> pl.DataFrame:
    """Plan A: 75 % of the requests one by one. Plan B: 25 % in batches of 4, so one run in sixteen requests."""
    base = world_tables.metrics().row(0, named=True)
    rows = [
        {**base, "bucket": "a", "batch": 1, "weight": 0.75, "launch_ns": 4.0, "reference_launch_ns": 10.0,
         "dram_bytes": 20, "requested_bytes": 100},
        {**base, "bucket": "b", "batch": 4, "weight": 0.25, "launch_ns": 16.0, "reference_launch_ns": 160.0,
         "dram_bytes": 320, "requested_bytes": 400},
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=world_tables.metrics().schema)


def test_ratios_are_of_sums_weighted_by_runs_and_not_means_of_ratios() -> None:
    found = primaries(two_plans())["comparator", "overall", "modelled"]

    # runs a request: A 0.75, B 0.25 / 4 = 0.0625
    assert found.launch_ns == pytest.approx(0.75 * 4 + 0.0625 * 16)
    assert found.launch_overhead_reduction == pytest.approx(1 - (3 + 1) / (7.5 + 10))
    assert found.on_chip_reuse_ratio == pytest.approx(1 - (15 + 20) / (75 + 25))


def test_one_plan_without_a_ratio_makes_the_ratio_missing() -> None:
    frame = two_plans().with_columns(
        on_chip_reuse_ratio=pl.when(pl.col("bucket") == "a").then(pl.col("on_chip_reuse_ratio"))
    )
    found = primaries(frame)["comparator", "overall", "modelled"]

    assert found.on_chip_reuse_ratio is None
    assert found.launch_overhead_reduction is not None


def test_kinds_of_evidence_are_never_mixed() -> None:
    measured = two_plans().with_columns(evidence=pl.lit("measured"), launch_ns=pl.col("launch_ns") * 2)
    found = primaries(pl.concat([two_plans(), measured]))

    assert found["comparator", "overall", "measured"].launch_ns == pytest.approx(8.0)
    assert found["comparator", "overall", "modelled"].launch_ns == pytest.approx(4.0)


def test_a_plan_without_traffic_does_not_count() -> None:
    idle = two_plans().with_columns(weight=pl.when(pl.col("bucket") == "a").then(pl.col("weight")).otherwise(0.0))

    assert primaries(idle)["comparator", "overall", "modelled"].launch_ns == pytest.approx(4.0)


def test_the_table_shows_both_sides_overall_first() -> None:
    table = primary.section(world(requests=200)).blocks[0]
    assert isinstance(table, Table)

    assert [cell.text.replace("\u00a0", " ") for cell in table.rows[0].cells] == [
        "overall", "launch overhead reduction", "60.0 %", "80.0 %", "+20.0 points",
    ]  # fmt: skip
    assert table.rows[1].cells[4].tone == "bad"  # less reuse
    assert [row.cells[0].text for row in table.rows] == ["overall"] * 2 + ["block"] * 2 + ["conv"] * 2


def test_without_metrics_the_section_says_missing() -> None:
    assert isinstance(primary.section(world(requests=200, without=["metrics"])).blocks[0], Missing)

"""Fusion and tile-plan worksheet."""

from dataclasses import replace

import polars as pl
import pytest

from reports import worksheet
from reports.blocks import Block, Fold, Missing, Note, Table, row_ids
from reports.evidence import Evidence
from reports.plans import plan_keys
from tests.reports.world_tables import HOSTILE
from tests.reports.worlds import world


def test_the_groups_that_spill_most_by_traffic_come_first_and_link_to_their_rows() -> None:
    evidence = world(requests=200)
    table = worksheet.section(evidence).blocks[0]
    assert isinstance(table, Table)

    assert [row.cells[1].text for row in table.rows] == [
        "block, short, batch 1", "conv, default, batch 1", "block, long, batch 4",
    ]  # fmt: skip
    assert table.rows[0].cells[0].href == "#kernels~candidate~block~short~1~g0"
    assert [cell.text.replace("\u00a0", " ") for cell in table.rows[0].cells[2:6]] == [
        "768 KiB", "145.3 %", "100 %", "launch → spill",
    ]  # fmt: skip


def test_a_candidate_that_spills_nothing_says_so() -> None:
    evidence = world(requests=200)
    dry = evidence.tables["kernels"].with_columns(spill_bytes=pl.lit(0, dtype=pl.Int64))
    note = worksheet.section(replace(evidence, tables={**evidence.tables, "kernels": dry})).blocks[0]

    assert isinstance(note, Note) and note.text == "No group of the candidate spills."


def plans(evidence: Evidence) -> list[Fold]:
    return [block for block in worksheet.section(evidence).blocks if isinstance(block, Fold)]


def groups(plan: Fold, side: str) -> Table:
    fold = next(block for block in plan.blocks if isinstance(block, Fold) and block.summary.startswith(side))
    (table,) = fold.blocks
    assert isinstance(table, Table)
    return table


def notes(blocks: tuple[Block, ...]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Note)]


def test_plans_come_by_traffic_and_only_the_first_is_open() -> None:
    found = plans(world(requests=200))

    assert [plan.summary.split(":")[0] for plan in found] == [
        "block, short, batch 1", "conv, default, batch 1", "block, long, batch 4",
    ]  # fmt: skip
    assert [plan.open for plan in found] == [True, False, False]


def test_a_summary_says_what_the_fusion_changed() -> None:
    summary = plans(world(requests=200))[0].summary.replace("\u00a0", " ")

    assert summary == "block, short, batch 1: launches 2 → 1, spill 0 → 768 KiB (40.0 % of traffic)"


def test_a_group_shows_the_bottleneck_alone_and_in_the_plan() -> None:
    row = groups(plans(world(requests=200))[0], "candidate").rows[0]

    assert (row.cells[3].text, row.cells[3].sub) == ("45.0", "launch")
    assert (row.cells[4].text, row.cells[4].sub, row.cells[4].tone) == ("18.3", "spill", "bad")
    assert row.cells[5].text == "2.80"  # 14,000 ns over a bound of 5,000


def test_a_group_that_the_other_side_has_not_is_a_moved_boundary() -> None:
    table = groups(plans(world(requests=200))[0], "candidate")

    assert table.rows[0].cells[2].text == "boundary moved"


def test_the_same_ops_in_another_tile_are_said_to_be_so() -> None:
    evidence = world(requests=200)
    comparator = evidence.tables["kernels"].filter(pl.col("side") == "comparator")
    retiled = comparator.with_columns(side=pl.lit("candidate"), tile=pl.lit("m=64, n=64"))
    same = replace(evidence, tables={**evidence.tables, "kernels": pl.concat([comparator, retiled])})

    assert groups(plans(same)[0], "candidate").rows[0].cells[2].text == "same ops, other tile"


def test_a_long_list_of_ops_is_folded_and_whole() -> None:
    cell = groups(plans(world(requests=200))[0], "candidate").rows[0].cells[1]

    assert cell.text == f"{HOSTILE[0]}, Add_1, Gelu_2 and 2 more"
    assert cell.more.endswith("MatMul_3, Add_4")


def test_time_that_was_not_measured_is_not_zero() -> None:
    row = groups(plans(world(requests=200))[0], "candidate").rows[0]

    assert row.cells[10].text == "not measured"


def test_expected_shifts_are_counted_most_frequent_first() -> None:
    before = ["launch", "launch", "launch", "dram"]
    after = ["dram", "dram", "spill", "dram"]
    rows = [
        {"unfused_bottleneck": old, "bottleneck": new, "launches": 1} for old, new in zip(before, after, strict=True)
    ]

    assert worksheet.shifts_text(rows) == (
        "expected bottleneck shifts launch → dram (2 kernels), launch → spill (1 kernel); 1 kernel keeps its class."
    )


def test_every_group_of_every_plan_is_there() -> None:
    evidence = world(requests=200)
    ids = row_ids(worksheet.section(evidence).blocks)

    assert sum(name.startswith("kernels~") for name in ids) == len(evidence.tables["kernels"])


def test_plans_beyond_the_page_say_where_their_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worksheet, "MOST_ROWS", 4)
    first, second, _ = plans(world(requests=200))

    assert any(isinstance(block, Fold) for block in first.blocks)
    assert "kernels.parquet" in notes(second.blocks)[-1]
    assert isinstance(second.blocks[0], Table)  # its totals are still shown


def test_a_side_without_the_plan_is_missing() -> None:
    evidence = world(requests=200)
    one_side = evidence.tables["kernels"].filter(pl.col("side") == "comparator")
    plan = plans(replace(evidence, tables={**evidence.tables, "kernels": one_side}))[0]

    assert any(isinstance(block, Missing) and "candidate" in block.text for block in plan.blocks)
    assert "comparator only" in plan.summary


def test_without_metrics_the_share_of_traffic_is_missing_and_plans_keep_their_order() -> None:
    evidence = world(requests=200, without=["metrics"])
    keys = plan_keys(evidence, evidence.tables["kernels"])

    assert [key.bucket for key in keys] == ["short", "long", "default"]
    assert keys[0].traffic == "share of traffic missing"


def test_without_kernels_the_section_says_missing() -> None:
    assert isinstance(worksheet.section(world(requests=200, without=["kernels"])).blocks[0], Missing)

"""Bandwidth lens."""

from reports import lens
from reports.blocks import Block, Charts, Fold, Missing, Table
from schemas.zones import ZONES
from tests.reports.worlds import world


def blocks() -> tuple[Block, ...]:
    return lens.section(world(requests=200)).blocks


def first_plan() -> tuple[str, Table]:
    plan = next(block for block in blocks() if isinstance(block, Fold))
    (table,) = plan.blocks
    assert isinstance(table, Table)
    return plan.summary.replace("\u00a0", " "), table


def test_policies_stand_in_the_order_of_the_iterations() -> None:
    rows = first_plan()[1].rows

    assert [row.cells[0].text for row in rows[:4]] == ["none", "pattern", "optimal", "aggressive"]
    assert [row.cells[1].text for row in rows] == ["comparator"] * 4 + ["candidate"] * 4


def test_the_policy_that_a_side_runs_is_marked_and_its_zone_is_in_the_summary() -> None:
    summary, table = first_plan()

    assert [(row.cells[1].text, row.cells[0].text) for row in table.rows if row.mark] == [
        ("comparator", "pattern"), ("candidate", "aggressive"),
    ]  # fmt: skip
    assert summary == "block, short, batch 1: tuning candidate → saturation (40.0 % of traffic)"


def test_every_plan_is_there() -> None:
    assert sum(isinstance(block, Fold) for block in blocks()) == 3


def test_a_zone_says_what_decided_it() -> None:
    calm = {"working_set_ratio": 0.1, "dram_demand_ratio": 0.1}
    busy = {"working_set_ratio": 1.2, "dram_demand_ratio": 0.85}

    assert lens.decided_by({**calm, "zone": "baseline"}) == "nothing"
    assert lens.decided_by({**busy, "zone": "unstable tail latency"}) == "working set and DRAM demand"
    assert lens.decided_by({**calm, "zone": "unstable tail latency"}) == "p99 ÷ p50"


def test_thresholds_are_stated_beside_the_chart() -> None:
    rows = next(block for block in blocks() if isinstance(block, Table)).rows

    assert [cell.text for cell in rows[0].cells] == ["working set ÷ on-chip capacity", "0", "0.5", "1", "2"]
    assert [cell.text for cell in rows[2].cells][2:] == ["does not lead there", "3", "does not lead there"]


def test_each_workload_is_drawn_with_both_pressures_over_named_zones() -> None:
    drawn = [block for block in lens.section(world(requests=200)).blocks if isinstance(block, Charts)]

    assert [[chart.title for chart in pair.charts] for pair in drawn] == [
        ["Working set: block, short, batch 1", "DRAM demand: block, short, batch 1"],
        ["Working set: conv, default, batch 1", "DRAM demand: conv, default, batch 1"],
    ]
    spec = drawn[0].charts[0].spec
    labels = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    named = [spec["datasets"][layer["data"]["name"]][0]["zone"] for layer in labels]
    assert named == list(ZONES)


def test_without_a_sweep_the_section_says_missing_and_still_states_the_zones() -> None:
    missing, thresholds = lens.section(world(requests=200, without=["sweep"])).blocks

    assert isinstance(missing, Missing) and isinstance(thresholds, Table)

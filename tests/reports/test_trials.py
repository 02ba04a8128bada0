"""Capacity, batches and fusion under the run's traffic."""

from reports import trials
from reports.blocks import Charts, Fold, Missing, Table
from reports.trials import capacity_of
from tests.reports import world_tables
from tests.reports.worlds import world


def test_a_capacity_is_the_rate_that_carries_its_mark() -> None:
    rates = world_tables.trials()
    assert capacity_of(rates, "candidate", "knee") == 60.0
    assert capacity_of(rates, "candidate", "sla") == capacity_of(rates, "candidate", "stable") == 80.0
    assert capacity_of(rates.filter(rates["mark"] == "own"), "candidate", "sla") is None


def test_an_unstable_trial_shows_its_utilisation_and_no_percentile() -> None:
    section = trials.section(world(requests=200))
    capacity, drawn, _, rates, batching, fusion = section.blocks
    assert isinstance(capacity, Table) and isinstance(drawn, Charts) and len(drawn.charts) == 3
    assert all(isinstance(fold, Fold) for fold in (rates, batching, fusion))
    assert isinstance(rates, Fold) and isinstance(rates.blocks[0], Table)
    unstable = [row for row in rates.blocks[0].rows if row.cells[0].text == "200/s"]
    assert len(unstable) == 2
    for row in unstable:
        assert [cell.text for cell in row.cells[2:5]] == ["unstable"] * 3
        assert row.cells[6].text.startswith("105") and row.cells[6].tone == "bad"


def test_the_settings_that_a_side_runs_are_marked() -> None:
    *_, batching, fusion = trials.section(world(requests=200)).blocks
    for fold, own in ((batching, "batch 1, wait 0 µs"), (fusion, "pattern")):
        assert isinstance(fold, Fold) and isinstance(fold.blocks[0], Table)
        assert {row.cells[0].text for row in fold.blocks[0].rows if row.mark == "note"} == {own}


def test_without_trials_the_section_says_missing() -> None:
    (block,) = trials.section(world(requests=200, without=["trials"])).blocks
    assert isinstance(block, Missing)

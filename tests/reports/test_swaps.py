"""Swap table."""

from dataclasses import replace
from typing import Any

import polars as pl

from reports import matrix, swaps
from reports.blocks import Fold, Missing, Note, Table
from tests.reports import world_tables
from tests.reports.worlds import world


def parts() -> tuple[Note, Table, tuple[Table, ...]]:
    """Of the world's one failed check: conclusion, prefix table, the other tables."""
    (check,) = swaps.section(world(requests=200)).blocks
    assert isinstance(check, Fold)
    note, prefix, others = check.blocks
    assert isinstance(note, Note) and isinstance(prefix, Table) and isinstance(others, Fold)
    return note, prefix, tuple(block for block in others.blocks if isinstance(block, Table))


def rows(**changed: str) -> list[dict[str, Any]]:
    """The mechanism rows of the world, with the status of some (experiment, fusion) rows changed."""
    found = world_tables.mechanisms().to_dicts()
    return [
        {**row, "status": changed[row["experiment"]]}
        if row["stage"] == "fusion" and row["experiment"] in changed
        else row
        for row in found
    ]


def test_the_proving_pair_is_marked_and_nothing_else() -> None:
    prefix = parts()[1]

    assert [row.cells[0].text for row in prefix.rows if row.mark == "note"] == ["lowering", "fusion"]
    assert len(prefix.rows) == 8


def test_the_other_swaps_are_folded_and_complete() -> None:
    others = parts()[2]

    assert [table.caption.split(":")[0] for table in others] == ["suffix", "single", "cure"]
    assert all(len(table.rows) == 8 for table in others)


def test_only_stages_that_differ_are_named_as_taken() -> None:
    taken = [row.cells[5].text for row in parts()[1].rows]

    assert taken == ["nothing", "nothing", *["fusion"] * 6]


def test_a_hybrid_that_has_what_the_comparator_has_none_of_is_not_called_missing() -> None:
    row = {**rows()[0], "change": None, "interval_low": None, "interval_high": None}

    assert matrix.change_cell("spill_bytes", 0.0, 5.0, row).text == "from none"
    assert matrix.change_cell("spill_bytes", 4.0, None, row).text == "missing"


def test_the_conclusion_names_the_pair_and_the_cure() -> None:
    assert swaps.conclusion(rows()) == (
        "fusion: the prefix up to lowering passes, the prefix up to fusion fails. Fusion alone on the comparator: fail."
        " Candidate with only fusion taken back: pass."
    )


def test_swaps_that_disagree_with_the_prefix_are_an_interaction() -> None:
    assert "interaction" in swaps.conclusion(rows(single="pass"))
    assert "interaction" in swaps.conclusion(rows(cure="fail"))


def test_without_a_first_failing_prefix_nothing_is_isolated() -> None:
    none_first = [{**row, "first": False} for row in rows()]

    assert "not isolated" in swaps.conclusion(none_first)


def test_an_unchanged_stage_says_what_its_row_is_equal_to() -> None:
    suffix, single, cure = parts()[2]

    assert suffix.rows[0].cells[6].text.endswith("the candidate itself")
    assert suffix.rows[1].cells[6].text.endswith("repeats the row before")
    assert single.rows[1].cells[6].text.endswith("the comparator itself")
    assert cure.rows[1].cells[6].text.endswith("the candidate itself")


def test_each_check_says_its_mechanism_and_blocking_checks_come_first() -> None:
    evidence = world(requests=200)
    spill = evidence.tables["mechanisms"].with_columns(check=pl.lit("spill"), scope=pl.lit("block"))
    both = pl.concat([spill, evidence.tables["mechanisms"]])
    folds = swaps.section(replace(evidence, tables={**evidence.tables, "mechanisms": both})).blocks

    assert [(fold.summary, fold.open) for fold in folds if isinstance(fold, Fold)] == [
        ("latency-p99, overall: fusion (latency p99)", True),
        ("spill, block: fusion (spill traffic)", False),
    ]


def test_no_hybrids_after_a_failure_is_missing_and_after_a_pass_is_expected() -> None:
    assert isinstance(swaps.section(world("NO_GO", requests=200, without=["mechanisms"])).blocks[0], Missing)
    assert isinstance(swaps.section(world("GO", requests=200)).blocks[0], Note)

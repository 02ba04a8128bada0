"""Swap table."""

from typing import Any

from reports import swaps
from reports.blocks import Fold, Heading, Missing, Note, Table
from tests.reports import world_tables
from tests.reports.worlds import world


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
    _, _, prefix, _ = swaps.section(world(requests=200)).blocks
    assert isinstance(prefix, Table)

    assert [row.cells[0].text for row in prefix.rows if row.mark == "note"] == ["lowering", "fusion"]
    assert len(prefix.rows) == 8


def test_the_other_swaps_are_folded_and_complete() -> None:
    fold = swaps.section(world(requests=200)).blocks[3]
    assert isinstance(fold, Fold)

    assert [block.caption.split(":")[0] for block in fold.blocks if isinstance(block, Table)] == [
        "suffix", "single", "cure",
    ]  # fmt: skip
    assert all(len(block.rows) == 8 for block in fold.blocks if isinstance(block, Table))


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
    fold = swaps.section(world(requests=200)).blocks[3]
    assert isinstance(fold, Fold)
    suffix, single, cure = fold.blocks
    assert isinstance(suffix, Table) and isinstance(single, Table) and isinstance(cure, Table)

    assert suffix.rows[0].cells[6].text.endswith("the candidate itself")
    assert suffix.rows[1].cells[6].text.endswith("repeats the row before")
    assert single.rows[1].cells[6].text.endswith("the comparator itself")
    assert cure.rows[1].cells[6].text.endswith("the candidate itself")


def test_each_check_has_a_heading_with_its_metric() -> None:
    heading = swaps.section(world(requests=200)).blocks[0]
    assert isinstance(heading, Heading)

    assert heading.text == "latency-p99: latency p99, overall"


def test_no_hybrids_after_a_failure_is_missing_and_after_a_pass_is_expected() -> None:
    assert isinstance(swaps.section(world("NO_GO", requests=200, without=["mechanisms"])).blocks[0], Missing)
    assert isinstance(swaps.section(world("GO", requests=200)).blocks[0], Note)

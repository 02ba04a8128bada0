"""Validation matrix."""

from typing import Any

from reports import matrix
from reports.blocks import Missing, Row, Table
from reports.evidence import Evidence
from tests.reports.worlds import growing, unlike, world


def rows(verdict: str = "NO_GO") -> dict[str, Row]:
    return matrix_rows(world(verdict, requests=200))


def matrix_rows(evidence: Evidence) -> dict[str, Row]:
    (table,) = matrix.section(evidence).blocks
    assert isinstance(table, Table)
    return {row.cells[0].text: row for row in table.rows}


def texts(row: Row) -> list[str]:
    return [cell.text.replace("\u00a0", " ") for cell in row.cells]


def test_failures_come_first_and_are_marked() -> None:
    found = list(rows().values())

    assert [row.cells[1].text for row in found[:2]] == ["fail", "fail"]
    assert [row.mark for row in found] == ["bad", "bad", "", "", "", ""]


def test_a_row_says_both_values_the_change_its_interval_and_the_limit() -> None:
    row = rows()["latency-p99"]

    assert texts(row)[2:6] == ["1,012 µs", "1,392 µs", "+37.5 %", "at most +5 %"]
    assert row.cells[4].sub.replace("\u00a0", " ") == "[+33.1 %, +41.9 %]"


def test_a_saturating_ratio_says_what_was_compared() -> None:
    assert rows()["launch-overhead"].cells[4].sub.startswith("of 1 − ratio")


def test_a_missing_value_is_a_word_and_not_a_zero() -> None:
    row = rows("HOLD")["quality"]

    assert texts(row)[2:5] == ["0", "missing", "not compared"]
    assert row.cells[3].tone == "warn"


def test_an_owner_that_the_policy_does_not_name_is_the_role_in_words() -> None:
    assert texts(rows()["spill"])[6] == "memory hierarchy owner"


def test_an_absolute_limit_says_its_direction() -> None:
    base: dict[str, Any] = {"margin": None, "metric": "on_chip_reuse_ratio", "limit": 0.5}

    assert matrix.limit_text({**base, "direction": "higher_is_better"}).startswith("at least 50")
    assert matrix.limit_text({**base, "direction": "lower_is_better"}).startswith("at most 50")


def test_the_summary_counts_results_and_says_how_many_block() -> None:
    assert matrix.section(world(requests=200)).lead == (
        "6 checks: 2 fail, 1 waived, 3 pass. Of the failures, 2 block the release."
    )


def test_without_checks_the_section_says_missing() -> None:
    (block,) = matrix.section(world(requests=200, without=["checks"])).blocks

    assert isinstance(block, Missing)
    assert "did not write" in block.text


def test_a_check_that_does_not_block_is_not_called_a_warning() -> None:
    assert rows()["spill"].cells[1].sub == "not blocking"


def test_a_queue_that_grows_leaves_the_comparators_value_and_no_percentile() -> None:
    row = matrix_rows(growing(world("NO_GO", requests=200)))["latency-p99"]

    assert texts(row)[2:5] == ["1,012 µs", "no limit: the queue grows", "no percentile"]


def test_sides_that_must_not_be_compared_have_results_that_do_not_count() -> None:
    evidence = unlike(world("GO", requests=200))
    found = matrix_rows(evidence)

    assert matrix.section(evidence).lead.startswith("Not compared: the sides rest on different tags or conditions.")
    assert {(row.cells[1].tone, row.cells[1].sub) for row in found.values()} == {("muted", "not compared")}
    assert {row.cells[4].text for row in found.values()} == {"not compared"}

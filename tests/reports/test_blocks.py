"""View models keep their invariants."""

import pytest

from reports.blocks import Cell, Chart, Charts, Column, Fold, Row, Table, charts_of, row_ids


def table(rows: int, fold_after: int = 0) -> Table:
    made = tuple(Row(f"r{index}", (Cell(str(index)),)) for index in range(rows))
    return Table("numbers", (Column("n"),), made, fold_after)


def test_a_row_with_too_few_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells in 2 columns"):
        Table("t", (Column("a"), Column("b")), (Row("r", (Cell("1"),)),))


def test_a_long_table_folds_and_loses_no_row() -> None:
    folded = table(10, fold_after=4)

    assert len(folded.shown) == 4
    assert folded.shown + folded.folded == folded.rows


def test_two_rows_are_not_worth_a_fold() -> None:
    assert table(6, fold_after=4).folded == ()


def test_charts_and_rows_are_found_inside_folds() -> None:
    chart = Chart("c", "title", "description", {}, 100)
    blocks = (Fold("more", (Charts((chart,)), table(2))), table(1))

    assert charts_of(blocks) == (chart,)
    assert row_ids(blocks) == ("r0", "r1", "r0")

"""Quality."""

from dataclasses import replace

import polars as pl

from reports import quality
from reports.blocks import Missing, Table
from tests.reports.worlds import world


def test_an_output_beyond_its_bound_is_marked_with_its_first_bad_group() -> None:
    (table,) = quality.section(world("NO_GO", requests=200)).blocks
    assert isinstance(table, Table)
    bad = [row for row in table.rows if row.mark == "bad"]

    assert [(row.cells[0].text, row.cells[1].text, row.cells[2].text) for row in bad] == [
        ("logits", "candidate", "beyond bound")
    ]
    assert bad[0].cells[10].text == "g0"


def test_reduced_shapes_are_said() -> None:
    (table,) = quality.section(world("GO", requests=200)).blocks
    assert isinstance(table, Table)

    assert table.rows[0].cells[0].sub == "block, batch=2, sequence=64, smaller than production"


def test_what_was_not_run_is_never_a_number() -> None:
    evidence = world("GO", requests=200)
    numbers = ["max_abs_error", "max_relative_error", "relative_l2_error", "cosine", "top1_agreement", "bound"]
    unrun = evidence.tables["quality"].with_columns(
        pl.lit(False).alias("executed"),
        pl.lit("too large to run").alias("reason"),
        pl.lit(None, dtype=pl.Boolean).alias("passed"),
        *(pl.lit(None, dtype=pl.Float64).alias(name) for name in numbers),
    )
    section = quality.section(replace(evidence, tables={**evidence.tables, "quality": unrun}))
    (table,) = section.blocks
    assert isinstance(table, Table)

    assert {cell.text for cell in table.rows[0].cells[2:11]} == {"not run"}
    assert table.rows[0].cells[2].sub == "too large to run"
    assert section.lead.endswith("Of 4 outputs, 0 within the bound, 4 not run.")


def test_the_lead_counts_what_kept_its_bound() -> None:
    assert quality.section(world("NO_GO", requests=200)).lead.endswith("Of 4 outputs, 3 within the bound, 1 beyond it.")


def test_without_quality_the_section_says_missing() -> None:
    assert isinstance(quality.section(world(requests=200, without=["quality"])).blocks[0], Missing)

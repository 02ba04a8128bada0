"""Measured kernels."""

from dataclasses import replace
from typing import Any

import pytest

from reports import measured
from reports.blocks import Missing, Note, Table
from reports.evidence import Evidence
from schemas.tables import from_rows
from tests.reports.world_tables import HOSTILE
from tests.reports.worlds import world


def kernel(side: str, name: str, duration_ns: int, **given: Any) -> dict[str, Any]:
    return {
        "side": side, "workload": "block", "device": "0", "stream": "7", "name": name, "start_ns": 0,
        "duration_ns": duration_ns, "launch_delay_ns": -20, **given,
    }  # fmt: skip


def profiled(*rows: dict[str, Any]) -> Evidence:
    evidence = world(requests=200)
    return replace(evidence, tables={**evidence.tables, "profile_kernels": from_rows("profile_kernels", rows)})


def test_kernels_are_summed_by_name_largest_first() -> None:
    rows = [
        kernel("candidate", HOSTILE[0], 30_000),
        kernel("candidate", "gemm", 40_000),
        kernel("candidate", "gemm", 30_000),
    ]
    table = next(block for block in measured.section(profiled(*rows)).blocks if isinstance(block, Table))
    texts = [[cell.text.replace("\u00a0", " ") for cell in row.cells] for row in table.rows]

    assert texts[0] == ["gemm", "2", "70.0 %", "70.0 µs", "35.0 µs", "−20.0 ns", "missing"]
    assert texts[1][0] == HOSTILE[0]


def test_a_mean_over_a_part_of_the_runs_is_missing() -> None:
    rows = [kernel("candidate", "gemm", 10, dram_bytes=64), kernel("candidate", "gemm", 10)]
    table = next(block for block in measured.section(profiled(*rows)).blocks if isinstance(block, Table))

    assert table.rows[0].cells[6].text == "missing"


def test_a_side_without_a_profile_is_missing_where_the_other_has_one() -> None:
    blocks = measured.section(profiled(kernel("candidate", "gemm", 10))).blocks
    absent = [block.text for block in blocks if isinstance(block, Missing)]

    assert absent == ["profile of block, comparator", "profile of conv, comparator", "profile of conv, candidate"]


def test_names_that_are_not_shown_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MOST_NAMES", 1)
    rows = [kernel("candidate", "gemm", 75), kernel("candidate", "add", 25)]
    notes = [block.text for block in measured.section(profiled(*rows)).blocks if isinstance(block, Note)]

    assert notes[0].replace("\u00a0", " ") == "1 more kernel name, 25.0 % of the time, in profile_kernels.parquet."


def test_a_run_that_promised_no_profile_says_that_nothing_was_measured() -> None:
    (note,) = measured.section(world(requests=200)).blocks

    assert isinstance(note, Note) and "Neither side" in note.text

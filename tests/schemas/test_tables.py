"""Tables: good frames pass, bad frames are refused to the row, and no route lets bad data through."""

from __future__ import annotations

from math import inf, nan

import polars as pl
import pytest
from pandera.config import ValidationDepth, config_context

from schemas.errors import DocumentError
from schemas.tables import TABLES, describe, empty, from_rows, polars_schema, validate
from tests.schemas.frames import GOOD, KERNEL, REQUEST

REJECTED = {
    "status": "rejected", "batch": -1, "batch_size": 0, "slot": -1, "start_ps": None, "completion_ps": None,
    "latency_ps": None, "queueing_ps": 0, "launch_ps": 0, "compute_ps": 0, "memory_ps": 0, "contention_ps": 0,
    "sync_ps": 0,
}  # fmt: skip

# Table, what is spoilt in its good row, the column to blame.
BAD: list[tuple[str, dict[str, object], str]] = [
    ("ops", {"side": "baseline"}, "side"),
    ("ops", {"kind": "magic"}, "kind"),
    ("ops", {"flops": -1}, "flops"),
    ("ops", {"kind": "fallback"}, "fallback_reason"),
    ("ops", {"fallback_reason": "no kernel"}, "fallback_reason"),
    ("ops", {"op": None}, "op"),
    ("kernels", {"batch": 0}, "batch"),
    ("kernels", {"policy": "greedy"}, "policy"),
    ("kernels", {"busy_ns": nan}, "busy_ns"),
    ("kernels", {"busy_ns": inf}, "busy_ns"),
    ("kernels", {"compute_ns": -0.5}, "compute_ns"),
    ("kernels", {"dram_bytes": 385}, "dram_bytes"),
    ("kernels", {"spill_bytes": 16}, "spill_bytes"),
    ("kernels", {"spill_bytes": 999}, "spill_bytes"),
    ("kernels", {"padded_flops": 1023}, "padded_flops"),
    ("kernels", {"exposed_launch_ns": 4.0}, "exposed_launch_ns"),
    ("kernels", {"bottleneck": "cosmic"}, "bottleneck"),
    ("buffers", {"end_step": 0}, "end_step"),
    ("buffers", {"spilled": True}, "spilled"),
    ("buffers", {"offset_bytes": None}, "offset_bytes"),
    ("buffers", {"role": "scratch"}, "role"),
    ("timeline", {"end_ps": -1}, "end_ps"),
    ("timeline", {"start_ps": 11}, "start_ps"),
    ("quality", {"passed": None}, "passed"),
    ("quality", {"executed": False, "passed": None}, "reason"),
    ("quality", {"cosine": 1.5}, "cosine"),
    ("quality", {"max_abs_error": nan}, "max_abs_error"),
    ("requests", {"latency_ps": 24}, "latency_ps"),
    ("requests", {"compute_ps": 11}, "compute_ps"),
    ("requests", {"completion_ps": None}, "completion_ps"),
    ("requests", {"start_ps": 4}, "start_ps"),
    ("requests", {"arrival_ps": -5}, "arrival_ps"),
    ("requests", {"status": "lost"}, "status"),
    ("requests", {"status": "rejected"}, "status"),
    ("requests", {**REJECTED, "queueing_ps": 3}, "queueing_ps"),
    ("profile_kernels", {"duration_ns": -1}, "duration_ns"),
    ("profile_kernels", {"name": None}, "name"),
    ("metrics", {"weight": 1.5}, "weight"),
    ("metrics", {"evidence": "guessed"}, "evidence"),
    ("metrics", {"launch_overhead_reduction": 1.1}, "launch_overhead_reduction"),
    ("metrics", {"on_chip_reuse_ratio": nan}, "on_chip_reuse_ratio"),
    ("sweep", {"zone": "fine"}, "zone"),
    ("trials", {"unstable": True}, "p99_us"),
    ("trials", {"max_batch": 0}, "max_batch"),
    ("sweep", {"working_set_ratio": -0.1}, "working_set_ratio"),
    ("checks", {"status": "ok"}, "status"),
    ("checks", {"interval_low": 0.3}, "interval_low"),
    ("checks", {"limit": 1.0}, "limit"),
    ("checks", {"margin": None}, "margin"),
    ("checks", {"status": "pass", "candidate_value": None}, "candidate_value"),
    ("checks", {"p_harm": 1.01}, "p_harm"),
    ("mechanisms", {"experiment": "guess"}, "experiment"),
    ("mechanisms", {"stage": "network"}, "stage"),
    ("mechanisms", {"status": "pass"}, "status"),
    ("history", {"verdict": "MAYBE"}, "verdict"),
    ("history", {"value": nan}, "value"),
]


@pytest.mark.parametrize("name", TABLES)
def test_good_row_passes(name: str) -> None:
    frame = from_rows(name, [GOOD[name]])
    assert frame.rows(named=True) == [GOOD[name]]


@pytest.mark.parametrize(("name", "spoilt", "column"), BAD)
def test_bad_row_is_refused_and_named(name: str, spoilt: dict[str, object], column: str) -> None:
    with pytest.raises(DocumentError) as caught:
        from_rows(name, [GOOD[name], {**GOOD[name], **spoilt}])
    assert (caught.value.table, caught.value.row) == (name, 1)
    assert column in caught.value.column.split(", ")
    assert caught.value.expected and caught.value.found


def test_every_table_has_a_bad_row_here() -> None:
    assert {name for name, _, _ in BAD} == set(TABLES)


def test_rejected_request_has_no_instants_and_no_drivers() -> None:
    assert from_rows("requests", [{**REQUEST, **REJECTED}]).height == 1


@pytest.mark.parametrize("name", TABLES)
def test_missing_extra_and_mistyped_columns_are_refused(name: str) -> None:
    frame = from_rows(name, [GOOD[name]])
    last = frame.columns[-1]
    with pytest.raises(DocumentError, match=f"{last}: expected a column of that name"):
        validate(name, frame.drop(last))
    with pytest.raises(DocumentError, match="surplus: expected only the table's columns"):
        validate(name, frame.with_columns(surplus=pl.lit(1)))
    with pytest.raises(DocumentError, match=f"{last}: expected type"):
        validate(name, frame.with_columns(pl.lit(b"bytes").alias(last)))


def test_row_rule_over_a_missing_column_still_gives_the_missing_column() -> None:
    frame = from_rows("kernels", [KERNEL]).drop("dram_bytes")
    with pytest.raises(DocumentError) as caught:
        validate("kernels", frame)
    assert (caught.value.column, caught.value.row) == ("dram_bytes", None)


def test_lazy_frame_is_refused_because_pandera_would_only_look_at_its_schema() -> None:
    bad = from_rows("requests", [REQUEST]).with_columns(latency_ps=pl.lit(1, dtype=pl.Int64)).lazy()
    TABLES["requests"].validate(bad, lazy=True)  # the trap: pandera says nothing
    with pytest.raises(TypeError, match="eager"):
        validate("requests", bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", ["SCHEMA_ONLY", "SCHEMA_AND_DATA"])
def test_bad_data_is_refused_whatever_pandera_is_told(depth: str) -> None:
    bad = from_rows("requests", [REQUEST]).with_columns(latency_ps=pl.lit(1, dtype=pl.Int64))
    told = config_context(validation_enabled=False, validation_depth=ValidationDepth[depth])
    with told, pytest.raises(DocumentError):
        validate("requests", bad)


def test_many_bad_rows_give_a_short_message() -> None:
    one = from_rows("kernels", [KERNEL]).with_columns(busy_ns=pl.lit(nan), flops=pl.lit(-1, dtype=pl.Int64))
    with pytest.raises(DocumentError) as caught:
        validate("kernels", one.sample(100_000, with_replacement=True))
    assert len(str(caught.value)) < 2000


def test_empty_tables_are_valid_and_typed() -> None:
    for name in TABLES:
        assert validate(name, empty(name)).schema == polars_schema(name)


def test_columns_come_back_in_the_order_of_the_table() -> None:
    frame = from_rows("sweep", [GOOD["sweep"]])
    assert validate("sweep", frame.select(reversed(frame.columns))).columns == frame.columns


def test_every_column_says_unit_and_meaning() -> None:
    for name in TABLES:
        for row in describe(name):
            assert str(row["meaning"]).endswith("."), (name, row)
            numeric = str(row["type"]) in ("Int64", "Float64")
            assert numeric == bool(row["unit"]) or row["unit"] == "UTC", (name, row)


def test_unknown_column_and_unknown_table_are_named() -> None:
    with pytest.raises(DocumentError, match="surplus, row 0: expected a column of sweep"):
        from_rows("sweep", [{**GOOD["sweep"], "surplus": 1}])
    with pytest.raises(KeyError, match="no table 'nope'"):
        empty("nope")


def test_values_of_another_type_are_refused_as_such() -> None:
    with pytest.raises(DocumentError, match="values of the table's types"):
        from_rows("sweep", [{**GOOD["sweep"], "launches": "three"}])

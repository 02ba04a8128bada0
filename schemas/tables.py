"""All tables of a run by name, and the one way in: `validate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import pandera.polars as pa
import polars as pl
from pandera.config import ValidationDepth, config_context
from pandera.errors import SchemaError, SchemaErrors

from schemas.errors import TableError
from schemas.tables_judgement import CHECKS, HISTORY, MECHANISMS
from schemas.tables_plan import BUFFERS, KERNELS, METRICS, OPS, SWEEP
from schemas.tables_run import PROFILE_KERNELS, QUALITY, REQUESTS, TIMELINE, TRIALS

TABLES: Mapping[str, pa.DataFrameSchema] = MappingProxyType(
    {
        "ops": OPS,
        "kernels": KERNELS,
        "buffers": BUFFERS,
        "timeline": TIMELINE,
        "quality": QUALITY,
        "requests": REQUESTS,
        "profile_kernels": PROFILE_KERNELS,
        "trials": TRIALS,
        "metrics": METRICS,
        "sweep": SWEEP,
        "checks": CHECKS,
        "mechanisms": MECHANISMS,
        "history": HISTORY,
    }
)
MAX_PROBLEMS = 5


def validate(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with its columns in the table's order, once types, domains and row rules hold.

    Raises TableError that names table, column, row, expected and found; further problems follow, capped.
    Takes eager frames only: on a lazy one pandera would look at the schema and let bad data pass.
    """
    schema = _schema(name)
    if not isinstance(frame, pl.DataFrame):
        raise TypeError(f"table {name}: an eager polars DataFrame is needed, found {type(frame).__name__}: collect it")
    try:
        with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
            schema.validate(frame, lazy=True)
    except SchemaErrors as errors:
        raise _table_error(name, frame, errors.schema_errors) from None
    return frame.select(list(schema.columns))


def from_rows(name: str, rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """A validated frame from one mapping a row. A key that is left out is null; an unknown key is refused."""
    dtypes = polars_schema(name)
    listed = [dict(row) for row in rows]
    for number, row in enumerate(listed):
        unknown = sorted(set(row) - set(dtypes))
        if unknown:
            raise TableError(
                source=name, where=unknown[0], row=number, expected=f"a column of {name}", found="no such column",
                remedy=f"Its columns are {', '.join(dtypes)}.",
            )  # fmt: skip
    try:
        frame = pl.DataFrame(listed, schema=dtypes, orient="row")
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise TableError(
            source=name, where="a column", expected="values of the table's types", found=str(error).splitlines()[0],
            remedy="Give each column the type that the table says.",
        ) from error  # fmt: skip
    return validate(name, frame)


def empty(name: str) -> pl.DataFrame:
    """The table with no rows."""
    return pl.DataFrame(schema=polars_schema(name))


def polars_schema(name: str) -> dict[str, pl.DataType]:
    """Column name -> polars type, in the table's order."""
    return {column: spec.dtype.type for column, spec in _schema(name).columns.items()}


def describe(name: str) -> list[dict[str, str | bool]]:
    """One row for each column: column, type, unit, meaning, nullable."""
    return [
        {
            "column": column,
            "type": str(spec.dtype.type),
            "unit": str((spec.metadata or {}).get("unit", "")),
            "meaning": str((spec.metadata or {}).get("meaning", "")),
            "nullable": bool(spec.nullable),
        }
        for column, spec in _schema(name).columns.items()
    ]


def _schema(name: str) -> pa.DataFrameSchema:
    if name not in TABLES:
        raise KeyError(f"no table {name!r}: the tables are {', '.join(TABLES)}")
    return TABLES[name]


def _table_error(name: str, frame: pl.DataFrame, errors: list[SchemaError]) -> TableError:
    """One error out of all that pandera found: what concerns columns first, then the rows in order."""
    problems = sorted((_problem(frame, error) for error in errors), key=lambda problem: problem[1] is not None)
    column, row, expected, found = problems[0]
    shown = tuple(
        f"{where}{'' if at is None else f', row {at}'}: expected {wanted}, found {got}"
        for where, at, wanted, got in problems[1 : 1 + MAX_PROBLEMS]
    )
    hidden = len(problems) - 1 - len(shown)
    others = (*shown, f"{hidden} more") if hidden > 0 else shown
    return TableError(
        source=name, where=column, row=row, expected=expected, found=found, others=others,
        remedy="Write the table as its schema says (`tilegate schema` prints it).",
    )  # fmt: skip


def _problem(frame: pl.DataFrame, error: SchemaError) -> tuple[str, int | None, str, str]:
    """Column, row, expected, found of one pandera error."""
    reason = error.reason_code.name if error.reason_code is not None else ""
    if reason == "COLUMN_NOT_IN_DATAFRAME":
        return str(error.failure_cases), None, "a column of that name", "none"
    if reason == "COLUMN_NOT_IN_SCHEMA":
        return str(error.failure_cases), None, "only the table's columns", "a column that it does not have"
    column = str(error.schema.name)
    if reason == "WRONG_DATATYPE":
        return column, None, f"type {error.schema.dtype.type}", f"type {error.failure_cases}"
    row = _first_row(error)
    if reason == "SERIES_CONTAINS_NULLS":
        at = _first_without_value(frame[column])
        return column, at, "a value", _values(frame, [column], at)
    if isinstance(error.schema, pa.DataFrameSchema):
        columns = str(getattr(error.check, "name", "")).split(", ")
        return ", ".join(columns), row, str(getattr(error.check, "error", "")), _values(frame, columns, row)
    return column, row, _domain(error.check), _values(frame, [column], row)


def _first_without_value(series: pl.Series) -> int:
    """Row of the first null or NaN: pandera counts both as null."""
    lacking = series.is_null()
    if series.dtype.is_float():
        lacking = lacking | series.is_nan().fill_null(False)
    return int(lacking.arg_true()[0])


def _first_row(error: SchemaError) -> int | None:
    """Row of the first failing case: check_output holds one flag a row."""
    output: Any = error.check_output
    if not isinstance(output, pl.DataFrame):
        return None
    failed = output.to_series().not_().arg_true()
    return int(failed[0]) if len(failed) else None


def _domain(check: object) -> str:
    """What a column check expects, in words."""
    statistics: Mapping[str, object] = getattr(check, "statistics", None) or {}
    if "allowed_values" in statistics:
        return f"one of {', '.join(map(str, statistics['allowed_values']))}"  # type: ignore[call-overload]
    if "min_value" in statistics:
        return f"a value >= {statistics['min_value']}"
    if "max_value" in statistics:
        return f"a value <= {statistics['max_value']}"
    return str(getattr(check, "error", None) or getattr(check, "name", None) or check)


def _values(frame: pl.DataFrame, columns: list[str], row: int | None) -> str:
    present = [column for column in columns if column in frame.columns]
    if row is None or not present:
        return "other values"
    found = frame.select(present).row(row)
    if len(present) == 1:
        return repr(found[0])
    return ", ".join(f"{column}={value!r}" for column, value in zip(present, found, strict=True))

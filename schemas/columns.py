"""Columns and row rules that the tables are written in: each has a type, a unit, a meaning and a domain.

A column of numbers is finite unless it is null; polars counts NaN as larger than everything, so a lower bound alone
would let it pass. At most MAX_CASES failing rows are kept for each check.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandera.polars as pa
import polars as pl

MAX_CASES = 5
PICOSECONDS, NANOSECONDS, BYTES = "ps", "ns", "bytes"
INSTANT = pl.Datetime("us", "UTC")


def text(meaning: str, *, one_of: Sequence[str] | None = None, nullable: bool = False) -> pa.Column:
    """A text column; `one_of` lists the values it may hold."""
    checks = [] if one_of is None else [pa.Check.isin(list(one_of), n_failure_cases=MAX_CASES)]
    return _column(pl.String(), "", meaning, checks, nullable)


def integer(meaning: str, unit: str = "count", *, low: int | None = 0, nullable: bool = False) -> pa.Column:
    """A 64-bit integer column, at least `low` (none means any)."""
    checks = [] if low is None else [pa.Check.ge(low, n_failure_cases=MAX_CASES)]
    return _column(pl.Int64(), unit, meaning, checks, nullable)


def number(
    meaning: str, unit: str, *, low: float | None = 0.0, high: float | None = None, nullable: bool = False
) -> pa.Column:
    """A 64-bit float column, finite, within [low, high] (none means no bound)."""
    checks = [_finite()]
    checks += [] if low is None else [pa.Check.ge(low, n_failure_cases=MAX_CASES)]
    checks += [] if high is None else [pa.Check.le(high, n_failure_cases=MAX_CASES)]
    return _column(pl.Float64(), unit, meaning, checks, nullable)


def flag(meaning: str, *, nullable: bool = False) -> pa.Column:
    """A true-or-false column."""
    return _column(pl.Boolean(), "", meaning, [], nullable)


def instant(meaning: str) -> pa.Column:
    """A moment in time, UTC, to the microsecond."""
    return _column(INSTANT, "UTC", meaning, [], False)


def rule(columns: Sequence[str], expected: str, holds: pl.Expr) -> pa.Check:
    """A rule over the columns of one row. A null result counts as kept: write nulls into `holds` where they matter."""

    def check(data: pa.PolarsData) -> pl.LazyFrame:
        return data.lazyframe.select(holds.fill_null(True))

    return pa.Check(check, name=", ".join(columns), error=expected, n_failure_cases=MAX_CASES)


def table(name: str, meaning: str, columns: dict[str, pa.Column], rules: Sequence[pa.Check] = ()) -> pa.DataFrameSchema:
    """A table: exactly these columns, each of its type, and every rule kept by every row."""
    return pa.DataFrameSchema(columns, checks=list(rules), strict=True, name=name, description=meaning)


def _finite() -> pa.Check:
    def check(data: pa.PolarsData) -> pl.LazyFrame:
        return data.lazyframe.select(pl.col(data.key or "*").is_finite().fill_null(True))

    return pa.Check(check, name="finite", error="a finite number", n_failure_cases=MAX_CASES)


def _column(dtype: pl.DataType, unit: str, meaning: str, checks: list[pa.Check], nullable: bool) -> pa.Column:
    described = f"{meaning} Unit: {unit}." if unit else meaning
    return pa.Column(
        dtype, checks, nullable=nullable, description=described, metadata={"unit": unit, "meaning": meaning}
    )

"""Measured profiles of any known form as tables `profile_kernels`, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from accelmodel.importers.profile import read_profile
from accelmodel.profile import Column, Labels, Profile, ProfileRows
from schemas.errors import DocumentError, TableError
from schemas.tables import polars_schema, validate

TABLE = "profile_kernels"
PARQUET = b"PAR1"
_TEXTS = ("device", "stream", "name", "grid", "block")


def load_profile(path: Path) -> Profile:
    """The profile in a file: what a profiler wrote, or a Parquet file in the layout of `profile_kernels`."""
    return _from_parquet(path) if _is_parquet(path) else read_profile(path)


def profile_frame(rows: ProfileRows, side: str, workload: str) -> pl.DataFrame:
    """Kernels as a validated table; what a profile does not hold is null."""
    columns = {name: getattr(rows, name) for name in polars_schema(TABLE) if name not in ("side", "workload")}
    series = [_series(name, column) for name, column in columns.items()]
    frame = pl.DataFrame(series).with_columns(side=pl.lit(side), workload=pl.lit(workload))
    return validate(TABLE, frame.select(list(polars_schema(TABLE))))


def profile_rows(frame: pl.DataFrame) -> ProfileRows:
    """The kernels of a table, which holds those of one side and workload."""
    columns: dict[str, Any] = {
        name: Labels.of(frame[name].to_list()) if name in _TEXTS else _column(frame[name])
        for name in polars_schema(TABLE)
        if name not in ("side", "workload", "duration_ns")
    }
    return ProfileRows(**columns, duration_ns=frame["duration_ns"].to_numpy())


def _series(name: str, column: Column | Labels | np.ndarray) -> pl.Series:
    if isinstance(column, Labels):
        places = np.where(column.codes < 0, len(column.names), column.codes)
        return pl.Series(name, [*column.names, None], dtype=pl.String).gather(places)
    if isinstance(column, Column):
        known = pl.Series(column.known)
        return pl.select(pl.when(known).then(pl.Series(column.values)).alias(name)).to_series()
    return pl.Series(name, column)


def _column(series: pl.Series) -> Column:
    return Column(series.fill_null(0).to_numpy(), series.is_not_null().to_numpy())


def _is_parquet(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(4) == PARQUET


def _from_parquet(path: Path) -> Profile:
    try:
        frame = pl.read_parquet(path, memory_map=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DocumentError(
            source=str(path), where="file", expected="a Parquet file", found=str(error).splitlines()[0],
            remedy="Write the profile in the layout that `tilegate schema profile_kernels` prints.",
        ) from error  # fmt: skip
    filled = frame.with_columns(
        *(pl.lit("candidate").alias(name) for name in ("side",) if name not in frame.columns),
        *(pl.lit("profile").alias(name) for name in ("workload",) if name not in frame.columns),
    )
    try:
        valid = validate(TABLE, filled)
    except TableError as error:
        raise DocumentError(
            source=str(path), where=error.where, row=error.row, expected=error.expected, found=error.found,
            others=error.others, remedy="Write it in the layout that `tilegate schema profile_kernels` prints.",
        ) from error  # fmt: skip
    apart = valid.select("side", "workload").unique().height
    if apart > 1:
        raise DocumentError(
            source=str(path), where="side, workload", expected="the kernels of one side and workload",
            found=f"{apart} of them", remedy="Give one file for each.",
        )  # fmt: skip
    findings = () if valid.height else ("The table has no row: nothing was measured.",)
    return Profile(kind="table", rows=profile_rows(valid), findings=findings)

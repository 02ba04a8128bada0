"""Primary metrics over all runs: one Parquet file beside them, each run in it once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flows.progress import warn
from flows.store import Store, StoreError, read_table, write_table
from schemas.errors import DocumentError

if TYPE_CHECKING:
    import polars as pl

HISTORY = "history"
DAMAGED = ".damaged-"  # between the file's name and a number, of a history that could not be read


def read_history(store: Store) -> pl.DataFrame:
    """All rows, oldest run first; no rows where there is no history yet. StoreError where it is damaged."""
    from schemas.tables import empty, validate

    path = history_path(store)
    if path.exists() and not path.is_file():
        raise StoreError(f"{path}: expected a table, found a folder. Move it away; the next run begins a history.")
    if not path.exists():
        return empty(HISTORY)
    try:
        return validate(HISTORY, read_table(path))
    except DocumentError as error:
        raise StoreError(
            f"{path}: expected the table of all runs, found another ({error.where}: {error.found}). Run any candidate "
            "again: it moves this file aside and begins a new one."
        ) from error


def history_path(store: Store) -> Path:
    """The file; what could not be read stands beside it, with DAMAGED in its name."""
    return store.root / f"{HISTORY}.parquet"


def append_history(store: Store, rows: pl.DataFrame) -> pl.DataFrame:
    """Put the rows of one run in, in place of what the same run put in before. Gives the whole history."""
    import polars as pl

    with store.lock(HISTORY):
        old = _readable(store).filter(~pl.col("run_id").is_in(rows["run_id"].unique().to_list()))
        whole = pl.concat([old, rows.select(old.columns)]).sort("created", maintain_order=True)
        write_table(store.root, HISTORY, whole)
    return whole


def _readable(store: Store) -> pl.DataFrame:
    """The history; one that is damaged is moved aside, so that it stops no run, and a new one begins."""
    import polars as pl

    try:
        return read_history(store)
    except StoreError as error:
        if not isinstance(error.__cause__, pl.exceptions.PolarsError | DocumentError):
            raise  # a folder, or a file that may not be read: nothing says that its rows are lost
        path = history_path(store)
        number = 1 + len(list(store.root.glob(f"{path.name}{DAMAGED}*")))
        aside = path.with_name(f"{path.name}{DAMAGED}{number}")
        path.replace(aside)
        warn(f"{path} could not be read. It is now {aside.name}, and a new history begins with this run.")
        return read_history(store)

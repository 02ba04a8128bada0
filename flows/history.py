"""Primary metrics over all runs: one Parquet file beside them, each run in it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.store import Store, read_table, write_table

if TYPE_CHECKING:
    import polars as pl

HISTORY = "history"


def read_history(store: Store) -> pl.DataFrame:
    """All rows, oldest run first; no rows where there is no history yet."""
    from schemas.tables import empty, validate

    path = store.root / f"{HISTORY}.parquet"
    return validate(HISTORY, read_table(path)) if path.is_file() else empty(HISTORY)


def append_history(store: Store, rows: pl.DataFrame) -> pl.DataFrame:
    """Put the rows of one run in, in place of what the same run put in before. Gives the whole history."""
    import polars as pl

    with store.lock(HISTORY):
        old = read_history(store).filter(~pl.col("run_id").is_in(rows["run_id"].unique().to_list()))
        whole = pl.concat([old, rows.select(old.columns)]).sort("created", maintain_order=True)
        write_table(store.root, HISTORY, whole)
    return whole

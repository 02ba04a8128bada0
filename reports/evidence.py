"""What a report is made from: the documents and tables of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from schemas.candidate import SIDES, Candidate
from schemas.decision import Decision, Run


@dataclass(frozen=True, slots=True)
class Evidence:
    """Documents and validated tables of one run. A table that the run did not write is left out of `tables`."""

    run: Run
    decision: Decision
    candidate: Candidate
    tables: Mapping[str, pl.DataFrame]

    def table(self, name: str) -> pl.DataFrame | None:
        """The table, or None where it is absent or holds no row: both read `missing`, never zero."""
        frame = self.tables.get(name)
        return None if frame is None or frame.is_empty() else frame

    def missing(self, name: str) -> str:
        """Why a table cannot be shown, for the reader."""
        return f"{name}: {'the run wrote no row of it' if name in self.tables else 'the run did not write it'}"

    @property
    def workloads(self) -> tuple[str, ...]:
        """Names of the workloads, in the candidate file's order."""
        return tuple(workload.name for workload in self.candidate.workloads)


def side_order() -> pl.Expr:
    """Sort key that puts the comparator before the candidate."""
    return pl.col("side").replace_strict({side: index for index, side in enumerate(SIDES)}, return_dtype=pl.Int8)

"""Which plans a run made, in the order that a reader needs them: most traffic first."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from reports import words
from reports.evidence import Evidence

KEYS = ["workload", "bucket", "batch"]


@dataclass(frozen=True, slots=True)
class PlanKey:
    """One plan of both sides. weight: its share of the traffic, None where the metrics do not say."""

    workload: str
    bucket: str
    batch: int
    weight: float | None

    @property
    def name(self) -> str:
        return f"{self.workload}, {self.bucket}, batch {self.batch}"

    @property
    def traffic(self) -> str:
        return "share of traffic missing" if self.weight is None else f"{words.percent(self.weight)} of traffic"

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The plan's rows of a table."""
        return frame.filter(
            (pl.col("workload") == self.workload) & (pl.col("bucket") == self.bucket) & (pl.col("batch") == self.batch)
        )


def plan_keys(evidence: Evidence, frame: pl.DataFrame) -> tuple[PlanKey, ...]:
    """Every plan in the frame: most traffic on either side first, then in the frame's order."""
    keys = frame.select(KEYS).unique(maintain_order=True)
    metrics = evidence.table("metrics")
    if metrics is None:
        return tuple(PlanKey(workload, bucket, batch, None) for workload, bucket, batch in keys.iter_rows())
    # The two sides may batch differently: a plan matters as much as the side that uses it most.
    weights = metrics.group_by(KEYS).agg(pl.col("weight").max())
    joined = keys.join(weights, on=KEYS, how="left", maintain_order="left")
    ordered = joined.sort(pl.col("weight").fill_null(-1.0), descending=True, maintain_order=True)
    return tuple(PlanKey(*row) for row in ordered.select(*KEYS, "weight").iter_rows())

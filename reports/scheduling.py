"""Scheduling: how waits come and go over the run, how evenly cores are loaded, how fairly streams are served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from reports import charts, words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Charts, Column, Fold, Missing, Row, Section, Table
from reports.evidence import Evidence
from reports.matrix import growing
from reports.tails import settled
from schemas.candidate import SIDES

_BINS: Final = 60
_MOST_ROWS: Final = 64
"""Slots or streams of one side that a table shows; those with most requests first."""
_WAIT = pl.col("queueing_ps") + pl.col("imbalance_ps") + pl.col("batching_ps")
_LATENCY = pl.col("latency_ps")
_TITLE = "Queue, cores and streams"
_LEAD = (
    "Waits before the start, over the run; how long each slot (set of cores) was occupied; what each stream got. "
    "Jain's index is 1 where all are alike and 1 ÷ n where one of n has everything."
)


@dataclass(frozen=True, slots=True)
class Spread:
    """One slot or stream of one side. load: share of the run that the slot was occupied, or of the stream's time in the
    system that its requests were served."""

    name: str
    requests: int
    load: float
    p99_ns: float


def section(evidence: Evidence) -> Section:
    requests = evidence.table("requests")
    if requests is None:
        return Section("scheduling", _TITLE, _LEAD, (Missing(evidence.missing("requests")),))
    kept = settled(requests, evidence.candidate.traffic.warmup_share)
    done = kept.filter(pl.col("status") == "completed")
    if done.is_empty():
        return Section("scheduling", _TITLE, _LEAD, (Missing("scheduling: no request completed"),))
    cores = {side: cores_of(done.filter(pl.col("side") == side)) for side in SIDES}
    streams = {side: streams_of(done.filter(pl.col("side") == side)) for side in SIDES}
    waits, endless = waits_over_time(done), growing(evidence) is not None
    chart = charts.lines(
        "chart-waits", "Wait before the start, over the run", "Mean wait of requests by time of arrival, both sides.",
        waits, x=("time_s", "arrival, s"), y=("wait_us", "mean wait, µs"),
    )  # fmt: skip
    fairness = Table(
        "Fairness: Jain's index", (Column("Over"), *(Column(side, numeric=True) for side in SIDES)),
        (
            _fairness("load of the slots", cores, "load"),
            _fairness("share of their time in the system that streams are served", streams, "load"),
            *(() if endless else (_fairness("p99 of the streams", streams, "p99_ns"),)),
        ),
    )  # fmt: skip
    blocks: tuple[Block, ...] = (
        Charts((chart,)),
        fairness,
        Fold("Wait before the start, over the run", (_waits(waits),)),
        Fold("Load of each slot", tuple(_spread("slot", "Occupied", side, cores[side], endless) for side in SIDES)),
        Fold(
            "Service of each stream",
            tuple(_spread("stream", "Served", side, streams[side], endless) for side in SIDES),
        ),
    )
    return Section("scheduling", _TITLE, _LEAD, blocks)


def waits_over_time(done: pl.DataFrame) -> list[dict[str, Any]]:
    """side, time_s, wait_us: mean wait of the requests that arrive in each of equal bins, over all replications."""
    last = max(1, int(done["arrival_ps"].max()))  # type: ignore[arg-type]  # not empty
    width = -(-last // _BINS)
    bins = done.group_by("side", time_s=(pl.col("arrival_ps") // width + 0.5) * width / 1e12).agg(
        wait_us=(_WAIT.mean() / 1e6).round(3)
    )
    return bins.sort("side", "time_s").to_dicts()


def _waits(waits: list[dict[str, Any]]) -> Table:
    by_side = {side: {row["time_s"]: row["wait_us"] for row in waits if row["side"] == side} for side in SIDES}
    times = sorted({row["time_s"] for row in waits})
    columns = (Column("Arrival, s", numeric=True), *(Column(f"{side}, µs", numeric=True) for side in SIDES))
    rows = tuple(
        Row(
            row_id("scheduling", "waits", index),
            (Cell(words.number(time)), *(Cell(_wait(by_side[side].get(time))) for side in SIDES)),
        )
        for index, time in enumerate(times)
    )
    return Table("Mean wait of the requests that arrive around each time", columns, rows, fold_after=12)


def _wait(value: float | None) -> str:
    return "no requests" if value is None else words.number(value)


def cores_of(done: pl.DataFrame) -> list[Spread]:
    """Each slot of one side over all replications: a batch occupies it from its start to its last completion."""
    if done.is_empty():
        return []
    runs = done.group_by("replication", "slot", "batch").agg(
        busy=pl.col("completion_ps").max() - pl.col("start_ps").min()
    )
    spans = done.group_by("replication").agg(span=pl.col("completion_ps").max() - pl.col("arrival_ps").min())
    total_ps = max(1, int(spans["span"].sum()))
    busy = dict(runs.group_by("slot").agg(pl.col("busy").sum()).iter_rows())
    return [
        Spread(str(slot), count, busy[slot] / total_ps, p99)
        for slot, count, p99 in _counted(done, "slot").sort("slot").iter_rows()
    ]


def streams_of(done: pl.DataFrame) -> list[Spread]:
    """Each stream of one side over all replications."""
    served = done.group_by("stream").agg(((_LATENCY - _WAIT).sum() / _LATENCY.sum().clip(1)).alias("share"))
    shares = dict(served.iter_rows())
    return [
        Spread(str(stream), count, shares[stream], p99)
        for stream, count, p99 in _counted(done, "stream").sort("stream").iter_rows()
    ]


def _counted(done: pl.DataFrame, key: str) -> pl.DataFrame:
    p99 = _LATENCY.quantile(0.99, "higher") / 1e3
    return done.group_by(key).agg(pl.len().alias("requests"), p99.alias("p99_ns"))


def jain(values: list[float]) -> float | None:
    """(sum x)^2 / (n sum x^2) (Jain, Chiu, Hawe 1984); None of nothing, or where all are 0."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def _fairness(name: str, found: dict[str, list[Spread]], field: str) -> Row:
    indices = [jain([float(getattr(item, field)) for item in found[side]]) for side in SIDES]
    cells = (Cell(name), *(Cell(words.number(index)) for index in indices))
    return Row(row_id("scheduling", "fairness", name), cells)


def _spread(kind: str, load: str, side: str, found: list[Spread], endless: bool) -> Table:
    kept = sorted(found, key=lambda item: -item.requests)[:_MOST_ROWS]
    scale = words.time_scale(item.p99_ns for item in kept)
    columns = (
        Column(kind.capitalize()),
        Column("Requests", numeric=True),
        Column(load, numeric=True),
        Column(f"p99, {scale.unit}", numeric=True),
    )
    rows = tuple(
        Row(
            row_id("scheduling", kind, side, item.name),
            (Cell(item.name), Cell(words.number(item.requests)), Cell(words.percent(item.load)),
             Cell("no percentile", tone="warn") if endless else Cell(scale.text(item.p99_ns))),
        )
        for item in kept
    )  # fmt: skip
    left = f"; {len(found) - len(kept)} more in requests.parquet" if len(found) > len(kept) else ""
    return Table(f"{side}{left}", columns, rows)

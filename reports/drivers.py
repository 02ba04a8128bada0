"""Tail-latency drivers: what the slowest requests have that the median has not."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import Final, get_args

import polars as pl

from reports import charts, words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Charts, Column, Fold, Missing, Note, Row, Section, Table, Tone
from reports.evidence import Evidence
from reports.tails import settled
from schemas.candidate import SIDES
from schemas.decision import Driver

DRIVERS: Final[tuple[str, ...]] = get_args(Driver)
SLOWEST: Final = 0.95
SLOWEST_5: Final = "slowest 5\u00a0%"
SLOWEST_1: Final = "slowest 1\u00a0%"
MIDDLE: Final = (0.45, 0.55)
MEANINGS: Final[dict[str, str]] = {
    "queueing": "waiting while every eligible core is busy",
    "imbalance": "waiting while an eligible core is idle, or at a barrier for the slowest core",
    "batching": "waiting for a batch to fill",
    "launch": "exposed launch time",
    "compute": "engine time",
    "memory": "time beyond compute when alone on the machine",
    "contention": "time beyond that because DRAM is shared",
    "sync": "the fixed cost of barriers",
    "noise": "what the noise model adds",
    "throttle": "what the clock schedule adds",
    "fallback": "all time on the fallback kind",
}


@dataclass(frozen=True, slots=True)
class Shares:
    """Mean of each driver among the middle requests and among the slowest, ns, of one side in one scope."""

    side: str
    scope: str
    middle_ns: tuple[float, ...]  # [driver]
    slowest_ns: tuple[float, ...]  # [driver]

    @property
    def excess_ns(self) -> tuple[float, ...]:
        """What the slowest have beyond the middle, by driver."""
        return tuple(slow - middle for slow, middle in zip(self.slowest_ns, self.middle_ns, strict=True))


def shares(requests: pl.DataFrame, scope: str, slowest: float = SLOWEST) -> tuple[Shares, ...]:
    """Both sides' drivers over settled, completed requests of one scope, pooled over the replications. slowest: the
    quantile from which on a request is one of the slowest."""
    part = requests if scope == "overall" else requests.filter(pl.col("workload") == scope)
    found = []
    for side in SIDES:
        done = part.filter((pl.col("side") == side) & (pl.col("status") == "completed"))
        if done.is_empty():
            continue
        low, high, slow = (done["latency_ps"].quantile(level, "nearest") for level in (*MIDDLE, slowest))
        latency = pl.col("latency_ps")
        found.append(Shares(side, scope, _means(done, latency.is_between(low, high)), _means(done, latency >= slow)))
    return tuple(found)


def _means(done: pl.DataFrame, band: pl.Expr) -> tuple[float, ...]:
    row = done.lazy().filter(band).select(pl.col(f"{driver}_ps").mean() / 1e3 for driver in DRIVERS).collect().row(0)
    return tuple(float(value) for value in row)


def section(evidence: Evidence) -> Section:
    title, lead = "Tail-latency drivers", (
        "Where the time of the slowest 5 % of requests goes, beside requests in the middle (45th to 55th percentile). "
        "The drivers of each request sum exactly to its latency. The excess is what the tail has that the middle has "
        "not."
    )  # fmt: skip
    requests = evidence.table("requests")
    if requests is None:
        return Section("drivers", title, lead, (Missing(evidence.missing("requests")),))
    kept = settled(requests, evidence.candidate.traffic.warmup_share)
    scopes = ("overall", *evidence.workloads) if len(evidence.workloads) > 1 else ("overall",)
    by_scope = [(scope, found) for scope in scopes if (found := shares(kept, scope))]
    if not by_scope:
        return Section("drivers", title, lead, (Missing("drivers: no request completed"),))
    drawn = tuple(
        charts.drivers(f"chart-drivers-{index}", scope, _long(found)) for index, (scope, found) in enumerate(by_scope)
    )
    blocks: tuple[Block, ...] = (
        Note(headline(by_scope[0][1])),
        Charts(drawn),
        _table(*by_scope[0]),
        *(
            Fold("Drivers of the slowest 1 %", (_table(by_scope[0][0], rarest, SLOWEST_1),))
            for rarest in [shares(kept, by_scope[0][0], 0.99)]
            if rarest
        ),
        *(Fold(f"Drivers of {scope}", (_table(scope, found),)) for scope, found in by_scope[1:]),
    )
    return Section("drivers", title, lead, blocks)


def headline(found: tuple[Shares, ...]) -> str:
    """The driver with the largest excess, side by side."""
    parts = []
    for side in found:
        total = sum(value for value in side.excess_ns if value > 0)
        top = max(range(len(DRIVERS)), key=lambda index: side.excess_ns[index])
        if total <= 0:
            parts.append(f"{side.side}: no driver is larger in the tail than in the middle")
            continue
        part = words.percent(side.excess_ns[top] / total)
        parts.append(f"{side.side}: mostly {DRIVERS[top]} ({part} of the tail's excess; {MEANINGS[DRIVERS[top]]})")
    return f"{'; '.join(parts)}."


def _long(found: tuple[Shares, ...]) -> list[dict[str, object]]:
    """One row for each bar segment: side, part, driver, order, time_ns."""
    return [
        {"side": side.side, "part": part, "driver": driver, "time_ns": value, "order": DRIVERS.index(driver)}
        for side in found
        for part, values in (("middle", side.middle_ns), ("slowest 5 %", side.slowest_ns))
        for driver, value in zip(DRIVERS, values, strict=True)
        if value > 0
    ]


def _table(scope: str, found: tuple[Shares, ...], slowest: str = SLOWEST_5) -> Table:
    scale = words.time_scale(value for side in found for value in side.slowest_ns)
    columns = [Column("Driver")]
    for side in found:
        columns += [
            Column(f"{side.side} middle, {scale.unit}", numeric=True),
            Column(f"{side.side} {slowest}, {scale.unit}", numeric=True),
            Column(f"{side.side} excess, {scale.unit}", numeric=True),
            Column(f"{side.side} share of excess", numeric=True),
        ]
    used = [index for index in range(len(DRIVERS)) if any(s.middle_ns[index] or s.slowest_ns[index] for s in found)]
    tops = [max(side.excess_ns) for side in found]
    used.sort(key=lambda index: -max(side.excess_ns[index] for side in found))
    keys = (scope,) if slowest == SLOWEST_5 else (scope, slowest)
    rows = tuple(_driver_row(keys, index, scale, found, tops) for index in used)
    return Table(f"Drivers, {scope}: largest excess first; drivers that are zero everywhere are left out",
                 tuple(columns), rows)  # fmt: skip


def _driver_row(
    keys: tuple[str, ...], index: int, scale: words.Scale, found: tuple[Shares, ...], tops: list[float]
) -> Row:
    driver = DRIVERS[index]
    cells = [Cell(driver, sub=MEANINGS[driver])]
    longest_ns = max(max(side.slowest_ns) for side in found)
    for side, top in zip(found, tops, strict=True):
        excess = side.excess_ns[index]
        total = sum(value for value in side.excess_ns if value > 0)
        tone: Tone = "bad" if excess == top and excess > 0 else ""
        cells += [
            Cell(time_cell(side.middle_ns[index], scale, longest_ns)),
            Cell(time_cell(side.slowest_ns[index], scale, longest_ns)),
            Cell(time_cell(excess, scale, longest_ns), tone=tone),
            Cell(words.percent(excess / total) if total > 0 and excess > 0 else "none", tone=tone),
        ]
    return Row(row_id("drivers", *keys, driver), tuple(cells))


def time_cell(value_ns: float, scale: words.Scale, longest_ns: float) -> str:
    """A time of the table; one that is far below the longest reads as nearly none."""
    least_ns = scale.per_unit * 10.0 ** (floor(log10(longest_ns / scale.per_unit)) - 3) if longest_ns > 0 else 0.0
    if 0 < abs(value_ns) < least_ns:
        return words.NEARLY_NONE
    return scale.text(value_ns)

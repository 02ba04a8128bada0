"""Tails before averages: latency percentiles of both sides under the same arrivals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final

import polars as pl

from reports import charts, words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Charts, Column, Missing, Note, Row, Section, Table, Tone
from reports.evidence import Evidence
from reports.matrix import growing, grows

STATISTICS: Final = ("p99", "p95", "p50", "mean")
"""In reading order: the tail first."""
_CURVE_POINTS: Final = 90
_FIRST: Final = 1 / 0.9
"""Where a curve starts, as 1 / (1 - q): the 10th percentile."""
_LEAST_BEYOND: Final = 10
"""Fewest requests beyond the last percentile that a curve shows: fewer would draw an outlier as a trend."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Latency of one side in one scope, ns. Each statistic is taken in each replication, then averaged over them.

    A percentile is the latency at rank ceil(q x N) of all N requests, where a rejected one counts as later than any
    other; None where that rank is a rejected request in any replication. The mean is over completed requests.
    rejected: requests without an answer, those that timed out among them."""

    side: str
    scope: str
    p99_ns: float | None
    p95_ns: float | None
    p50_ns: float | None
    mean_ns: float | None
    completed: int
    rejected: int

    @property
    def rejected_share(self) -> float:
        return self.rejected / (self.completed + self.rejected)


def settled(requests: pl.DataFrame, warmup_share: float) -> pl.DataFrame:
    """The requests without the first `warmup_share` of each replication, as the checks see them."""
    if warmup_share == 0:
        return requests
    count = pl.col("request").max().over("side", "replication") + 1
    return requests.filter(pl.col("request") >= count * warmup_share)


def tails(requests: pl.DataFrame) -> dict[tuple[str, str], Tail]:
    """(side, scope) -> latency statistics of settled requests, for `overall` and every workload."""
    columns = ["side", "replication", "workload", "status", "latency_ps"]
    slim = requests.lazy().select(columns)
    scoped = pl.concat([slim.with_columns(scope=pl.lit("overall")), slim.with_columns(scope=pl.col("workload"))])
    latency = pl.col("latency_ps").sort(nulls_last=True)
    per_replication = scoped.group_by("side", "scope", "replication").agg(
        **{f"p{level}_ns": latency.get(_rank(pl.len(), level / 100)) / 1e3 for level in (99, 95, 50)},
        mean_ns=pl.col("latency_ps").mean() / 1e3,
        completed=(pl.col("status") == "completed").sum(),
        rejected=(pl.col("status") != "completed").sum(),  # or timed out: neither got an answer
    )
    known = ("p99_ns", "p95_ns", "p50_ns", "mean_ns")
    rows = (
        per_replication.group_by("side", "scope")
        .agg(
            *(pl.when(pl.col(name).is_not_null().all()).then(pl.col(name).mean()).alias(name) for name in known),
            pl.col("completed", "rejected").sum(),
        )
        .collect()
    )
    return {(row["side"], row["scope"]): Tail(**row) for row in rows.to_dicts()}


def _rank(count: pl.Expr, quantile: float) -> pl.Expr:
    """Index of the request at rank ceil(q x N); the small step back keeps rounding from moving a whole rank on."""
    return (count * quantile - 1e-9).ceil().cast(pl.Int64) - 1


def curves(requests: pl.DataFrame) -> pl.DataFrame:
    """Quantile curves: columns side, scope, beyond (1 / (1 - q)), latency_ns; at most _CURVE_POINTS for each curve.

    Pooled over the replications, by the rank rule of `Tail`. Each ends where fewer than _LEAST_BEYOND requests lie
    beyond, or where rejected ones begin."""
    slim = requests.select("side", "workload", "latency_ps")
    frames = []
    for (side, scope), part in slim.group_by(["side", "workload"], maintain_order=True):
        latency = part["latency_ps"].sort(nulls_last=True)
        ratio = max(2.0, len(part) / _LEAST_BEYOND) / _FIRST
        steps = [_FIRST * ratio ** (index / (_CURVE_POINTS - 1)) for index in range(_CURVE_POINTS)]
        ranks = [max(0, ceil(len(part) * (1 - 1 / step) - 1e-9) - 1) for step in steps]
        frame = pl.DataFrame({"side": side, "scope": scope, "beyond": steps, "latency_ns": latency.gather(ranks) / 1e3})
        frames.append(frame.drop_nulls())
    return pl.concat(frames) if frames else pl.DataFrame(schema=["side", "scope", "beyond", "latency_ns"])


def section(evidence: Evidence) -> Section:
    title, lead = "Tails before averages", (
        "Latency from scheduled arrival to completion. Both sides saw the same arrivals. Each number is taken in each "
        "replication and then averaged over them; the start-up of each replication is left out. A request that was "
        "rejected or timed out counts as later than any other."
    )  # fmt: skip
    requests = evidence.table("requests")
    if requests is None:
        return Section("tails", title, lead, (Missing(evidence.missing("requests")),))
    kept = settled(requests, evidence.candidate.traffic.warmup_share)
    found = tails(kept)
    return Section("tails", title, lead, (_table(evidence, found), *_charts(evidence, kept)))


def _charts(evidence: Evidence, kept: pl.DataFrame) -> tuple[Block, ...]:
    points = curves(kept).filter(pl.col("latency_ns") > 0)  # a log axis has no place for zero
    if points.is_empty():
        return (Missing("latency curves: no request completed in more than no time"),)
    drawn = tuple(
        charts.quantiles(f"chart-tail-{index}", workload, points.filter(pl.col("scope") == workload))
        for index, workload in enumerate(evidence.workloads)
        if workload in points["scope"]
    )
    note = f"Each curve ends where fewer than {_LEAST_BEYOND} requests lie beyond it, or where rejected ones begin."
    return (Charts(drawn), Note(note, tone="muted"))


def _table(evidence: Evidence, found: dict[tuple[str, str], Tail]) -> Table:
    scopes = [scope for scope in ("overall", *evidence.workloads) if any((side, scope) in found for side in
              ("comparator", "candidate"))]  # fmt: skip
    scale = words.time_scale(tail.p99_ns for tail in found.values())
    columns = (
        Column("Scope"),
        Column("Statistic"),
        Column(f"Comparator, {scale.unit}", numeric=True),
        Column(f"Candidate, {scale.unit}", numeric=True),
        Column(
            "Change",
            numeric=True,
            hint="As in the validation matrix where the policy checks it: the mean of the paired ratios of the "
            "replications. Else the ratio of the two means shown, and says so.",
        ),
        Column("Requests", numeric=True, hint="Completed requests behind the two numbers."),
    )
    checks = evidence.table("checks")
    checked = {(row["metric"], row["scope"]): row for row in ([] if checks is None else checks.to_dicts())}
    endless = growing(evidence)  # then no scope has a percentile
    rows = []
    for scope in scopes:
        pair = (found.get(("comparator", scope)), found.get(("candidate", scope)))
        rows += [
            _statistic_row(scope, statistic, scale, *pair, endless or checked.get((f"latency_{statistic}_us", scope)))
            for statistic in STATISTICS
        ]
        rows.append(_rejected_row(scope, *pair))
    return Table("Latency, tail first", columns, tuple(rows))


def _statistic_row(
    scope: str,
    statistic: str,
    scale: words.Scale,
    comparator: Tail | None,
    candidate: Tail | None,
    check: dict[str, Any] | None,
) -> Row:
    before, after = (None if tail is None else getattr(tail, f"{statistic}_ns") for tail in (comparator, candidate))
    without = (check["comparator_value"] is None, True) if check is not None and grows(check) else (False, False)
    shown = (
        Cell("no percentile", tone="warn") if none else Cell(scale.text(value), tone="warn" if value is None else "")
        for none, value in zip(without, (before, after), strict=True)
    )
    cells = (
        Cell(scope),
        Cell(statistic),
        *shown,
        _change(before, after, check),
        Cell(_counts(comparator, candidate)),
    )
    return Row(row_id("tails", scope, statistic), cells)


def _change(before: float | None, after: float | None, check: dict[str, Any] | None) -> Cell:
    """The matrix's change where it has one, so that the page never says two things of one metric."""
    if check is not None and grows(check):
        return Cell("no percentile", sub="the queue grows", tone="bad" if check["status"] == "fail" else "warn")
    if before is None or after is None or check is None or check["change"] is None:
        cell = change_cell(before, after)
        return cell if cell.text == words.MISSING else replace(cell, sub="ratio of the means")
    return Cell(words.worsening(check["change"]), sub="as in the matrix", tone=_tone(check["change"]))


def change_cell(before: float | None, after: float | None) -> Cell:
    """Relative change of a value of which less is better."""
    if before is None or after is None or before == 0:
        return Cell(words.MISSING, tone="warn")
    change = after / before - 1
    return Cell(words.worsening(change), tone=_tone(change))


def _tone(change: float) -> Tone:
    return "bad" if change > 0.005 else "good" if change < -0.005 else ""


def _rejected_row(scope: str, comparator: Tail | None, candidate: Tail | None) -> Row:
    shares = [None if tail is None else tail.rejected_share for tail in (comparator, candidate)]
    known = [share for share in shares if share is not None]
    change = words.points(known[1] - known[0]) if len(known) == 2 else words.MISSING
    cells = (
        Cell(scope), Cell("rejected or timed out"), *(Cell(words.percent(share)) for share in shares), Cell(change),
        Cell(_counts(comparator, candidate)),
    )  # fmt: skip
    return Row(row_id("tails", scope, "rejected"), cells)


def _counts(comparator: Tail | None, candidate: Tail | None) -> str:
    counts = [None if tail is None else tail.completed for tail in (comparator, candidate)]
    if counts[0] == counts[1]:
        return words.number(counts[0])
    return " and ".join(words.number(count) for count in counts)

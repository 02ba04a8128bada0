"""Rollback: measurable conditions to go back, and the rehearsal that shows that they fire and that going back helps.

A criterion is evaluated over windows of the last `min_samples` finished requests, provided that they finished within
`window_s`. Its threshold rests on the comparator's own worst window, so that the stable release itself stays quiet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt
import polars as pl

from flows.judge import words
from flows.judge.checks import CheckResult
from flows.judge.facts import FACTS
from schemas.decision import Drill, RollbackCriterion
from schemas.policy import Check, Metric, Policy, Rollback

_PS_PER_US = 1e6
_PS_PER_S = 1e12
_STRIDES = 20  # windows start a twentieth of a window apart
INJECTED_FACTOR = 2.0
_PERCENTILES = {metric: facts.quantile for metric, facts in FACTS.items() if facts.quantile is not None}
WINDOWED: tuple[Metric, ...] = (*_PERCENTILES, "latency_mean_us", "rejected_share", "sla_missed_share")
"""Metrics of a window of requests that criteria can rest on."""


@dataclass(frozen=True, slots=True)
class Served:
    """One side's requests in order of completion, replications one after the other. [N] each.

    arrival_ps: scheduled arrival. done_ps: completion; of a rejected request its arrival. latency_us: infinite where
    rejected. missed: whether the stamped latency target was missed. side: for messages.
    """

    arrival_ps: npt.NDArray[np.int64]
    done_ps: npt.NDArray[np.int64]
    latency_us: npt.NDArray[np.float64]
    missed: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.done_ps)


def served(requests: pl.DataFrame, side: str) -> Served:
    """One side of the table `requests`: replications are put on one clock, each after the one before."""
    own = requests.filter(pl.col("side") == side).with_columns(
        done_ps=pl.coalesce("completion_ps", "arrival_ps"),
        latency_us=(pl.col("latency_ps") / _PS_PER_US).fill_null(inf),
        missed=(~pl.col("sla_met")).fill_null(pl.col("status") != "completed"),
    )
    # Both sides must get the same shifts, so that a clock taken from arrivals only separates the replications.
    span = int(requests.select(pl.max_horizontal("completion_ps", "arrival_ps").max()).item() or 0) + 1
    shift = pl.col("replication") * span
    own = own.with_columns(pl.col("arrival_ps") + shift, pl.col("done_ps") + shift).sort("done_ps", "request")
    return Served(*(own[name].to_numpy() for name in ("arrival_ps", "done_ps", "latency_us", "missed")))


def criteria(policy: Policy, results: Sequence[CheckResult], comparator: Served) -> tuple[RollbackCriterion, ...]:
    """One criterion for each blocking check that failed and that a runtime can measure; else for each tail check.

    Threshold: the comparator's worst window x (1 + tolerance), or the limit of an absolute check. A check whose windows
    never fill (fewer requests than min_samples within window_s) gives no criterion.
    """
    measurable = [result.check for result in results if result.blocking and result.check.metric in WINDOWED]
    failed = [r.check for r in results if r.status == "fail" and r.check in measurable and r.scope == "overall"]
    tails = [check for check in measurable if check.metric in ("latency_p95_us", "latency_p99_us")]
    chosen = dict.fromkeys(check.id for check in failed or tails)
    by_id = {check.id: check for check in measurable}
    made = (_criterion(by_id[name], policy.rollback, comparator) for name in chosen)
    return tuple(item for item in made if item is not None)


def _criterion(check: Check, rollback: Rollback, comparator: Served) -> RollbackCriterion | None:
    values = windows(comparator, check.metric, rollback.window_s, rollback.min_samples)[1]
    if not len(values):
        return None
    worst = float(np.max(values))
    threshold = check.limit if check.limit is not None else worst * (1 + rollback.tolerance)
    if not np.isfinite(threshold):
        return None
    shown = words.values(check.metric, threshold)[0] if check.limit is None else words.limit(check.metric, threshold)
    source = (
        f"the limit of check {check.id}" if check.limit is not None
        else f"the comparator's worst window, {words.values(check.metric, worst)[0]}, plus "
        f"{words.stated(rollback.tolerance)}"
    )  # fmt: skip
    text = (
        f"Roll back when {words.metric_name(check.metric)} over the last {rollback.min_samples:,} finished requests, "
        f"finished within {rollback.window_s:g} s, is above {shown} ({source}). Latency counts from the scheduled "
        "arrival; a rejected request counts as later than any other."
    )
    return RollbackCriterion(
        id=f"rollback-{check.id}", metric=check.metric, threshold=threshold, unit=FACTS[check.metric].unit,
        window_s=rollback.window_s, min_samples=rollback.min_samples, text=text,
    )  # fmt: skip


def windows(
    served: Served, metric: str, window_s: float, min_samples: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Ends (index of the last request) and values of the metric over sliding windows of min_samples requests.

    Windows that took longer than window_s are left out: a runtime would not have evaluated them.
    """
    if len(served) < min_samples:
        return np.empty(0, dtype=np.int64), np.empty(0)
    stride = max(1, min_samples // _STRIDES)
    ends = np.arange(min_samples - 1, len(served), stride)
    spans = served.done_ps[ends] - served.done_ps[ends - min_samples + 1]
    ends = ends[spans <= window_s * _PS_PER_S]
    values = np.array([_value(served, metric, int(end) + 1 - min_samples, int(end) + 1) for end in ends])
    return ends, values.astype(np.float64)


def _value(served: Served, metric: str, start: int, stop: int) -> float:
    latency = served.latency_us[start:stop]
    if metric in _PERCENTILES:
        rank = int(np.ceil(_PERCENTILES[metric] * len(latency) - 1e-9)) - 1  # type: ignore[index]
        return float(np.partition(latency, rank)[rank])
    if metric == "latency_mean_us":
        done = latency[np.isfinite(latency)]
        return float(done.mean()) if len(done) else inf
    if metric == "rejected_share":
        return float(np.mean(~np.isfinite(latency)))
    return float(np.mean(served.missed[start:stop]))


def rehearse(
    criteria: Iterable[RollbackCriterion], comparator: Served, candidate: Served, *, failed: bool
) -> Drill | None:
    """The drill: the candidate goes live, a criterion fires, traffic goes back to the comparator, it is quiet again.

    failed: whether the candidate failed a check that the criteria come from; then its own latencies must fire one.
    Otherwise a fault is injected (every latency doubled, or more where the candidate is far below the threshold), which
    the text says. None where there is no criterion.
    The comparator serves the arrivals after the detection as its own replay did: the candidate's backlog is not
    carried over. The traffic starts over where too few arrivals are left to judge the recovery.
    """
    known = tuple(criteria)
    if not known:
        return None
    live, fault = candidate, ""
    fired = _first_to_fire(known, live)
    if fired is None and not failed:
        factor = _fault_factor(known, candidate)
        live, fault = _slowed(candidate, factor), f"with an injected fault (latencies x {factor:.3g}) "
        fired = _first_to_fire(known, live)
    if fired is None:
        text = f"The candidate went live {fault}and no criterion fired: {', '.join(item.id for item in known)}."
        return Drill(passed=False, criterion=known[0].id, detection_s=None, recovered=False, text=text)
    criterion, end = fired
    detection_s = float(live.done_ps[end] - live.arrival_ps.min()) / _PS_PER_S
    violations = int(np.count_nonzero(live.latency_us[: end + 1] > criterion.threshold))
    recovered, after = _recovers(criterion, comparator, int(live.done_ps[end]))
    unit_words = f"{violations} requests above the threshold by then" if criterion.unit == "us" else "by then"
    text = (
        f"The candidate went live {fault}and {criterion.id} fired after {detection_s:.3g} s and {end + 1} finished "
        f"requests, {unit_words}. {after}"
    )
    return Drill(passed=recovered, criterion=criterion.id, detection_s=detection_s, recovered=recovered, text=text)


def _first_to_fire(known: Sequence[RollbackCriterion], live: Served) -> tuple[RollbackCriterion, int] | None:
    """The criterion that fires earliest and the request at which it does."""
    fired = []
    for criterion in known:
        ends, values = windows(live, criterion.metric, criterion.window_s, criterion.min_samples)
        above = np.flatnonzero(values > criterion.threshold)
        if len(above):
            fired.append((int(ends[above[0]]), criterion))
    if not fired:
        return None
    end, criterion = min(fired, key=lambda item: (item[0], item[1].id))
    return criterion, end


def _fault_factor(known: Sequence[RollbackCriterion], candidate: Served) -> float:
    """What to multiply latencies by: twice, and twice what brings the worst window to the nearest threshold."""
    distances = []
    for criterion in known:
        values = windows(candidate, criterion.metric, criterion.window_s, criterion.min_samples)[1]
        worst = float(np.max(values, initial=0.0))
        if criterion.unit == "us" and 0 < worst < inf:
            distances.append(criterion.threshold / worst)
    return INJECTED_FACTOR * max(1.0, min(distances, default=1.0))


def _slowed(candidate: Served, factor: float) -> Served:
    """The candidate with every latency multiplied; completions move by as much."""
    finite = np.isfinite(candidate.latency_us)
    added_us = np.where(finite, candidate.latency_us * (factor - 1), 0.0)
    done = candidate.done_ps + np.round(added_us * _PS_PER_US).astype(np.int64)
    order = np.argsort(done, kind="stable")
    return Served(
        candidate.arrival_ps[order],
        done[order],
        (candidate.latency_us * factor)[order],
        candidate.missed[order],
    )


def _recovers(criterion: RollbackCriterion, comparator: Served, switch_ps: int) -> tuple[bool, str]:
    """Whether the comparator, serving what arrives after the switch, keeps the last window quiet."""
    later = np.flatnonzero(comparator.arrival_ps > switch_ps)
    around = " (the traffic started over)" if len(later) < criterion.min_samples else ""
    follow = _from(comparator, switch_ps)
    _, values = windows(follow, criterion.metric, criterion.window_s, criterion.min_samples)
    if not len(values):
        return False, "Back on the comparator, no window filled: recovery cannot be shown."
    quiet = values <= criterion.threshold
    if not bool(quiet[-1]):
        return False, f"Back on the comparator{around}, the criterion still fires in the last window."
    settled = len(quiet) - int(np.argmin(quiet[::-1])) if not bool(np.all(quiet)) else 0
    when = "at once" if settled == 0 else f"after {settled} windows"
    return True, f"Back on the comparator{around}, the criterion is quiet {when} and in the last window."


def _from(comparator: Served, switch_ps: int) -> Served:
    """The comparator's requests that arrive after the switch, then those before it, moved behind them in time."""
    early = comparator.arrival_ps <= switch_ps
    span = int(comparator.done_ps.max()) + 1
    arrival = np.where(early, comparator.arrival_ps + span, comparator.arrival_ps)
    done = np.where(early, comparator.done_ps + span, comparator.done_ps)
    order = np.argsort(done, kind="stable")
    return Served(arrival[order], done[order], comparator.latency_us[order], comparator.missed[order])

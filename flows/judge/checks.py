"""Checks of the policy against the values of both sides: the validation matrix.

A relative check is a non-inferiority test: it passes where the upper end of the worsening's interval is within the
margin; harm is proven where Holm's procedure over all blocking statistical checks of the run rejects "the worsening is
at most the margin"; else it is undecided. An exact value is compared as it is. Nothing passes by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flows.judge import words
from flows.judge.facts import COMPLETED, FACTS, OVERALL, REJECTED, UNSTABLE, MetricFacts, MetricValues, Values
from flows.judge.measure import Measured, against_limit, against_margin
from flows.judge.statistics import holm, least_per_replication, level, minimum_samples
from schemas.decision import Status
from schemas.metric_words import QUEUE_GROWS
from schemas.policy import Check, Policy

NO_SCOPE = "each_workload"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One row of the validation matrix.

    change, interval_low, interval_high: worsening as a share of the comparator's value (of 1 - r for saturating
    ratios), positive is worse; None where there is none. p_harm: before Holm; None for exact values.
    further: replications that would decide it, where that can be said. cause: why a value is missing, where known.
    """

    check: Check
    scope: str
    comparator_value: float | None
    candidate_value: float | None
    change: float | None
    interval_low: float | None
    interval_high: float | None
    p_harm: float | None
    samples: int
    status: Status
    message: str
    further: int | None = None
    cause: str = ""

    @property
    def facts(self) -> MetricFacts:
        return FACTS[self.check.metric]

    @property
    def key(self) -> tuple[str, str]:
        return self.check.id, self.scope

    @property
    def blocking(self) -> bool:
        return self.check.severity == "blocking"


def evaluate(
    policy: Policy,
    comparator: MetricValues,
    candidate: MetricValues,
    workloads: Sequence[str] = (),
    causes: Mapping[tuple[str, str], str] | None = None,
) -> tuple[CheckResult, ...]:
    """Every check of the policy in its order, for each scope that it covers.

    workloads: names that a check of `each_workload` must cover; by default those that either side has values of.
    A check that covers nothing gives one row that says so. causes: (metric, scope) -> why a value is missing.
    """
    pairs = [(check, scope) for check in policy.checks for scope in _scopes(check, comparator, candidate, workloads)]
    results = [compare(check, scope, comparator, candidate, policy.confidence) for check, scope in pairs]
    results = [_with_cause(result, causes or {}) for result in results]
    return _with_holm(results, level(policy.confidence))


def compare(
    check: Check, scope: str, comparator: MetricValues, candidate: MetricValues, confidence: float
) -> CheckResult:
    """One check in one scope by itself, without Holm: `fail` where the interval lies above the margin or limit.

    Hybrids are tested by this rule as well, so that isolation and matrix speak of the same thing.
    """
    metric = check.metric
    facts = FACTS[metric]
    base, value = _usable(comparator, metric, scope), _usable(candidate, metric, scope)
    unstable = _unstable(scope, comparator, candidate) if facts.home == "scheduling" else None
    if unstable is not None and unstable.status == "undecided":
        harm = _harm_at_least(check, base, value, scope, comparator, candidate, confidence)
        if harm is not None:
            return _result(check, scope, base, value, harm, candidate)
    if unstable is not None:  # the numbers of a queue that grows are no percentiles: they are not stated
        stable = not np.any(comparator.get((UNSTABLE, scope), np.zeros(1)) > 0)
        return _result(check, scope, base if stable else np.empty(0), np.empty(0), unstable, candidate)
    problem = _problem(check, scope, comparator, candidate, base, value)
    if problem is not None:
        status, message = problem
        return _result(check, scope, base, value, Measured(status, message), candidate)
    return _result(check, scope, base, value, _measured(check, base, value, confidence), candidate)


def _measured(check: Check, base: Values, value: Values, confidence: float) -> Measured:
    metric = check.metric
    if check.margin is not None:
        return against_margin(metric, base, value, check.margin, confidence)
    return against_limit(metric, value, check.limit or 0.0, confidence)


def _with_cause(result: CheckResult, causes: Mapping[tuple[str, str], str]) -> CheckResult:
    cause = causes.get((result.check.metric, result.scope), "")
    if result.status != "missing" or not cause:
        return result
    return replace(result, message=f"{result.message} ({cause})", cause=cause)


def _scopes(
    check: Check, comparator: MetricValues, candidate: MetricValues, workloads: Sequence[str]
) -> tuple[str, ...]:
    if check.scope == "overall":
        return (OVERALL,)
    known = {scope for values in (comparator, candidate) for _, scope in values if scope != OVERALL}
    return tuple(workloads) or tuple(sorted(known)) or (NO_SCOPE,)


def _usable(values: MetricValues, metric: str, scope: str) -> Values:
    """The values of a metric; empty where there are none or all are NaN."""
    found = np.asarray(values.get((metric, scope), np.empty(0)), dtype=np.float64)
    return np.empty(0) if not np.any(np.isfinite(found)) else found


def _problem(
    check: Check, scope: str, comparator: MetricValues, candidate: MetricValues, base: Values, value: Values
) -> tuple[Status, str] | None:
    """Why the values cannot be compared at all; None where they can."""
    facts = FACTS[check.metric]
    if scope == NO_SCOPE:
        return "missing", "the check matched no workload: nothing was compared"
    sides = [("candidate", value)] if check.margin is None else [("comparator", base), ("candidate", value)]
    absent = [name for name, values in sides if not len(values)]
    if absent:
        return "missing", f"{' and '.join(absent)}: no value{_why(facts, candidate, scope)}"
    if facts.quantile is not None:
        all_values = {"comparator": comparator, "candidate": candidate}
        for name, values in ((name, all_values[name]) for name, _ in sides):
            short = _too_few(name, values, scope, facts.quantile)
            if short is not None:
                return "undecided", short
    return None


def _harm_at_least(
    check: Check,
    base: Values,
    value: Values,
    scope: str,
    comparator: MetricValues,
    candidate: MetricValues,
    confidence: float,
) -> Measured | None:
    """Harm that is proven although the candidate's queue grows without end in some replications; None where it is not.

    What a growing queue showed until the end of its replay is less than what it would come to. So a proof with these
    values, or with those of the other replications alone, holds all the more. None where the comparator's own queue
    grows.
    """
    stable, grown = (values.get((UNSTABLE, scope), np.zeros(len(value))) for values in (comparator, candidate))
    if np.any(stable > 0) or not len(base) == len(value) == len(grown):
        return None
    for kept, which in (
        (np.isfinite(value), "at the least"),
        (grown == 0, "where the queue does not grow without end"),
    ):
        measured = _measured(check, base[kept], value[kept], confidence)
        if measured.status == "fail":
            return replace(measured, message=f"{measured.message}, {which}")
    return None


def _unstable(scope: str, comparator: MetricValues, candidate: MetricValues) -> Measured | None:
    """A queue that grows without end has no percentiles. If only the candidate's does so, that is harm by itself."""
    stable, grown = (values.get((UNSTABLE, scope), np.zeros(1)) for values in (comparator, candidate))
    if np.any(stable > 0):
        text = f"the comparator's own {QUEUE_GROWS} at this rate: lower the rate of the traffic"
        return Measured("undecided", text)
    share = float(np.mean(grown > 0))
    if share > 0.5:
        return Measured("fail", f"the candidate's {QUEUE_GROWS} at a rate that the comparator serves")
    if share > 0:
        return Measured("undecided", f"the candidate's {QUEUE_GROWS} in {words.share(share)} of the replications")
    return None


def _why(facts: MetricFacts, candidate: MetricValues, scope: str) -> str:
    rejected = float(np.sum(candidate.get((REJECTED, scope), np.zeros(1))))
    if facts.quantile is not None and rejected > 0:
        return f" ({rejected:.0f} rejected requests count as later than any other, and reach this percentile)"
    return ""


def _too_few(name: str, values: MetricValues, scope: str, quantile: float) -> str | None:
    """What a percentile lacks: the order-statistic floor over all replications, one sample above it in each."""
    counts = values.get((COMPLETED, scope), np.empty(0))
    pooled, fewest = int(np.sum(counts)), int(np.min(counts, initial=2**62))
    needed, each = minimum_samples(quantile), least_per_replication(quantile)
    if pooled < needed:
        return f"{name}: {pooled} completed requests, and p{quantile * 100:g} needs {needed}: {needed - pooled} more"
    if fewest < each:
        return f"{name}: a replication has {fewest} completed requests, and p{quantile * 100:g} needs {each} in each"
    return None


def _result(
    check: Check, scope: str, base: Values, value: Values, measured: Measured, candidate: MetricValues
) -> CheckResult:
    return CheckResult(
        check, scope, _mean(base), _mean(value), measured.change, measured.low, measured.high, measured.p_harm,
        len(value), measured.status, measured.message + _caveat(check, scope, measured, candidate), measured.further,
    )  # fmt: skip


def _caveat(check: Check, scope: str, measured: Measured, candidate: MetricValues) -> str:
    """What a reader of a latency must know: requests that were turned away."""
    rejected = float(np.sum(candidate.get((REJECTED, scope), np.zeros(1))))
    if rejected == 0 or measured.status == "missing" or FACTS[check.metric].unit != "us":
        return ""
    if FACTS[check.metric].quantile is not None:
        return f"; {rejected:.0f} rejected requests count as later than any other"
    return f"; over completed requests only, {rejected:.0f} were rejected"


def _mean(values: Values) -> float | None:
    return float(np.mean(values)) if len(values) and bool(np.all(np.isfinite(values))) else None


def _with_holm(results: Sequence[CheckResult], alpha: float) -> tuple[CheckResult, ...]:
    """Harm found by blocking statistical checks stands only where Holm over all of them keeps it."""
    family = [index for index, result in enumerate(results) if result.blocking and result.p_harm is not None]
    kept = holm([results[index].p_harm or 0.0 for index in family], alpha)
    adjusted = list(results)
    for index, proven in zip(family, kept, strict=True):
        if results[index].status == "fail" and not proven:
            text = f"{results[index].message}; not proven once {len(family)} checks are tested at once (Holm)"
            adjusted[index] = replace(results[index], status="undecided", message=text)
    return tuple(adjusted)

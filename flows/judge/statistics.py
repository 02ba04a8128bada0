"""Statistics over paired replications: change and its interval, harm, Holm, minimum samples.

One value a replication and side; the two sides of a replication share arrivals and seeds, so their values depend on
each other and are compared pair by pair, while replications are independent. Inside a replication latencies depend on
one another (queues, bursts): no interval here treats single requests as independent.

Levels: an interval of confidence c is two-sided, so each end has level (1 - c) / 2; the same level holds for harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, expm1, log, log1p, sqrt

import numpy as np
from scipy import stats

from flows.judge.facts import Values

MIN_REPLICATIONS = 4
FLOOR_CONFIDENCE = 0.99
MAX_FURTHER = 100_000


@dataclass(frozen=True, slots=True)
class Undecidable:
    """What the data cannot show, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Change:
    """Relative worsening of the candidate: positive is worse, 0.05 is 5 % of the comparator's value.

    estimate, low, high: of the mean over replications, with its two-sided t interval. scale: `log` (mean of the log
    ratio) or `linear` (mean difference over the comparator's mean). centre, error: mean and standard error on that
    scale. samples: replications.
    """

    estimate: float
    low: float
    high: float
    scale: str
    centre: float
    error: float
    samples: int
    lower_is_better: bool

    def p_above(self, margin: float) -> float:
        """Probability of a worsening at least as large as seen were the true one `margin` (one-sided t test)."""
        if self.scale == "linear":
            return _p_above(self.centre, margin, self.error, self.samples)
        if not self.lower_is_better and margin >= 1:
            return 1.0  # nothing can worsen by all of its value or more
        limit = log1p(margin) if self.lower_is_better else -log1p(-margin)
        return _p_above(self.centre, limit, self.error, self.samples)


def paired_change(
    comparator: Values, candidate: Values, *, lower_is_better: bool, confidence: float, zero_allowed: bool
) -> Change | Undecidable:
    """Relative worsening over paired replications. [R], [R] -> Change.

    All values positive: mean of the log ratio (a geometric mean ratio). Else, where zero is a real value: mean
    difference over the comparator's mean, taken as fixed. A comparator that is zero throughout has no relative
    change: see `difference`.
    """
    problem = _unusable(comparator, candidate, zero_allowed)
    if problem is not None:
        return Undecidable(problem)
    if bool(np.all(comparator > 0)) and bool(np.all(candidate > 0)):
        worse = np.log(candidate / comparator) if lower_is_better else np.log(comparator / candidate)
        centre, error = mean_and_error(worse)
        half = half_width(error, len(worse), confidence)
        low, estimate, high = (_from_log(value, lower_is_better) for value in (centre - half, centre, centre + half))
        return Change(estimate, low, high, "log", centre, error, len(worse), lower_is_better)
    base = float(comparator.mean())
    if base <= 0:
        return Undecidable("the comparator's value is zero throughout, so that there is no relative change")
    worse = (candidate - comparator if lower_is_better else comparator - candidate) / base
    centre, error = mean_and_error(worse)
    half = half_width(error, len(worse), confidence)
    return Change(centre, centre - half, centre + half, "linear", centre, error, len(worse), lower_is_better)


def difference(
    comparator: Values, candidate: Values, *, lower_is_better: bool, confidence: float
) -> Change | Undecidable:
    """Worsening in the metric's own unit over paired replications, where the comparator is zero throughout."""
    problem = _unusable(comparator, candidate, zero_allowed=True)
    if problem is not None:
        return Undecidable(problem)
    worse = candidate - comparator if lower_is_better else comparator - candidate
    centre, error = mean_and_error(worse)
    half = half_width(error, len(worse), confidence)
    return Change(centre, centre - half, centre + half, "linear", centre, error, len(worse), lower_is_better)


def unpaired_change(first: Values, second: Values, *, confidence: float) -> Change | Undecidable:
    """Relative change from first to second over unpaired replications, all positive (Welch's t on logarithms).

    Its `samples` are Welch's degrees of freedom plus one, rounded down.
    """
    for values in (first, second):
        problem = _unusable(values, values, zero_allowed=False, least=2)
        if problem is not None:
            return Undecidable(problem)
    logs = np.log(first), np.log(second)
    (mean_a, error_a), (mean_b, error_b) = (mean_and_error(values) for values in logs)
    variance = error_a**2 + error_b**2
    weights = error_a**4 / (len(first) - 1) + error_b**4 / (len(second) - 1)
    samples = len(first) if weights == 0 else max(2, int(variance**2 / weights) + 1)
    centre, error = mean_b - mean_a, sqrt(variance)
    half = half_width(error, samples, confidence)
    low, estimate, high = expm1(centre - half), expm1(centre), expm1(centre + half)
    return Change(estimate, low, high, "log", centre, error, samples, lower_is_better=True)


def mean_and_error(values: Values) -> tuple[float, float]:
    """Mean and its standard error, sqrt(s^2 / n) with s^2 over n - 1. [R] with R >= 2.

    An error at the level of rounding counts as none: equal values that were computed on two ways are equal.
    """
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / sqrt(len(values))
    return mean, 0.0 if error <= 1e-14 * max(1.0, abs(mean)) else error


def half_width(error: float, samples: int, confidence: float) -> float:
    """Half of the two-sided t interval of a mean: t(1 - (1 - c) / 2, n - 1) x standard error."""
    return float(stats.t.ppf(1 - level(confidence), samples - 1)) * error


def level(confidence: float) -> float:
    """Level of one end of a two-sided interval."""
    return (1 - confidence) / 2


def holm(p_values: Sequence[float], alpha: float) -> tuple[bool, ...]:
    """Which hypotheses Holm's step-down procedure rejects with family-wise level alpha, in the order given.

    The i-th smallest of m p-values (i from 0) is compared with alpha / (m - i); the first that is larger ends it.
    Source: S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    order = sorted(range(len(p_values)), key=lambda index: (p_values[index], index))
    rejected = [False] * len(p_values)
    for rank, index in enumerate(order):
        if not p_values[index] <= alpha / (len(p_values) - rank):
            break
        rejected[index] = True
    return tuple(rejected)


def minimum_samples(quantile: float, confidence: float = FLOOR_CONFIDENCE) -> int:
    """Fewest samples of which the largest lies above the quantile with that confidence: 1 - q^n >= c.

    459 for the 99th percentile at 99 %. A floor even for independent samples; dependent ones need more.
    """
    return ceil(log(1 - confidence) / log(quantile))


def least_per_replication(quantile: float) -> int:
    """Fewest samples in which one lies above the quantile on average: 1 / (1 - q), 100 for the 99th percentile."""
    return ceil(1 / (1 - quantile) - 1e-9)


def further_replications(change: Change, margin: float, confidence: float) -> int | None:
    """How many more replications would put the margin outside the interval, if mean and spread stay as they are.

    None where none would (the estimate is on the margin), or more than MAX_FURTHER.
    """
    limit = margin
    if change.scale == "log":
        if not change.lower_is_better and margin >= 1:
            return 0
        limit = log1p(margin) if change.lower_is_better else -log1p(-margin)
    distance = abs(change.centre - limit)
    spread = change.error * sqrt(change.samples)
    if distance <= 0:
        return None
    needed = change.samples
    while half_width(spread / sqrt(needed), needed, confidence) > distance:
        needed = needed + max(1, needed // 8)
        if needed > MAX_FURTHER:
            return None
    return needed - change.samples


def _p_above(centre: float, limit: float, error: float, samples: int) -> float:
    if error == 0:
        return 0.0 if centre > limit + 1e-12 else 1.0
    return float(stats.t.sf((centre - limit) / error, samples - 1))


def _from_log(value: float, lower_is_better: bool) -> float:
    """Relative worsening of a log ratio that counts worsening as positive."""
    return expm1(value) if lower_is_better else 1 - exp(-value)


def _unusable(comparator: Values, candidate: Values, zero_allowed: bool, least: int = MIN_REPLICATIONS) -> str | None:
    """Why these values cannot be compared; None where they can."""
    if len(comparator) != len(candidate):
        return f"the sides have {len(comparator)} and {len(candidate)} replications, which cannot be paired"
    if len(comparator) < least:
        return f"{len(comparator)} replications, at least {least} are needed"
    both = np.concatenate([comparator, candidate])
    broken = int(np.count_nonzero(~np.isfinite(both)))
    if broken:
        return f"{broken} of {len(both)} values are no finite numbers"
    if bool(np.any(both < 0)):
        return "negative values, which this metric cannot have"
    if not zero_allowed and bool(np.any(both == 0)):
        return "values of zero, which are no measurement of this metric"
    return None

"""How far a candidate's value is from its comparator's, or from a limit: pass, fail or undecided, with the reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.judge import words
from flows.judge.facts import FACTS, Values
from flows.judge.statistics import (
    MIN_REPLICATIONS,
    Change,
    Undecidable,
    difference,
    further_replications,
    half_width,
    level,
    mean_and_error,
    paired_change,
)
from schemas.decision import Status
from schemas.policy import Metric

_ROUNDING = 1e-9  # relative: two ways to compute the same exact value may differ by this much


@dataclass(frozen=True, slots=True)
class Measured:
    """A comparison and its status. change, low, high: relative worsening, None where there is none."""

    status: Status
    message: str
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p_harm: float | None = None
    further: int | None = None


def against_margin(metric: Metric, base: Values, value: Values, margin: float, confidence: float) -> Measured:
    """Worsening against the comparator, and whether it is within the margin."""
    facts = FACTS[metric]
    lower = facts.lower_is_better
    if facts.comparison == "rest":
        base, value, lower = 1 - base, 1 - value, not lower
    if facts.exact:
        return _exact_margin(metric, base, value, margin, lower)
    zero_allowed = facts.comparison != "ratio"
    if zero_allowed and len(base) and not np.any(base):
        return _from_nothing(metric, base, value, lower, confidence)
    change = paired_change(base, value, lower_is_better=lower, confidence=confidence, zero_allowed=zero_allowed)
    if isinstance(change, Undecidable):
        return Measured("undecided", change.reason)
    return _judged(metric, change, margin, confidence)


def against_limit(metric: Metric, value: Values, limit: float, confidence: float) -> Measured:
    """The candidate's own value against an absolute limit."""
    facts = FACTS[metric]
    sign = 1.0 if facts.lower_is_better else -1.0
    if not bool(np.all(np.isfinite(value))):
        return Measured("undecided", "values that are no finite numbers")
    side = "above" if facts.lower_is_better else "below"
    if facts.exact:
        beyond = sign * (float(np.max(sign * value) * sign) - limit) > abs(limit) * _ROUNDING
        worst = float(np.max(sign * value) * sign)
        message = f"{words.values(metric, worst)[0]}, {side if beyond else 'within'} the limit of "
        message += words.limit(metric, limit)
        return Measured("fail" if beyond else "pass", message)
    if len(value) < MIN_REPLICATIONS:
        return Measured("undecided", f"{len(value)} replications, at least {MIN_REPLICATIONS} are needed")
    centre, error = mean_and_error(sign * value)
    half = half_width(error, len(value), confidence)
    excess = Change(centre, centre - half, centre + half, "linear", centre, error, len(value), True)
    p_harm = excess.p_above(sign * limit)
    bounds = sorted((sign * excess.low, sign * excess.high))
    shown, low, high = words.values(metric, sign * centre, *bounds)
    status = _status(excess, sign * limit, p_harm, confidence)
    verb = {"pass": "within the limit of", "fail": f"{side} the limit of"}.get(status, "which does not exclude")
    further = further_replications(excess, sign * limit, confidence) if status == "undecided" else None
    message = f"{shown}, interval [{low}, {high}], {verb} {words.limit(metric, limit)}{_more(further)}"
    return Measured(status, message, p_harm=p_harm, further=further)


def _exact_margin(metric: Metric, base: Values, value: Values, margin: float, lower: bool) -> Measured:
    problem = _not_exact(base) or _not_exact(value)
    if problem:
        return Measured("undecided", problem)
    before, after = float(base[0]), float(value[0])
    if before < 0:
        return Measured("undecided", f"the comparator's value is {before:g}: a share of it has no meaning")
    worse = after - before if lower else before - after
    if before == 0:
        if worse <= 0:
            return Measured("pass", "the comparator has none, and the candidate has none", 0.0, 0.0, 0.0)
        words_after = words.values(metric, after)[0]
        return Measured("fail", f"the comparator has none, the candidate {words_after}: any is above every margin")
    change = worse / before
    fails = change > margin + _ROUNDING
    side = "above" if fails else "within"
    message = f"{words.worsening(metric, change)}, {side} the margin of {words.stated(margin)} (exact)"
    return Measured("fail" if fails else "pass", message, change, change, change)


def _not_exact(values: Values) -> str:
    if not bool(np.all(np.isfinite(values))):
        return "values that are no finite numbers"
    return "" if bool(np.all(values == values[0])) else "values that differ between runs of the model, though exact"


def _from_nothing(metric: Metric, base: Values, value: Values, lower: bool, confidence: float) -> Measured:
    """The comparator is zero throughout: equal is no worse, and whatever is proven above zero is above any margin."""
    if len(base) == len(value) and not np.any(value):
        return Measured("pass", "zero on both sides", 0.0, 0.0, 0.0)
    change = difference(base, value, lower_is_better=lower, confidence=confidence)
    if isinstance(change, Undecidable):
        return Measured("undecided", change.reason)
    p_harm = change.p_above(0.0)
    found = f"the comparator has none, the candidate {words.values(metric, change.centre)[0]} on average"
    if p_harm <= level(confidence):
        return Measured("fail", f"{found}: any is above every margin", p_harm=p_harm)
    return Measured("undecided", f"{found}, which may be chance", p_harm=p_harm)


def _judged(metric: Metric, change: Change, margin: float, confidence: float) -> Measured:
    p_harm = change.p_above(margin)
    status = _status(change, margin, p_harm, confidence)
    found = f"{words.worsening(metric, change.estimate)}, {words.interval(change.low, change.high)}"
    verb = {"pass": "within the margin of", "fail": "above the margin of"}.get(status, "which does not exclude")
    further = further_replications(change, margin, confidence) if status == "undecided" else None
    message = f"{found}, {verb} {words.stated(margin)}{_more(further)}"
    return Measured(status, message, change.estimate, change.low, change.high, p_harm, further)


def _status(change: Change, margin: float, p_harm: float, confidence: float) -> Status:
    """`pass` where the upper end is within the margin, `fail` where harm is proven, else `undecided`."""
    if change.high <= margin + _ROUNDING * max(1.0, abs(margin)):
        return "pass"
    return "fail" if p_harm <= level(confidence) else "undecided"


def _more(further: int | None) -> str:
    return "" if further is None else f"; about {further} more replications would decide it"

"""The stable comparator: it must pass against itself, or nothing can be said against it.

With a second run of it (other noise seeds, same arrivals) the two runs are paired, and every blocking relative check
must pass both ways. Without one, its replications are halved (even against odd): halves see other arrivals, so their
noise is that of traffic as well, and only a proven difference counts against it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flows.judge import words
from flows.judge.checks import compare
from flows.judge.facts import FACTS, OVERALL, MetricValues
from flows.judge.statistics import Change, Undecidable, holm, level, unpaired_change
from schemas.policy import Check, Policy


@dataclass(frozen=True, slots=True)
class Instability:
    """A check that the comparator fails against itself."""

    check: str
    text: str


def unstable_checks(
    policy: Policy, comparator: MetricValues, again: MetricValues | None = None
) -> tuple[Instability, ...]:
    """Blocking relative checks over replications that the comparator does not pass against itself; empty is good."""
    checks = [
        check for check in policy.checks
        if check.severity == "blocking" and check.margin is not None and not FACTS[check.metric].exact
        and len(comparator.get((check.metric, OVERALL), ())) > 0
    ]  # fmt: skip
    if again is not None:
        return tuple(found for check in checks for found in _paired(check, comparator, again, policy.confidence))
    return _halved(checks, comparator, policy.confidence)


def _paired(check: Check, first: MetricValues, second: MetricValues, confidence: float) -> list[Instability]:
    for one, other in ((first, second), (second, first)):
        result = compare(check, OVERALL, one, other, confidence)
        if result.status != "pass":
            return [Instability(check.id, f"the comparator run again is {result.status}: {result.message}")]
    return []


def _halved(checks: list[Check], comparator: MetricValues, confidence: float) -> tuple[Instability, ...]:
    found: list[tuple[Check, float, Change]] = []
    for check in checks:
        values = comparator[check.metric, OVERALL]
        even, odd = values[0::2], values[1::2]
        for one, other in ((even, odd), (odd, even)):
            change = unpaired_change(one, other, confidence=confidence)
            if not isinstance(change, Undecidable):
                found.append((check, change.p_above(check.margin or 0.0), change))
    differs = holm([p_value for _, p_value, _ in found], level(confidence))
    return tuple(
        Instability(
            check.id,
            f"half of the comparator's replications is {words.worsening(check.metric, change.estimate)} than the "
            f"other half, above the margin of {words.stated(check.margin or 0.0)}",
        )
        for (check, _, change), proven in zip(found, differs, strict=True)
        if proven
    )

"""Pitfalls of measured evidence: figures that are right and still prove nothing. Pure: values in, findings out.

A blocking pitfall makes the evidence unfit for a verdict, whatever the figures say: HOLD, with what to measure again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from flows.judge import words
from flows.judge.lock import CLOCK_TOLERANCE_SHARE, POWER_TOLERANCE_SHARE, TEMPERATURE_TOLERANCE_C
from flows.judge.statistics import minimum_samples
from schemas.candidate import Conditions

LEAST_COVERED_SHARE = 0.9
WARM_UP_SPREADS = 3.0  # robust standard deviations above the steady iteration
WARM_UP_SHARE = 0.05  # and at least so much above it, where iterations hardly differ
LEAST_TO_TELL = 6  # iterations from which a warm-up can be told from noise
SHOWN = 3
_MAD_TO_SIGMA = 1.4826  # of a normal distribution

Kind = Literal["synthetic shapes", "mixed conditions", "unproven numerics", "too few iterations", "warm-up included"]


@dataclass(frozen=True, slots=True)
class Pitfall:
    """field: what it is about, as a workload, a condition or a percentile. value, limit: what was found and what is
    needed, where they are numbers; None where they are not."""

    kind: Kind
    field: str
    value: float | None
    limit: float | None
    blocking: bool
    text: str
    action: str


@dataclass(frozen=True, slots=True)
class Numerics:
    """How a side computes. precisions: op or kernel -> type, e.g. float16. sparsity: of the weights, e.g. `2:4`."""

    precisions: Mapping[str, str]
    accumulators: Mapping[str, str] = field(default_factory=dict)
    sparsity: str = "none"


def synthetic_shapes(
    workload: str,
    production: Mapping[str, float],
    measured: Collection[str],
    least_share: float = LEAST_COVERED_SHARE,
) -> Pitfall | None:
    """Shapes that were measured stand for too little of production.

    production: shape -> its weight in production traffic, in any unit. measured: shapes in the profile. A profile of
    shapes that production does not know covers nothing, and neither does one where production is not known.
    """
    whole = sum(production.values())
    share = sum(weight for shape, weight in production.items() if shape in measured) / whole if whole > 0 else 0.0
    if share >= least_share:
        return None
    missing = sorted((shape for shape in production if shape not in measured), key=lambda shape: -production[shape])
    wanted = ", ".join(missing[:SHOWN]) or "the shapes of production"
    text = f"the measured shapes of {workload} cover {words.share(share)} of production traffic, and "
    text += f"it takes {words.stated(least_share)}"
    return Pitfall("synthetic shapes", workload, share, least_share, True, text, f"Measure {wanted} as well.")


def mixed_conditions(measurements: Mapping[str, Conditions]) -> tuple[Pitfall, ...]:
    """Measurements that stand for one side and were taken under different conditions.

    measurements: what was measured (a profile, a run) -> its conditions. Each is held against the first, with the
    tolerances that the two sides have between them.
    """
    names = list(measurements)
    found = []
    for name in names[1:]:
        first, other = measurements[names[0]], measurements[name]
        for condition, limit in (
            ("clock_mhz", CLOCK_TOLERANCE_SHARE * first.clock_mhz),
            ("temperature_c", TEMPERATURE_TOLERANCE_C),
            ("power_w", POWER_TOLERANCE_SHARE * first.power_w),
            ("throttling", 0.0),
        ):
            before, after = getattr(first, condition), getattr(other, condition)
            apart = abs(float(after) - float(before))
            if apart > limit * (1 + 1e-12):
                text = f"{condition} is {before} for {names[0]} and {after} for {name}"
                action = f"Measure {names[0]} and {name} again under the same conditions."
                found.append(Pitfall("mixed conditions", condition, apart, limit, True, text, action))
    return tuple(found)


def unproven_numerics(
    comparator: Numerics, candidate: Numerics, *, has_quality: bool, has_fallback: bool
) -> tuple[Pitfall, ...]:
    """A change of precision, accumulator or sparsity that no evidence stands behind.

    has_quality: the candidate's outputs were compared with a reference. has_fallback: what happens to an op or a shape
    that the new numerics do not support was measured, as a share of fallback.
    """
    changed = [
        *_changed("precision", comparator.precisions, candidate.precisions),
        *_changed("accumulator", comparator.accumulators, candidate.accumulators),
    ]
    if comparator.sparsity != candidate.sparsity:
        changed.append(f"sparsity {comparator.sparsity} → {candidate.sparsity}")
    if not changed:
        return ()
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    what = f"{'; '.join(changed[:SHOWN])}{more}"
    lacking = [
        ("quality", has_quality, "Compare the candidate's outputs with the reference on production inputs."),
        ("fallback", has_fallback, "Measure the share of ops and requests that fall back under the new numerics."),
    ]
    return tuple(
        Pitfall("unproven numerics", name, None, None, True, f"{what}: no {name} evidence", action)
        for name, there, action in lacking
        if not there
    )


def too_few_iterations(iterations: int | None, quantiles: Sequence[float]) -> tuple[Pitfall, ...]:
    """Percentiles of iteration time for which a profile has too few iterations, one entry each.

    iterations: None where the profile marks none. It does not block by itself: the percentile is missing.
    """
    found = []
    for quantile in quantiles:
        needed, name = minimum_samples(quantile), f"p{quantile * 100:g}"
        if iterations is not None and iterations >= needed:
            continue
        has = "marks no iterations" if iterations is None else f"has {iterations:,} iterations"
        text, action = f"the profile {has}, and {name} takes {needed:,}", f"Record {needed:,} iterations after warm-up."
        value = None if iterations is None else float(iterations)
        found.append(Pitfall("too few iterations", name, value, float(needed), False, text, action))
    return tuple(found)


def warm_up_included(workload: str, iteration_ns: npt.ArrayLike) -> Pitfall | None:
    """The first iterations of a profile are slower than what it settles to.

    iteration_ns: [I], in order. Steady is the median of the second half; an iteration is warm-up if it and all before
    it lie above steady + max(3 robust standard deviations, 5 %). Fewer than LEAST_TO_TELL cannot be told.
    """
    times = np.asarray(iteration_ns, np.float64)
    if len(times) < LEAST_TO_TELL:
        return None
    later = times[len(times) // 2 :]
    steady = float(np.median(later))
    spread = _MAD_TO_SIGMA * float(np.median(np.abs(later - steady)))
    limit = steady + max(WARM_UP_SPREADS * spread, WARM_UP_SHARE * steady)
    first = int(np.argmin(times > limit)) if (times <= limit).any() else len(times)
    if not first:
        return None
    ratio = float(times[:first].max()) / steady if steady else float("inf")
    text = (
        f"the first {first} of {len(times)} iterations of {workload} are warm-up: up to {ratio:.2f} times the "
        f"steady {steady / 1e3:,.1f} µs"
    )
    action = f"Leave the first {first} out, or start recording after them."
    return Pitfall("warm-up included", workload, float(first), 0.0, True, text, action)


def _changed(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """`precision float16 → int8 of 3`: one entry a kind of change, over the names that both sides have."""
    pairs: dict[tuple[str, str], int] = {}
    for name in before.keys() & after.keys():
        if before[name] != after[name]:
            pairs[before[name], after[name]] = pairs.get((before[name], after[name]), 0) + 1
    return [f"{what} {old} → {new} of {count}" for (old, new), count in sorted(pairs.items())]

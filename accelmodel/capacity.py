"""Capacity: the highest rate at which a latency target holds, the highest that is stable, and the knee between.

Every rate is tried on the same requests with the same seeds, only closer together or further apart, so that two rates,
and two sides, differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from accelmodel.errors import InputError
from accelmodel.replay import Replayed

Replays = Callable[[float], Sequence[Replayed]]
"""The replications at a factor on the rate."""
_MOST_DOUBLINGS = 20
_KNEE_STEPS = 12
_LATEST_PS = 4e18
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Trial:
    """One rate. quantiles_ps: mean over replications of p50, p95 and p99 of all requests, None where the queue grows
    without end or that many did not complete. missed: share of requests that did not complete within the target."""

    rate_per_s: float
    utilisation: float
    unstable: bool
    quantiles_ps: tuple[float | None, float | None, float | None]
    missed: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """sla_rate_per_s: highest rate found at which at most 1 - level of the requests miss the target; None where no
    target is set, or it holds at no rate tried. stable_rate_per_s: highest found at which no queue grows without end;
    None where none was, or none was found that is too high. knee_per_s: the stable rate with most rate per p99
    (Kleinrock 1979, power). trials: all rates tried, ascending."""

    sla_us: float
    sla_rate_per_s: float | None
    stable_rate_per_s: float | None
    knee_per_s: float | None
    trials: tuple[Trial, ...]


def capacity(
    replays: Replays, sla_us: float, *, level: float = 0.99, warmup_share: float = 0.05, tolerance: float = 0.01
) -> Capacity:
    """Bisect the rate, to a relative `tolerance`. sla_us: 0 for none. warmup_share: first requests left out."""
    if not (0 < level < 1 and tolerance > 0 and sla_us >= 0):
        raise InputError(
            stage="scheduling", where="capacity", expected="a level between 0 and 1, a tolerance above 0, an SLA >= 0",
            found=f"{level}, {tolerance} and {sla_us}", remedy="Correct assembly.sla_us or the arguments.",
        )  # fmt: skip
    at_first = replays(1.0)
    if not all(result.arrival_ps[-1] > result.arrival_ps[0] for result in at_first):
        raise InputError(
            stage="scheduling", where="capacity", expected="requests that arrive over some time",
            found="all at one instant", remedy="Give traffic that has a rate.",
        )  # fmt: skip
    least = max(int(result.arrival_ps[-1]) for result in at_first) / _LATEST_PS
    tried: dict[float, Trial] = {}

    def trial(factor: float) -> Trial:
        if factor not in tried:
            tried[factor] = trial_of(replays, sla_us, warmup_share, factor)
        return tried[factor]

    stable = _highest(lambda factor: not trial(factor).unstable, tolerance, least)
    kept = None
    if sla_us > 0:
        kept = _highest(
            lambda factor: not trial(factor).unstable and trial(factor).missed <= 1 - level, tolerance, least
        )
    knee = None if stable is None else _knee(trial, stable)
    rate = {factor: each.rate_per_s for factor, each in tried.items()}
    return Capacity(
        sla_us, None if kept is None else rate[kept], None if stable is None else rate[stable], knee,
        tuple(sorted(tried.values(), key=lambda each: each.rate_per_s)),
    )  # fmt: skip


def _highest(holds: Callable[[float], bool], tolerance: float, least: float) -> float | None:
    """The highest factor found that holds, within the tolerance of one that does not; None where there is none from
    `least` on, below which times would leave 64 bits, or none that is too high."""
    low = high = 1.0
    if holds(1.0):
        for _ in range(_MOST_DOUBLINGS):
            high *= 2.0
            if not holds(high):
                break
            low = high
        else:
            return None
    else:
        while not holds(low):
            high, low = low, low / 2.0
            if low < least:
                return None
    while high / low > 1.0 + tolerance:
        middle = sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _knee(trial: Callable[[float], Trial], stable: float) -> float | None:
    """The rate with most rate per p99, among even steps up to the highest stable one."""
    steps = [trial(stable * (step + 1) / _KNEE_STEPS) for step in range(_KNEE_STEPS)]
    powers = [(each.rate_per_s / p99, each.rate_per_s) for each in steps if (p99 := each.quantiles_ps[2])]
    return max(powers)[1] if powers else None


def trial_of(replays: Replays, sla_us: float, warmup_share: float, factor: float = 1.0) -> Trial:
    """What the requests meet at one rate."""
    results = replays(factor)
    unstable = any(result.unstable for result in results)
    settled = [result.latency_ps[ceil(len(result.slot) * warmup_share) :] for result in results]
    sla_ps = round(sla_us * 1e6)
    missed = np.mean([((latency < 0) | (latency > sla_ps)).mean() for latency in settled]) if sla_us else 0.0
    p50, p95, p99 = (None if unstable else _quantile(settled, q) for q in (0.5, 0.95, 0.99))
    return Trial(
        float(np.mean([_rate_per_s(result) for result in results])),
        float(np.mean([result.utilisation for result in results])), unstable, (p50, p95, p99), float(missed),
    )  # fmt: skip


def _rate_per_s(result: Replayed) -> float:
    """Mean arrivals a second: N requests span N - 1 gaps."""
    span_ps = int(result.arrival_ps[-1] - result.arrival_ps[0])
    return (len(result.arrival_ps) - 1) / span_ps * 1e12 if span_ps else float("inf")


def _quantile(settled: Sequence[np.ndarray], level: float) -> float | None:
    """Mean over replications of the latency at rank ceil(level x N), where one that did not complete is the latest."""
    found = []
    for latency in settled:
        ordered = np.sort(np.where(latency < 0, _NEVER, latency))
        value = int(ordered[ceil(level * len(latency) - 1e-9) - 1])
        if value == _NEVER:
            return None
        found.append(value)
    return float(np.mean(found))

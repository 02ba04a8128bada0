"""When generated requests arrive: point processes of constant, switching and swinging rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from accelmodel.errors import InputError

if TYPE_CHECKING:
    from accelmodel.traffic import TrafficSpec

PS_PER_S = 10**12
MAX_REQUESTS = 50_000_000
MAX_DURATION_S = 4e6  # beyond it, picoseconds times two leave 64 bits
_STEPS_A_PERIOD = 200  # of a sine

Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]


def arrivals_s(spec: TrafficSpec, random: np.random.Generator) -> Doubles:
    """Arrival times, s. [N]"""
    if spec.kind == "steady":
        return np.arange(int(spec.rate_per_s * spec.duration_s)) / spec.rate_per_s
    edges, rates = np.array([0.0, spec.duration_s]), np.array([spec.rate_per_s])
    if spec.kind == "bursty":
        edges, rates = _phases(spec, random)
    if spec.kind == "mmpp":
        edges, rates = _turns(spec, random)
    if spec.kind == "diurnal":
        edges, rates = _sine(spec)
    # A Poisson process of varying rate is one of rate 1 on the axis of expected counts, carried back to time.
    expected = np.concatenate([[0.0], np.cumsum(rates * np.diff(edges))])
    marks = np.sort(random.uniform(0.0, expected[-1], random.poisson(expected[-1])))
    times: Doubles = np.interp(marks, expected, edges)
    return times


def _turns(spec: TrafficSpec, random: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Edges [P + 1] of the phases in turn, s, and the rate within each [P], whose mean in the long run is the rate of
    the specification. Starts in each phase as often as it is in it."""
    lengths = np.array(spec.phase_lengths_s)
    rates = np.array(spec.phase_rates) * spec.rate_per_s * lengths.sum() / (np.array(spec.phase_rates) @ lengths)
    count = len(lengths)
    expected = count * spec.duration_s / lengths.sum()
    require(expected <= MAX_REQUESTS, "phase_lengths_s", f"at most {MAX_REQUESTS:,} phases", f"about {expected:,.0f}")
    first = int(random.choice(count, p=lengths / lengths.sum()))
    edges = np.zeros(1)
    while edges[-1] < spec.duration_s:
        order = (first + len(edges) - 1 + np.arange(int(expected) + 16)) % count
        edges = np.concatenate([edges, edges[-1] + np.cumsum(random.exponential(1.0, len(order)) * lengths[order])])
    edges = np.append(edges[edges < spec.duration_s], spec.duration_s)
    return edges, rates[(first + np.arange(len(edges) - 1)) % count]


def _sine(spec: TrafficSpec) -> tuple[Doubles, Doubles]:
    """Edges [P + 1] of short steps and the rate of the sine in the middle of each [P]."""
    steps = int(np.clip(np.ceil(_STEPS_A_PERIOD * spec.duration_s / spec.period_s), _STEPS_A_PERIOD, 1_000_000))
    edges = np.linspace(0.0, spec.duration_s, steps + 1)
    middle = (edges[:-1] + edges[1:]) / 2.0
    return edges, spec.rate_per_s * (1.0 + spec.swing * np.sin(2.0 * np.pi * middle / spec.period_s))


def _phases(spec: TrafficSpec, random: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Edges [P + 1] of bursts and calms in turn over the duration, s, and the rate within each [P]. Starts in a burst
    with the probability that it is in one at any time, so that the mean rate holds from the beginning."""
    calm_length_s = spec.burst_length_s * (1 - spec.burst_share) / spec.burst_share
    calm_rate = spec.rate_per_s * max(0.0, 1 - spec.burst_factor * spec.burst_share) / (1 - spec.burst_share)
    burst_first = random.random() < spec.burst_share
    pairs = int(2 * spec.duration_s / (spec.burst_length_s + calm_length_s)) + 16
    require(pairs <= MAX_REQUESTS, "burst_length_s", f"at most {MAX_REQUESTS:,} bursts", f"about {pairs:,}")
    edges = np.zeros(1)
    while edges[-1] < spec.duration_s:
        lengths = random.exponential(1.0, (pairs, 2)) * (spec.burst_length_s, calm_length_s)
        turns = lengths if burst_first else lengths[:, ::-1]
        edges = np.concatenate([edges, edges[-1] + np.cumsum(turns.ravel())])
    edges = np.append(edges[edges < spec.duration_s], spec.duration_s)
    turn = np.array([spec.rate_per_s * spec.burst_factor, calm_rate])
    rates = np.resize(turn if burst_first else turn[::-1], len(edges) - 1)
    return edges, rates


def require(holds: bool, field_name: str, expected: str, found: str) -> None:
    """Refuse traffic that cannot be made or used."""
    if not holds:
        raise InputError(
            stage="ingress", where=f"traffic, {field_name}", expected=expected, found=found,
            remedy="Correct the traffic of the candidate file.",
        )  # fmt: skip

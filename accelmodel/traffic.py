"""Traffic: when requests arrive, how large they are, and which stream each belongs to. Made, resampled, scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from accelmodel.errors import InputError

PS_PER_S = 10**12
MAX_REQUESTS = 50_000_000
MAX_DURATION_S = 4e6  # beyond it, picoseconds times two leave 64 bits

Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """One entry a request, in order of arrival.

    arrival_ps: scheduled arrival, int64 [N], ascending from 0. size: int64 [N], at least 1. stream: int32 [N], an index
    into stream_names. warnings: what a reader of the results must know, and what was done about it.
    """

    arrival_ps: Longs
    size: Longs
    stream: NDArray[np.int32]
    stream_names: tuple[str, ...] = ("default",)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.arrival_ps)
        _require(count > 0, "requests", "at least one", "none")
        _require(len(self.size) == len(self.stream) == count, "size, stream", f"{count} entries", "another number")
        _require(int(self.arrival_ps[0]) >= 0, "arrival_ps", "no time before 0", str(self.arrival_ps[0]))
        _require(bool(np.all(np.diff(self.arrival_ps) >= 0)), "arrival_ps", "ascending times", "one that goes back")
        _require(int(self.size.min()) >= 1, "size", "sizes of at least 1", str(self.size.min()))
        used = (int(self.stream.min()), int(self.stream.max()))
        _require(used[0] >= 0 and used[1] < len(self.stream_names), "stream", "an index into stream_names", str(used))

    def __len__(self) -> int:
        return len(self.arrival_ps)

    @property
    def span_ps(self) -> int:
        """Time that the requests stand for: to the last arrival, and one mean gap for what follows it."""
        last, gaps = int(self.arrival_ps[-1]), max(1, len(self) - 1)
        return max(1, last + (last - int(self.arrival_ps[0])) // gaps)

    @property
    def rate_per_s(self) -> float:
        """Mean arrivals a second."""
        return len(self) * PS_PER_S / self.span_ps


@dataclass(frozen=True, slots=True)
class LognormalSizes:
    """exp(normal) sizes, rounded and kept within bounds. sigma: deviation of the logarithm."""

    median: float
    sigma: float
    low: int = 1
    high: int = 2**20


@dataclass(frozen=True, slots=True)
class TrafficSpec:
    """Traffic to make from a seed.

    kind: `poisson`; `bursty`, a Poisson process whose rate switches between a burst and a calm at random (a
    two-state Markov-modulated process); `steady`, evenly spaced. rate_per_s: mean arrivals a second, bursts included.
    burst_factor: rate inside a burst divided by the mean. burst_share: share of the time spent in bursts;
    burst_factor x burst_share is at most 1. burst_length_s: mean length of a burst. sizes: size -> relative weight,
    or LognormalSizes. streams: names, equally likely.
    """

    kind: str
    rate_per_s: float
    duration_s: float
    sizes: Mapping[int, float] | LognormalSizes = field(default_factory=lambda: {1: 1.0})
    streams: tuple[str, ...] = ("default",)
    burst_factor: float = 4.0
    burst_share: float = 0.1
    burst_length_s: float = 0.05

    def __post_init__(self) -> None:
        _require(self.kind in ("poisson", "bursty", "steady"), "kind", "poisson, bursty or steady", repr(self.kind))
        for name in ("rate_per_s", "duration_s", "burst_length_s"):
            value = getattr(self, name)
            _require(isfinite(value) and value > 0, name, "a finite number above zero", repr(value))
        _require(self.duration_s <= MAX_DURATION_S, "duration_s", f"at most {MAX_DURATION_S:g}", repr(self.duration_s))
        requests = self.rate_per_s * self.duration_s
        _require(
            requests <= MAX_REQUESTS,
            "rate_per_s x duration_s",
            f"at most {MAX_REQUESTS:,} requests",
            f"{requests:,.0f}",
        )
        _require(len(self.streams) > 0, "streams", "at least one name", "none")
        if self.kind == "bursty":
            share = self.burst_share * self.burst_factor
            _require(0 < self.burst_share < 1, "burst_share", "a share between 0 and 1", repr(self.burst_share))
            _require(self.burst_factor >= 1, "burst_factor", "at least 1", repr(self.burst_factor))
            _require(
                share <= 1,
                "burst_factor x burst_share",
                "at most 1, or the calm would need a negative rate",
                f"{share:g}",
            )
        _check_sizes(self.sizes)


def generate_traffic(spec: TrafficSpec, seed: int) -> Traffic:
    """Traffic of a specification; the same for the same seed. Arrivals, sizes and streams draw independently, so that
    a change of one leaves the others as they were."""
    times = _arrivals(spec, np.random.default_rng([seed, 0]))
    _require(len(times) > 0, "rate_per_s x duration_s", "enough for at least one request", "none in this draw")
    streams = np.random.default_rng([seed, 2]).integers(0, len(spec.streams), len(times), dtype=np.int32)
    sizes = _sizes(spec.sizes, len(times), np.random.default_rng([seed, 1]))
    return Traffic(np.sort(np.rint(times * PS_PER_S).astype(np.int64)), sizes, streams, spec.streams)


def resample_blocks(traffic: Traffic, block_s: float, seed: int, duration_s: float) -> Traffic:
    """A replication of recorded traffic: blocks of `block_s` drawn from it with replacement, laid end to end.

    Moving blocks that wrap around (circular block bootstrap, Politis and Romano 1992): every request is equally likely
    to be drawn, and the dependence within a block is kept.
    """
    _require(isfinite(block_s) and block_s > 0, "block_s", "a finite number above zero", repr(block_s))
    _require(0 < duration_s <= MAX_DURATION_S, "duration_s", f"above 0, at most {MAX_DURATION_S:g}", repr(duration_s))
    expected = traffic.rate_per_s * duration_s
    _require(expected <= MAX_REQUESTS, "duration_s", f"at most {MAX_REQUESTS:,} requests", f"about {expected:,.0f}")
    span, duration = traffic.span_ps, round(duration_s * PS_PER_S)
    block = min(round(block_s * PS_PER_S), span)
    places = np.arange(0, duration, max(1, block), dtype=np.int64)
    starts = np.random.default_rng(seed).integers(0, span, len(places))
    times = np.concatenate([traffic.arrival_ps, traffic.arrival_ps + span])
    lows, highs = np.searchsorted(times, starts), np.searchsorted(times, starts + block)
    counts = highs - lows
    _require(int(counts.sum()) > 0, "block_s, duration_s", "blocks that hold requests", "only empty ones in this draw")
    first = np.repeat(lows - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    chosen = first + np.arange(int(counts.sum()))
    arrival = times[chosen] + np.repeat(places - starts, counts)
    kept = arrival < duration
    _require(bool(kept.any()), "duration_s", "time enough for one request", "none in this draw")
    index = (chosen % len(traffic))[kept]
    return replace(traffic, arrival_ps=arrival[kept], size=traffic.size[index], stream=traffic.stream[index])


def scale_rate(traffic: Traffic, factor: float) -> Traffic:
    """The same requests at `factor` times the rate: time is compressed."""
    _require(isfinite(factor) and factor > 0, "rate factor", "a finite number above zero", repr(factor))
    longest = traffic.span_ps / factor / PS_PER_S
    _require(longest <= MAX_DURATION_S, "rate factor", f"a duration of at most {MAX_DURATION_S:g} s", f"{longest:g} s")
    return replace(traffic, arrival_ps=np.rint(traffic.arrival_ps / factor).astype(np.int64))


def take(traffic: Traffic, count: int) -> Traffic:
    """The first `count` requests, or all where there are fewer."""
    _require(count >= 1, "requests to take", "at least 1", str(count))
    return replace(
        traffic, arrival_ps=traffic.arrival_ps[:count], size=traffic.size[:count], stream=traffic.stream[:count]
    )


def _arrivals(spec: TrafficSpec, random: np.random.Generator) -> Doubles:
    """Arrival times, s. [N]"""
    if spec.kind == "steady":
        return np.arange(int(spec.rate_per_s * spec.duration_s)) / spec.rate_per_s
    if spec.kind == "poisson":
        edges, rates = np.array([0.0, spec.duration_s]), np.array([spec.rate_per_s])
    else:
        edges, rates = _phases(spec, random)
    # A Poisson process of varying rate is one of rate 1 on the axis of expected counts, carried back to time.
    expected = np.concatenate([[0.0], np.cumsum(rates * np.diff(edges))])
    marks = np.sort(random.uniform(0.0, expected[-1], random.poisson(expected[-1])))
    times: Doubles = np.interp(marks, expected, edges)
    return times


def _phases(spec: TrafficSpec, random: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Edges [P + 1] of bursts and calms in turn over the duration, s, and the rate within each [P]. Starts in a burst
    with the probability that it is in one at any time, so that the mean rate holds from the beginning."""
    calm_length_s = spec.burst_length_s * (1 - spec.burst_share) / spec.burst_share
    calm_rate = spec.rate_per_s * max(0.0, 1 - spec.burst_factor * spec.burst_share) / (1 - spec.burst_share)
    burst_first = random.random() < spec.burst_share
    pairs = int(2 * spec.duration_s / (spec.burst_length_s + calm_length_s)) + 16
    _require(pairs <= MAX_REQUESTS, "burst_length_s", f"at most {MAX_REQUESTS:,} bursts", f"about {pairs:,}")
    edges = np.zeros(1)
    while edges[-1] < spec.duration_s:
        lengths = random.exponential(1.0, (pairs, 2)) * (spec.burst_length_s, calm_length_s)
        turns = lengths if burst_first else lengths[:, ::-1]
        edges = np.concatenate([edges, edges[-1] + np.cumsum(turns.ravel())])
    edges = np.append(edges[edges < spec.duration_s], spec.duration_s)
    turn = np.array([spec.rate_per_s * spec.burst_factor, calm_rate])
    rates = np.resize(turn if burst_first else turn[::-1], len(edges) - 1)
    return edges, rates


def _sizes(sizes: Mapping[int, float] | LognormalSizes, count: int, random: np.random.Generator) -> Longs:
    if isinstance(sizes, LognormalSizes):
        drawn = np.exp(np.log(sizes.median) + sizes.sigma * random.standard_normal(count))
        bounded: Longs = np.clip(np.rint(drawn), sizes.low, sizes.high).astype(np.int64)
        return bounded
    weights = np.array(list(sizes.values()), dtype=np.float64)
    return random.choice(np.array(list(sizes), dtype=np.int64), count, p=weights / weights.sum())


def _check_sizes(sizes: Mapping[int, float] | LognormalSizes) -> None:
    if isinstance(sizes, LognormalSizes):
        _require(isfinite(sizes.median) and sizes.median > 0, "sizes.median", "above zero", repr(sizes.median))
        _require(0 <= sizes.sigma <= 10, "sizes.sigma", "from 0 to 10", repr(sizes.sigma))
        _require(
            1 <= sizes.low <= sizes.high, "sizes.low, sizes.high", "1 <= low <= high", f"{sizes.low}, {sizes.high}"
        )
        return
    _require(len(sizes) > 0, "sizes", "at least one size", "none")
    for size, weight in sizes.items():
        _require(size >= 1, "sizes", "sizes of at least 1", str(size))
        _require(
            isfinite(weight) and weight > 0, f"sizes, weight of {size}", "a finite number above zero", repr(weight)
        )


def _require(holds: bool, field_name: str, expected: str, found: str) -> None:
    if not holds:
        raise InputError(
            stage="ingress", where=f"traffic, {field_name}", expected=expected, found=found,
            remedy="Correct the traffic of the candidate file.",
        )  # fmt: skip

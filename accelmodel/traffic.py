"""Traffic: when requests arrive, how large they are, and which stream each belongs to. Made, resampled, scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from accelmodel.traffic_rates import MAX_DURATION_S, MAX_REQUESTS, PS_PER_S, Longs, arrivals_s, require

__all__ = [
    "MAX_DURATION_S", "MAX_REQUESTS", "PS_PER_S", "LognormalSizes", "Traffic", "TrafficSpec", "generate_traffic",
    "resample_blocks", "scale_rate", "stretch", "take", "thin",
]  # fmt: skip

MAX_BLOCKS = 10_000_000
KINDS = ("poisson", "bursty", "mmpp", "diurnal", "steady")


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """One entry a request, in order of arrival.

    arrival_ps: scheduled arrival, int64 [N], ascending from 0. size: int64 [N], at least 1. stream: int32 [N], an index
    into stream_names. warnings: what a reader of the results must know, and what was done about it. iterations: runs of
    the model that each request needs (tokens to generate), int64 [N], at least 1; None: one each.
    """

    arrival_ps: Longs
    size: Longs
    stream: NDArray[np.int32]
    stream_names: tuple[str, ...] = ("default",)
    warnings: tuple[str, ...] = ()
    iterations: Longs | None = None

    def __post_init__(self) -> None:
        count = len(self.arrival_ps)
        require(count > 0, "requests", "at least one", "none")
        require(len(self.size) == len(self.stream) == count, "size, stream", f"{count} entries", "another number")
        require(int(self.arrival_ps[0]) >= 0, "arrival_ps", "no time before 0", str(self.arrival_ps[0]))
        require(bool(np.all(np.diff(self.arrival_ps) >= 0)), "arrival_ps", "ascending times", "one that goes back")
        require(int(self.size.min()) >= 1, "size", "sizes of at least 1", str(self.size.min()))
        used = (int(self.stream.min()), int(self.stream.max()))
        repeats = np.ones(count, np.int64) if self.iterations is None else self.iterations
        require(len(repeats) == count and int(repeats.min()) >= 1, "iterations", f"{count} of at least 1", "others")
        require(used[0] >= 0 and used[1] < len(self.stream_names), "stream", "an index into stream_names", str(used))

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
    two-state Markov-modulated process); `mmpp`, one of any number of phases in turn, each for a random time;
    `diurnal`, a Poisson process whose rate swings as a sine; `steady`, evenly spaced. rate_per_s: mean arrivals a
    second, bursts included. burst_factor: rate inside a burst divided by the mean. burst_share: share of the time
    spent in bursts; burst_factor x burst_share is at most 1. burst_length_s: mean length of a burst. phase_rates,
    phase_lengths_s: relative rate and mean length of each phase of an mmpp. swing: share of the mean that the diurnal
    rate swings by; period_s: of its sine, which starts at the mean and rises. sizes: size -> relative weight, or
    LognormalSizes; where size_median is above 0, sizes are lognormal with that median and size_sigma instead, up to
    size_high. iterations: runs of the model that a request needs, drawn as sizes are. streams: names, equally likely.
    """

    kind: str
    rate_per_s: float
    duration_s: float
    sizes: Mapping[int, float] | LognormalSizes = field(default_factory=lambda: {1: 1.0})
    streams: tuple[str, ...] = ("default",)
    burst_factor: float = 4.0
    burst_share: float = 0.1
    burst_length_s: float = 0.05
    phase_rates: tuple[float, ...] = ()
    phase_lengths_s: tuple[float, ...] = ()
    swing: float = 0.5
    period_s: float = 86400.0
    size_median: float = 0.0
    size_sigma: float = 1.0
    size_high: int = 2**20
    iterations: Mapping[int, float] | LognormalSizes = field(default_factory=lambda: {1: 1.0})

    def __post_init__(self) -> None:
        require(self.kind in KINDS, "kind", f"one of {', '.join(KINDS)}", repr(self.kind))
        for name in ("rate_per_s", "duration_s", "burst_length_s", "period_s"):
            value = getattr(self, name)
            require(isfinite(value) and value > 0, name, "a finite number above zero", repr(value))
        require(self.duration_s <= MAX_DURATION_S, "duration_s", f"at most {MAX_DURATION_S:g}", repr(self.duration_s))
        requests = self.rate_per_s * self.duration_s
        require(
            requests <= MAX_REQUESTS,
            "rate_per_s x duration_s",
            f"at most {MAX_REQUESTS:,} requests",
            f"{requests:,.0f}",
        )
        require(len(self.streams) > 0, "streams", "at least one name", "none")
        if self.kind == "bursty":
            share = self.burst_share * self.burst_factor
            require(0 < self.burst_share < 1, "burst_share", "a share between 0 and 1", repr(self.burst_share))
            require(self.burst_factor >= 1, "burst_factor", "at least 1", repr(self.burst_factor))
            require(
                share <= 1,
                "burst_factor x burst_share",
                "at most 1, or the calm would need a negative rate",
                f"{share:g}",
            )
        if self.kind == "mmpp":
            alike = len(self.phase_rates) == len(self.phase_lengths_s) >= 1
            require(alike, "phase_rates, phase_lengths_s", "as many of both, at least one",
                     f"{len(self.phase_rates)} and {len(self.phase_lengths_s)}")  # fmt: skip
            lengths = all(isfinite(value) and value > 0 for value in self.phase_lengths_s)
            require(lengths, "phase_lengths_s", "finite numbers above zero", str(self.phase_lengths_s))
            rates = all(isfinite(value) and value >= 0 for value in self.phase_rates) and sum(self.phase_rates) > 0
            require(rates, "phase_rates", "finite numbers from zero up, one above it", str(self.phase_rates))
        require(0 <= self.swing <= 1, "swing", "a share from 0 to 1", repr(self.swing))
        _check_sizes(self.size_law)
        _check_sizes(self.iterations)

    @property
    def size_law(self) -> Mapping[int, float] | LognormalSizes:
        """What sizes are drawn from."""
        if self.size_median == 0:
            return self.sizes
        return LognormalSizes(self.size_median, self.size_sigma, 1, self.size_high)


def generate_traffic(spec: TrafficSpec, seed: int) -> Traffic:
    """Traffic of a specification; the same for the same seed. Arrivals, sizes and streams draw independently, so that
    a change of one leaves the others as they were."""
    times = arrivals_s(spec, np.random.default_rng([seed, 0]))
    require(len(times) > 0, "rate_per_s x duration_s", "enough for at least one request", "none in this draw")
    streams = np.random.default_rng([seed, 2]).integers(0, len(spec.streams), len(times), dtype=np.int32)
    sizes = _sizes(spec.size_law, len(times), np.random.default_rng([seed, 1]))
    once = not isinstance(spec.iterations, LognormalSizes) and set(spec.iterations) == {1}
    repeats = None if once else _sizes(spec.iterations, len(times), np.random.default_rng([seed, 4]))
    arrivals = np.sort(np.rint(times * PS_PER_S).astype(np.int64))
    return Traffic(arrivals, sizes, streams, spec.streams, iterations=repeats)


def resample_blocks(traffic: Traffic, block_s: float, seed: int, duration_s: float) -> Traffic:
    """A replication of recorded traffic: blocks of `block_s` drawn from it with replacement, laid end to end.

    Moving blocks that wrap around (circular block bootstrap, Politis and Romano 1992): every request is equally likely
    to be drawn, and the dependence within a block is kept.
    """
    require(isfinite(block_s) and block_s > 0, "block_s", "a finite number above zero", repr(block_s))
    require(0 < duration_s <= MAX_DURATION_S, "duration_s", f"above 0, at most {MAX_DURATION_S:g}", repr(duration_s))
    expected = traffic.rate_per_s * duration_s
    require(expected <= MAX_REQUESTS, "duration_s", f"at most {MAX_REQUESTS:,} requests", f"about {expected:,.0f}")
    span, duration = traffic.span_ps, round(duration_s * PS_PER_S)
    block = min(round(block_s * PS_PER_S), span)
    blocks = duration / max(1, block)
    require(blocks <= MAX_BLOCKS, "block_s", f"at most {MAX_BLOCKS:,} blocks in {duration_s:g} s", f"{blocks:,.0f}")
    places = np.arange(0, duration, max(1, block), dtype=np.int64)
    starts = np.random.default_rng(seed).integers(0, span, len(places))
    times = np.concatenate([traffic.arrival_ps, traffic.arrival_ps + span])
    lows, highs = np.searchsorted(times, starts), np.searchsorted(times, starts + block)
    counts = highs - lows
    require(int(counts.sum()) > 0, "block_s, duration_s", "blocks that hold requests", "only empty ones in this draw")
    first = np.repeat(lows - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    chosen = first + np.arange(int(counts.sum()))
    arrival = times[chosen] + np.repeat(places - starts, counts)
    kept = arrival < duration
    require(bool(kept.any()), "duration_s", "time enough for one request", "none in this draw")
    return _chosen(traffic, (chosen % len(traffic))[kept], arrival[kept])


def scale_rate(traffic: Traffic, factor: float) -> Traffic:
    """The same requests at `factor` times the rate: time is compressed."""
    require(isfinite(factor) and factor > 0, "rate factor", "a finite number above zero", repr(factor))
    longest = traffic.span_ps / factor / PS_PER_S
    require(longest <= MAX_DURATION_S, "rate factor", f"a duration of at most {MAX_DURATION_S:g} s", f"{longest:g} s")
    return replace(traffic, arrival_ps=np.rint(traffic.arrival_ps / factor).astype(np.int64))


def stretch(traffic: Traffic, factor: float) -> Traffic:
    """The same requests over `factor` times the duration."""
    require(isfinite(factor) and factor > 0, "stretch", "a finite number above zero", repr(factor))
    return scale_rate(traffic, 1.0 / factor)


def thin(traffic: Traffic, share: float, seed: int) -> Traffic:
    """A share of the requests, each kept with that probability: the rate falls and time stays as it is."""
    require(0 < share <= 1, "thin", "a share above 0, at most 1", repr(share))
    kept = np.flatnonzero(np.random.default_rng([seed, 3]).random(len(traffic)) < share)
    require(len(kept) > 0, "thin", "a share that leaves a request", f"none of {len(traffic)} at {share:g}")
    return _chosen(traffic, kept)


def take(traffic: Traffic, count: int) -> Traffic:
    """The first `count` requests, or all where there are fewer."""
    require(count >= 1, "requests to take", "at least 1", str(count))
    return _chosen(traffic, slice(0, count))


def _chosen(traffic: Traffic, which: slice | Longs, arrival_ps: Longs | None = None) -> Traffic:
    """Some of the requests, at their own times or at others."""
    repeats = traffic.iterations
    arrival = traffic.arrival_ps[which] if arrival_ps is None else arrival_ps
    return replace(
        traffic, arrival_ps=arrival, size=traffic.size[which], stream=traffic.stream[which],
        iterations=None if repeats is None else repeats[which],
    )  # fmt: skip


def _sizes(sizes: Mapping[int, float] | LognormalSizes, count: int, random: np.random.Generator) -> Longs:
    if isinstance(sizes, LognormalSizes):
        drawn = np.exp(np.log(sizes.median) + sizes.sigma * random.standard_normal(count))
        bounded: Longs = np.clip(np.rint(drawn), sizes.low, sizes.high).astype(np.int64)
        return bounded
    weights = np.array(list(sizes.values()), dtype=np.float64)
    return random.choice(np.array(list(sizes), dtype=np.int64), count, p=weights / weights.sum())


def _check_sizes(sizes: Mapping[int, float] | LognormalSizes) -> None:
    if isinstance(sizes, LognormalSizes):
        require(isfinite(sizes.median) and sizes.median > 0, "sizes.median", "above zero", repr(sizes.median))
        require(0 <= sizes.sigma <= 10, "sizes.sigma", "from 0 to 10", repr(sizes.sigma))
        require(1 <= sizes.low <= sizes.high, "sizes.low, sizes.high", "1 <= low <= high", f"{sizes.low}, {sizes.high}")
        return
    require(len(sizes) > 0, "sizes", "at least one size", "none")
    for size, weight in sizes.items():
        require(size >= 1, "sizes", "sizes of at least 1", str(size))
        require(isfinite(weight) and weight > 0, f"sizes, weight of {size}", "a finite number above zero", repr(weight))

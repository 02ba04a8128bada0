"""Which requests arrive when, for each replication: the same for both sides and for every hybrid. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accelmodel.errors import InputError
from accelmodel.traffic import (
    PS_PER_S,
    Traffic,
    TrafficSpec,
    generate_traffic,
    resample_blocks,
    scale_rate,
    stretch,
    take,
    thin,
)
from schemas.candidate import Candidate, GeneratedTraffic, Side

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """One replication, in order of arrival. arrival_ps [N]; size [N]; stream [N], index into `streams`; workload [N],
    index into the candidate's workloads; iterations [N], None: one each."""

    arrival_ps: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int32]
    streams: tuple[str, ...]
    workload: npt.NDArray[np.int32]
    iterations: npt.NDArray[np.int32] | None = None


def replications(document: Candidate, recorded: Traffic | None) -> tuple[Arrivals, ...]:
    """The arrivals of every replication. recorded: the traffic file, where the candidate names one."""
    _require_streams(document, recorded)
    weights = [workload.weight for workload in document.workloads]
    return tuple(
        _arrivals(_replication(document, recorded, seed), document, weights, seed) for seed in seeds_of(document)
    )


def _require_streams(document: Candidate, recorded: Traffic | None) -> None:
    """What is said of a stream must be said of one that exists: a misspelt name would change nothing in silence."""
    generated = document.traffic.generate
    known = generated.streams if generated is not None else recorded.stream_names if recorded is not None else ()
    for name in ("comparator", "candidate"):
        side: Side = getattr(document, name)
        scheduling = side.settings.scheduling
        for field, said in (("priority", scheduling.priority), ("weight", scheduling.weight),
                            ("deadline_us", scheduling.deadline_us)):  # fmt: skip
            unknown = sorted(set(said) - set(known))
            if unknown:
                raise InputError(
                    stage="scheduling", where=f"{name}.settings.scheduling.{field}",
                    expected=f"streams of the traffic ({', '.join(known[:20])})", found=", ".join(unknown),
                    remedy="Correct the names, or leave them out: a stream that is not named has the default.",
                )  # fmt: skip


def seeds_of(document: Candidate) -> tuple[int, ...]:
    """One seed a replication, for arrivals and for noise."""
    return tuple(document.traffic.seed + number for number in range(document.policy.replications))


def _replication(document: Candidate, recorded: Traffic | None, seed: int) -> Traffic:
    traffic = document.traffic
    if traffic.generate is not None:
        return generate_traffic(to_spec(traffic.generate), seed)
    assert traffic.file is not None and recorded is not None  # the document holds exactly one of the two
    scaled = stretch(scale_rate(recorded, traffic.file.rate_scale), traffic.file.stretch)
    if traffic.file.thin < 1:
        scaled = thin(scaled, traffic.file.thin, seed)
    return resample_blocks(scaled, traffic.file.block_s, seed, scaled.span_ps / PS_PER_S)


def _arrivals(traffic: Traffic, document: Candidate, weights: Sequence[float], seed: int) -> Arrivals:
    kept = take(traffic, document.traffic.max_requests)
    workload = assign_workloads(len(kept), weights, seed)
    repeats = None if kept.iterations is None else kept.iterations.astype(np.int32)
    return Arrivals(kept.arrival_ps, kept.size, kept.stream, kept.stream_names, workload, repeats)


def to_spec(document: GeneratedTraffic) -> TrafficSpec:
    """Generated traffic as the model takes it: field for field the same."""
    return TrafficSpec(**{name: getattr(document, name) for name in GeneratedTraffic.model_fields})


def assign_workloads(count: int, weights: Sequence[float], seed: int) -> npt.NDArray[np.int32]:
    """The workload of each request, by a hash of seed and number, in the proportion of the weights. [N]

    A hash, not a generator: the workload of request i does not change when requests are added after it.
    """
    bounds = np.cumsum(np.asarray(weights, dtype=np.float64))
    share = _uniform(count, seed) * bounds[-1]
    return np.minimum(np.searchsorted(bounds, share, side="right"), len(bounds) - 1).astype(np.int32)


def _uniform(count: int, seed: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) by splitmix64 (Steele, Lea and Flood, OOPSLA 2014) of seed and index. [N]"""
    with np.errstate(over="ignore"):
        start = _mixed(np.full(1, seed, dtype=np.uint64))
        mixed = _mixed(start + _STEP * np.arange(1, count + 1, dtype=np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def _mixed(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * _MIX[0]
    value = (value ^ (value >> np.uint64(27))) * _MIX[1]
    return value ^ (value >> np.uint64(31))

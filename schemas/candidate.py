"""The candidate file (`tilegate/v1`): two sides, target, workloads, traffic, policy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from schemas.base import Count, Document, Name, NonNegative, Positive, Share, Text
from schemas.policy import Policy
from schemas.settings import StageSettings

SCHEMA = "tilegate/v1"
SIDES = ("comparator", "candidate")
MAX_REQUESTS = 50_000_000  # of one replication, before traffic.max_requests
SOFTWARE_TAGS = ("compiler", "runtime", "driver", "firmware")


Tag = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]
"""A version or a name. Never empty: two empty tags would agree and say nothing."""


class Tags(Document):
    """Versions of what ran. The candidate may declare changed software tags; hardware can never differ."""

    compiler: Tag
    runtime: Tag
    driver: Tag
    firmware: Tag
    hardware: Tag


class Conditions(Document):
    """Circumstances of a run. They must agree between the sides and can never be declared as changed."""

    clock_mhz: Positive
    """Clock during the run, MHz."""
    temperature_c: Annotated[float, Field(ge=-60, le=150)]
    """Temperature during the run, degrees Celsius."""
    power_w: Positive
    """Power limit during the run, watts."""
    throttling: bool
    """Whether the device reported throttling."""


class Profile(Document):
    """A measured profile of a side: what a profiler wrote (PyTorch, Nsight Systems, Nsight Compute, ONNX Runtime), or a
    Parquet file in the layout of the table `profile_kernels`."""

    workload: Name
    path: Text


class Side(Document):
    """One release: the candidate or its comparator."""

    name: Name
    tags: Tags
    conditions: Conditions
    settings: StageSettings = StageSettings()
    profiles: tuple[Profile, ...] = ()


class Bucket(Document):
    """A set of shapes that plans are made for. A request of size s fits where s <= max_size."""

    name: Name
    shapes: dict[str, Count] = {}
    """Value of each symbolic dim except the batch dim."""
    max_size: Annotated[int, Field(ge=1)] | None = None
    """Largest request size this bucket takes; by default the value of the size_dim."""


class Workload(Document):
    """One model with its production shapes."""

    name: Name
    model: Text
    """Path of the ONNX file, relative to the candidate file."""
    weight: Positive = 1.0
    """Share of the traffic, relative to the other workloads."""
    batch_dim: str | None = None
    """Symbolic dim that batching fills; none means the model runs one request at a time."""
    size_dim: str | None = None
    """Symbolic dim that the request size is bucketed into; none means every request fits the first bucket."""
    buckets: tuple[Bucket, ...] = (Bucket(name="default"),)
    quality_shapes: dict[str, Count] = {}
    """Shapes for the numeric check, where production shapes are too large to run; empty means the first bucket's."""

    @model_validator(mode="after")
    def _buckets_agree(self) -> Workload:
        if not self.buckets:
            raise ValueError("buckets: at least one is needed")
        names = [bucket.name for bucket in self.buckets]
        if len(set(names)) != len(names):
            raise ValueError(f"buckets: names must differ, found {names}")
        if "fallback" in names:
            raise ValueError("buckets: the name 'fallback' stands for requests that no bucket covers: choose another")
        for bucket in self.buckets:
            if self.size_dim is not None and bucket.max_size is None and self.size_dim not in bucket.shapes:
                raise ValueError(
                    f"bucket {bucket.name!r}: give shapes.{self.size_dim} or max_size, which size_dim needs"
                )
            if self.batch_dim is not None and self.batch_dim in bucket.shapes:
                raise ValueError(
                    f"bucket {bucket.name!r}: shapes.{self.batch_dim} is the batch_dim, which batching sets"
                )
        return self


class GeneratedTraffic(Document):
    """Traffic made from a seed."""

    kind: Literal["poisson", "bursty", "mmpp", "diurnal", "steady"]
    rate_per_s: Annotated[float, Field(ge=1e-6, le=1e9)]
    """Mean arrivals a second, all workloads together."""
    duration_s: Annotated[float, Field(gt=0.0, le=4e6)]
    burst_factor: Annotated[float, Field(ge=1.0, le=1000.0)] = 4.0
    """Rate inside a burst divided by the mean rate (kind bursty)."""
    burst_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.1
    """Share of the time spent in bursts (kind bursty); burst_factor x burst_share must not pass 1."""
    burst_length_s: Annotated[float, Field(ge=1e-6, le=4e6)] = 0.05
    """Mean length of a burst, seconds."""
    phase_rates: tuple[NonNegative, ...] = ()
    """Relative rate of each phase, in turn (kind mmpp)."""
    phase_lengths_s: tuple[Positive, ...] = ()
    """Mean length of each phase, seconds (kind mmpp)."""
    swing: Share = 0.5
    """Share of the mean rate that the rate swings by (kind diurnal)."""
    period_s: Annotated[float, Field(ge=1e-3, le=1e9)] = 86400.0
    """Period of the swing, seconds (kind diurnal)."""
    sizes: dict[Count, Positive] = {1: 1.0}
    """Request sizes and their relative weights."""
    size_median: NonNegative = 0.0
    """Above 0: sizes are lognormal with this median, instead of `sizes`."""
    size_sigma: Annotated[float, Field(ge=0.0, le=10.0)] = 1.0
    """Deviation of the logarithm of lognormal sizes."""
    size_high: Count = 2**20
    """Largest lognormal size."""
    iterations: dict[Count, Positive] = {1: 1.0}
    """Runs of the model that a request needs (tokens to generate) and their relative weights; for batching
    `iteration`."""
    streams: tuple[Name, ...] = ("default",)

    @model_validator(mode="after")
    def _bursts_fit_the_mean(self) -> GeneratedTraffic:
        if self.kind == "bursty" and self.burst_factor * self.burst_share > 1.0:
            raise ValueError(
                f"burst_factor x burst_share must not pass 1 (else bursts alone exceed the mean rate): "
                f"{self.burst_factor} x {self.burst_share} = {self.burst_factor * self.burst_share:g}"
            )
        if self.rate_per_s * self.duration_s > MAX_REQUESTS:
            raise ValueError(
                f"rate_per_s x duration_s: at most {MAX_REQUESTS:,} requests, found "
                f"{self.rate_per_s * self.duration_s:,.0f}"
            )
        if not self.sizes or not self.streams or not self.iterations:
            raise ValueError("sizes, iterations and streams: at least one of each is needed")
        paired = len(self.phase_rates) == len(self.phase_lengths_s) and any(rate > 0 for rate in self.phase_rates)
        if self.kind == "mmpp" and not paired:
            raise ValueError("kind mmpp needs phase_rates and phase_lengths_s, as many of both, one rate above 0")
        return self


class TrafficFile(Document):
    """Recorded production traffic."""

    path: Text
    columns: dict[Literal["arrival", "size", "stream", "iterations", "unit"], str] = {}
    """Column names, where the format is not one that is known; `unit` is of arrivals that are plain numbers: s, ms, us,
    ns or ps."""
    sort: bool = False
    """Put rows that go back in time in order, and say so; otherwise such a file is refused."""
    rate_scale: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    """Arrival rate multiplied by this (time is compressed)."""
    thin: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the requests that each replication keeps, drawn with its seed; time stays as it is."""
    stretch: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    """Duration multiplied by this (the rate falls)."""
    block_s: Annotated[float, Field(ge=0.001, le=4e6)] = 30.0
    """Length of the blocks of arrivals that replications resample, seconds (after scaling)."""


class Traffic(Document):
    """Exactly one of `generate` and `file`."""

    generate: GeneratedTraffic | None = None
    file: TrafficFile | None = None
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    max_requests: Annotated[int, Field(ge=100, le=10**7)] = 20000
    """Most requests in one replication."""
    warmup_share: Annotated[float, Field(ge=0.0, le=0.5)] = 0.05
    """Share of each replication's first requests left out of the statistics."""

    @model_validator(mode="after")
    def _one_source(self) -> Traffic:
        if (self.generate is None) == (self.file is None):
            raise ValueError("give exactly one of traffic.generate and traffic.file")
        return self


class Candidate(Document):
    """A candidate file. `tilegate init` writes a commented one."""

    schema_: Annotated[Literal["tilegate/v1"], Field(alias="schema")]
    name: Name
    description: Text = ""
    target: Text
    """Name of a built-in target, or path of a target file, relative to the candidate file."""
    model_only: bool = False
    """Says that no measured profile exists and a verdict on modelled and replayed evidence alone is wanted."""
    declared_changes: tuple[Literal["compiler", "runtime", "driver", "firmware"], ...] = ()
    """Software tags that this candidate means to change."""
    workloads: Annotated[tuple[Workload, ...], Field(min_length=1, max_length=64)]
    traffic: Traffic
    comparator: Side
    candidate: Side
    policy: Policy = Policy()

    @model_validator(mode="after")
    def _names_differ(self) -> Candidate:
        names = [workload.name for workload in self.workloads]
        if len(set(names)) != len(names):
            raise ValueError(f"workloads: names must differ, found {names}")
        if "overall" in names:
            raise ValueError("workloads: the name 'overall' stands for all workloads together: choose another")
        known = set(names)
        for side in (self.comparator, self.candidate):
            for profile in side.profiles:
                if profile.workload not in known:
                    raise ValueError(f"profile of workload {profile.workload!r}: no workload has that name")
            if side.settings.scheduling.max_batch > 1:
                lacking = [workload.name for workload in self.workloads if workload.batch_dim is None]
                if lacking:
                    raise ValueError(f"scheduling.max_batch above 1 needs a batch_dim on workloads {lacking}")
        return self

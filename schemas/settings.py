"""The settings of the eight stages as they stand in a candidate file. Field for field accelmodel.settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from schemas.base import Count, Document, Name, Positive, Precision

Micros = Annotated[float, Field(ge=0.0, le=4e12)]
"""Microseconds; beyond 46 days, picoseconds leave the 64 bits that the replay counts in."""


class Ingress(Document):
    bucket_rule: Literal["smallest_fit", "exact"] = "smallest_fit"
    """Which shape bucket takes a request: the smallest that holds it, or only one of exactly its size."""
    admit_limit: Annotated[int, Field(ge=0, le=10**9)] = 0
    """Most requests waiting at once; later ones are rejected. 0 means no limit."""


class Lowering(Document):
    precision: Precision = "model"
    """Element type of weights and activations; `model` keeps the model's own."""
    accumulator: Literal["float64", "float32", "float16", "bfloat16", "int32"] = "float32"
    """Type that contractions and reductions accumulate in."""
    no_kernel: tuple[str, ...] = ()
    """ONNX op types without a kernel on this side: they run as fallback on the host."""


class Fusion(Document):
    policy: Literal["none", "pattern", "aggressive", "optimal"] = "pattern"
    """How ops are grouped into kernels."""
    max_ops: Count = 64
    """Most ops in one group."""
    max_external_tensors: Count = 64
    """Most tensors that one group reads or writes outside itself."""
    exact_ops: Annotated[int, Field(ge=1, le=16)] = 8
    """L: the optimal policy is exact over groups of at most this many ops."""
    max_ideals: Count = 20000
    """Cap of the exact search; beyond it the plan is labelled not exact."""
    split_before: tuple[str, ...] = ()
    """Names of ops that must not share a group with any op that feeds them."""


class Tiling(Document):
    cores: Annotated[int, Field(ge=0, le=10**6)] = 0
    """Cores that one kernel spreads over; 0 means all cores of the target."""
    double_buffer: bool = True
    """Overlap transfers with compute, at twice the streamed buffers."""
    max_tiles: Count = 4096
    """Most tile candidates tried for one group."""
    align: bool = True
    """Keep tile sizes multiples of the engine's native tile."""


class Placement(Document):
    order: Literal["best", "size", "lifetime", "area", "start"] = "best"
    """Greedy order of the buffers; `best` tries all."""
    reserve_bytes: Annotated[int, Field(ge=0)] = 0
    """On-chip bytes withheld from the plan, per core."""


class Execution(Document):
    launch_mode: Literal["host", "graph"] = "host"
    """Kernels launched one by one by the host, or replayed from a captured graph."""
    extra_barriers: Annotated[int, Field(ge=0, le=1000)] = 0
    """Device barriers added to every kernel."""
    noise_cv: Annotated[float, Field(ge=0.0, le=2.0)] = 0.0
    """Coefficient of variation of kernel time (lognormal, mean 1)."""
    clock_fraction: Annotated[float, Field(ge=0.01, le=1.0)] = 1.0
    """Share of the nominal clock that a throttled device keeps; 1 means no throttling."""
    noise_factors: tuple[Annotated[float, Field(ge=1e-3, le=1e3)], ...] = ()
    """Measured factors of kernel time, one drawn for each kernel run; instead of noise_cv."""
    throttle_from_us: tuple[Micros, ...] = ()
    """Clock schedule of the replay: the instants from which each share of throttle_clock holds, microseconds."""
    throttle_clock: tuple[Annotated[float, Field(ge=0.01, le=1.0)], ...] = ()
    """Share of the plan's clock that is kept from each instant of throttle_from_us on."""

    @model_validator(mode="after")
    def _schedule_agrees(self) -> Execution:
        instants = self.throttle_from_us
        if len(instants) != len(self.throttle_clock) or list(instants) != sorted(set(instants)):
            raise ValueError(
                "throttle_from_us and throttle_clock: give as many instants, ascending, as shares; found "
                f"{len(instants)} instants and {len(self.throttle_clock)} shares"
            )
        if self.noise_factors and self.noise_cv > 0:
            raise ValueError("noise_factors and noise_cv: give one of the two")
        return self


class Scheduling(Document):
    queue: Literal["fifo", "priority", "earliest_deadline", "weighted_fair"] = "fifo"
    """Order in which waiting requests are served."""
    max_batch: Annotated[int, Field(ge=1, le=64)] = 1
    """Most requests in one batch; above 1 every workload needs a batch_dim."""
    max_wait_us: Micros = 0.0
    """Longest that a request waits for its batch to fill, microseconds."""
    core_policy: Literal["round_robin", "least_loaded", "join_shortest_queue", "affinity", "partitioned"] = (
        "least_loaded"
    )
    """Which set of cores a batch goes to."""
    batching: Literal["bucket", "padded", "iteration"] = "bucket"
    """What a batch may hold: requests of one bucket; of one workload, padded to the largest; of one workload, joining
    and leaving between iterations."""
    timeout_us: Micros = 0.0
    """Longest that a request waits before it leaves, microseconds. 0 means that it waits as long as it takes."""
    priority: dict[Name, Annotated[int, Field(ge=0, le=1000)]] = {}
    """Level of each stream under queue `priority`, 0 served first; streams left out are 0."""
    weight: dict[Name, Positive] = {}
    """Share of each stream under queue `weighted_fair`, relative; streams left out have 1."""
    deadline_us: dict[Name, Annotated[float, Field(gt=0.0, le=4e12)]] = {}
    """Deadline of each stream after its arrival under queue `earliest_deadline`; streams left out have the SLA."""


class Assembly(Document):
    order: Literal["arrival", "completion"] = "arrival"
    """How the results of a batch are handed back: to the request they belong to, or by order of completion."""
    sla_us: Micros = 0.0
    """Latency target stamped on each request, microseconds; 0 means none."""


class StageSettings(Document):
    """All eight stages in flow order. A stage left out has its defaults."""

    ingress: Ingress = Ingress()
    lowering: Lowering = Lowering()
    fusion: Fusion = Fusion()
    tiling: Tiling = Tiling()
    placement: Placement = Placement()
    execution: Execution = Execution()
    scheduling: Scheduling = Scheduling()
    assembly: Assembly = Assembly()

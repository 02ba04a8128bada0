"""The settings of each stage: what two sides may differ in, and what hybrids mix.

One frozen dataclass a stage. A hybrid takes some of the eight from one side and the rest from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

STAGES = ("ingress", "lowering", "fusion", "tiling", "placement", "execution", "scheduling", "assembly")


@dataclass(frozen=True, slots=True)
class IngressSettings:
    """bucket_rule: `smallest_fit` (smallest bucket that holds the request) or `exact`; a request that no
    bucket covers pays the fallback plan. admit_limit: most requests waiting at once, later ones are rejected
    (0 = no limit)."""

    bucket_rule: str = "smallest_fit"
    admit_limit: int = 0


@dataclass(frozen=True, slots=True)
class LoweringSettings:
    """precision: element type of activations and weights, or `model` to keep the model's own.
    accumulator: type that contractions and reductions accumulate in. no_kernel: op types without a kernel on this
    side (they become `fallback` ops)."""

    precision: str = "model"
    accumulator: str = "float32"
    no_kernel: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """policy: none, pattern, aggressive, optimal. max_ops, max_external_tensors: limits of one group.
    exact_ops: L of the exact search. max_ideals: cap of its order ideals. split_before: names of ops that must
    start a new group whatever the policy says: no group may hold such an op together with any op that feeds it."""

    policy: str = "pattern"
    max_ops: int = 64
    max_external_tensors: int = 64
    exact_ops: int = 8
    max_ideals: int = 20000
    split_before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TilingSettings:
    """cores: cores that one kernel spreads over (0 = all of the target); the replay runs cores-of-target / cores
    requests side by side. double_buffer: overlap transfers with compute, at twice the streamed buffers.
    max_tiles: most tile candidates per group. align: tile sizes are multiples of the engine's native tile (True)
    or any power of two (False)."""

    cores: int = 0
    double_buffer: bool = True
    max_tiles: int = 4096
    align: bool = True


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """order: greedy order, `best` of all or one of size, lifetime, area, start. reserve_bytes: SRAM withheld."""

    order: str = "best"
    reserve_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ExecutionSettings:
    """launch_mode: `host` or `graph`. extra_barriers: device barriers added to every kernel. noise_cv: coefficient of
    variation of kernel time (lognormal, mean 1). clock_fraction: share of the nominal clock that a throttled
    device keeps, 1 = none. noise_factors: measured factors of kernel time, one drawn a kernel, instead of noise_cv.
    throttle_from_us, throttle_clock: the clock schedule of a replay, from each instant on the share of the plan's clock
    that is kept, until the next one."""

    launch_mode: str = "host"
    extra_barriers: int = 0
    noise_cv: float = 0.0
    clock_fraction: float = 1.0
    noise_factors: tuple[float, ...] = ()
    throttle_from_us: tuple[float, ...] = ()
    throttle_clock: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SchedulingSettings:
    """queue: order of what waits: fifo, priority, earliest_deadline, weighted_fair. max_batch, max_wait_us:
    size-and-wait batching (1 = none). core_policy: which slot (set of cores) a batch goes to: round_robin,
    least_loaded, join_shortest_queue, affinity, partitioned. batching: what a batch may hold: requests of one bucket
    (`bucket`), of one workload, padded to the largest (`padded`), or of one workload, joining and leaving between
    iterations (`iteration`). timeout_us: a request that has waited so long leaves (0 = never). By stream: priority
    (0 first; default 0), weight (default 1), deadline_us after arrival (default: the SLA)."""

    queue: str = "fifo"
    max_batch: int = 1
    max_wait_us: float = 0.0
    core_policy: str = "least_loaded"
    batching: str = "bucket"
    timeout_us: float = 0.0
    priority: Mapping[str, int] = field(default_factory=dict)
    weight: Mapping[str, float] = field(default_factory=dict)
    deadline_us: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssemblySettings:
    """order: `arrival` (results split back to the request they belong to) or `completion` (a defect: by finish order).
    sla_us: latency stamped as met or not."""

    order: str = "arrival"
    sla_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Settings:
    """All eight, in stage order."""

    ingress: IngressSettings = field(default_factory=IngressSettings)
    lowering: LoweringSettings = field(default_factory=LoweringSettings)
    fusion: FusionSettings = field(default_factory=FusionSettings)
    tiling: TilingSettings = field(default_factory=TilingSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    execution: ExecutionSettings = field(default_factory=ExecutionSettings)
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    assembly: AssemblySettings = field(default_factory=AssemblySettings)

    def changed_stages(self, other: Settings) -> tuple[str, ...]:
        """Stages whose settings differ between the two, in stage order."""
        return tuple(stage for stage in STAGES if getattr(self, stage) != getattr(other, stage))


def hybrid(comparator: Settings, candidate: Settings, from_candidate: frozenset[str]) -> Settings:
    """The comparator with the named stages taken from the candidate. `frozenset()` is the comparator itself."""
    return replace(comparator, **{stage: getattr(candidate, stage) for stage in STAGES if stage in from_candidate})

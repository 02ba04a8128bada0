"""What the traffic would meet under other rates, batches and fusion: rows of the table `trials` of one side. Pure.

Every trial replays the same requests with the same seeds; only what it is named for differs from the side's settings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from accelmodel.capacity import Capacity, Replays, Trial, capacity, trial_of
from accelmodel.plan import Plan
from accelmodel.settings import FusionSettings, Settings
from accelmodel.target import Target
from flows.arrivals import Arrivals
from flows.labels import batch_sizes, bucket_and_batch
from flows.plan_rows import Row
from flows.replaying import replay_at
from schemas.candidate import Workload

MOST_REQUESTS = 3000
MOST_REPLICATIONS = 2
POLICIES = ("none", "pattern", "aggressive")
_TOLERANCE = 0.03
_PS_PER_US = 1e6
_SIZES = (1, 2, 4)
_WAITS_US = (0.0, 1000.0, 5000.0)

Plans = Mapping[str, Mapping[str, Plan]]
"""Workload -> label (`bucket/batch`) -> plan."""
Compile = Callable[[Settings, int], Plans]
"""The plans of all workloads under these settings, for batches of up to so many."""


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One side and what it is tried on."""

    side: str
    workloads: Sequence[Workload]
    settings: Settings
    target: Target
    arrivals: Sequence[Arrivals]
    seeds: Sequence[int]
    warmup_share: float

    def replays(self, plans: Plans, settings: Settings) -> Replays:
        """Its replications under these plans and settings, by rate."""
        return replay_at(self.workloads, plans, settings, self.target, self.arrivals, self.seeds)


def setting_of(
    side: str, workloads: Sequence[Workload], settings: Settings, target: Target, arrivals: Sequence[Arrivals],
    seeds: Sequence[int], warmup_share: float,
) -> Setting:  # fmt: skip
    """A side on a part of the replications that a trial can afford."""
    few = [_first(each) for each in arrivals[:MOST_REPLICATIONS]]
    return Setting(side, workloads, settings, target, few, seeds[: len(few)], warmup_share)


def trial_rows(setting: Setting, compile_all: Compile) -> list[Row]:
    """All trials of a side; none where a replication has all its requests at one instant, and so no rate."""
    if any(each.arrival_ps[0] == each.arrival_ps[-1] for each in setting.arrivals):
        return []
    return [*_rates(setting, compile_all), *_batches(setting, compile_all), *_fusions(setting, compile_all)]


def _first(arrivals: Arrivals) -> Arrivals:
    kept = slice(0, MOST_REQUESTS)
    return dataclasses.replace(
        arrivals, arrival_ps=arrivals.arrival_ps[kept], size=arrivals.size[kept], stream=arrivals.stream[kept],
        workload=arrivals.workload[kept],
        iterations=None if arrivals.iterations is None else arrivals.iterations[kept],
    )  # fmt: skip


def _rates(setting: Setting, compile_all: Compile) -> Iterator[Row]:
    settings = setting.settings
    plans = compile_all(settings, settings.scheduling.max_batch)
    found = capacity(
        setting.replays(plans, settings), settings.assembly.sla_us, warmup_share=setting.warmup_share,
        tolerance=_TOLERANCE,
    )  # fmt: skip
    for trial in found.trials:
        yield _row(setting, "rate", f"{trial.rate_per_s:.6g}/s", settings, trial, _mark(found, trial.rate_per_s))


def _mark(found: Capacity, rate_per_s: float) -> str:
    """What a rate is, where it is the highest within the SLA, the highest stable one, or the knee."""
    marks = {"sla": found.sla_rate_per_s, "stable": found.stable_rate_per_s, "knee": found.knee_per_s}
    return " ".join(name for name, rate in marks.items() if rate == rate_per_s)


def _batches(setting: Setting, compile_all: Compile) -> Iterator[Row]:
    """Sizes by waits, the side's own among them; only its own where a workload runs one request at a time."""
    settings, own = setting.settings, setting.settings.scheduling
    batched = all(workload.batch_dim is not None for workload in setting.workloads)
    sizes = sorted({*_SIZES, own.max_batch}) if batched else [own.max_batch]
    plans = compile_all(settings, sizes[-1])
    for size in sizes:
        for wait_us in sorted({*_WAITS_US, own.max_wait_us}) if size > 1 else [0.0]:
            changed = _replaced(settings, max_batch=size, max_wait_us=wait_us)
            trial = trial_of(setting.replays(_own(plans, changed), changed), settings.assembly.sla_us,
                             setting.warmup_share)  # fmt: skip
            same = size == own.max_batch and (wait_us == own.max_wait_us or size == 1)
            yield _row(setting, "batching", f"batch {size}, wait {wait_us:g} µs", changed, trial, "own" if same else "")


def _fusions(setting: Setting, compile_all: Compile) -> Iterator[Row]:
    """The same traffic on plans of each fusion policy, the side's own among them."""
    settings = setting.settings
    for policy in dict.fromkeys((*POLICIES, settings.fusion.policy)):
        own = policy == settings.fusion.policy
        changed = settings if own else dataclasses.replace(settings, fusion=FusionSettings(policy=policy))
        plans = compile_all(changed, changed.scheduling.max_batch)
        trial = trial_of(setting.replays(plans, changed), settings.assembly.sla_us, setting.warmup_share)
        yield _row(setting, "fusion", policy, changed, trial, "own" if own else "")


def _own(plans: Plans, settings: Settings) -> Plans:
    """Those of the plans for batches that these settings fill."""
    wanted = set(batch_sizes(settings.scheduling.max_batch))
    return {
        name: {label: plan for label, plan in own.items() if bucket_and_batch(label)[1] in wanted}
        for name, own in plans.items()
    }


def _replaced(settings: Settings, **scheduling: object) -> Settings:
    return dataclasses.replace(settings, scheduling=dataclasses.replace(settings.scheduling, **scheduling))  # type: ignore[arg-type]


def _row(setting: Setting, experiment: str, label: str, settings: Settings, trial: Trial, mark: str) -> Row:
    p50, p95, p99 = (None if value is None else value / _PS_PER_US for value in trial.quantiles_ps)
    return {
        "side": setting.side, "experiment": experiment, "label": label, "policy": settings.fusion.policy,
        "max_batch": settings.scheduling.max_batch, "max_wait_us": settings.scheduling.max_wait_us,
        "rate_per_s": trial.rate_per_s, "utilisation": trial.utilisation, "unstable": trial.unstable,
        "p50_us": p50, "p95_us": p95, "p99_us": p99, "missed_share": trial.missed if setting.settings.assembly.sla_us
        else None, "mark": mark,
    }  # fmt: skip

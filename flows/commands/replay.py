"""`tilegate replay`: tails of both sides and what they are made of. Judges nothing and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from accelmodel.capacity import Capacity, capacity
from accelmodel.compile import compile_plan
from accelmodel.importers.profile_file import printable
from accelmodel.memo import Memo
from accelmodel.plan import Plan
from flows.arrivals import Arrivals, replications, seeds_of
from flows.inputs import LoadedCandidate, load_candidate, recorded_traffic
from flows.labels import batch_sizes, bucket_and_batch, plan_settings
from flows.replaying import Served, replay_at, replay_side
from flows.tasks.ingress import plan_graphs
from schemas.candidate import SIDES
from schemas.tables_run import DRIVERS

Plans = dict[str, dict[str, Plan]]
QUANTILES = (0.5, 0.95, 0.99)
SLOWEST_SHARE = 0.05
_PS_PER_US = 1e6


def replay_candidate(candidate: Path, *, as_json: bool, with_capacity: bool = False) -> int:
    """Replay the traffic of a candidate file on both sides and print the tails, and on request the capacities."""
    loaded = load_candidate(candidate)
    recorded = recorded_traffic(loaded)
    arrivals, memo = replications(loaded.document, recorded), Memo()
    plans = {side: _plans(loaded, side, arrivals, memo) for side in SIDES}
    served = {side: _served(loaded, side, plans[side], arrivals) for side in SIDES}
    found = {side: side_summary(result, loaded.document.traffic.warmup_share) for side, result in served.items()}
    for side in SIDES:
        found[side]["warnings"] = [*(recorded.warnings if recorded is not None else ()), *found[side]["warnings"]]
    if with_capacity:
        for side in SIDES:
            found[side]["capacity"] = asdict(_capacity(loaded, side, plans[side], arrivals))
    if as_json:
        print(json.dumps(found))
        return 0
    print_tails(Console(), found)
    if with_capacity:
        print_capacity(Console(), {side: found[side]["capacity"] for side in SIDES})
    return 0


def side_summary(served: Served, warmup_share: float) -> dict[str, Any]:
    """Percentiles over all replications, and mean drivers of the median half and of the slowest requests, in us.

    Where the queue of any replication grows without end there are no percentiles: they are None.
    """
    first = (pl.col("request").max().over("replication") + 1) * warmup_share
    warm = served.requests.filter(pl.col("request") >= first)
    done = warm.filter(pl.col("status") == "completed").sort("latency_ps")
    slowest = done.tail(max(1, round(SLOWEST_SHARE * done.height)))
    middle = done.slice(done.height // 4, max(1, done.height // 2))
    return {
        "requests": warm.height, "completed": done.height, "utilisation": served.utilisation,
        "unstable_replications": list(served.unstable), "warnings": list(served.warnings),
        **{f"p{level * 100:g}_us": None if served.unstable else _quantile_us(done, level) for level in QUANTILES},
        "drivers_of_slowest_us": _drivers_us(slowest), "drivers_of_middle_us": _drivers_us(middle),
    }  # fmt: skip


def print_tails(console: Console, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Tails first, then what the slowest requests have that the middle half has not."""
    table = Table("", *SIDES, box=None)
    for name in ("p99_us", "p95_us", "p50_us"):
        table.add_row(name.replace("_us", ", µs"), *(_percentile(found[side], name) for side in SIDES))
    for name in ("completed", "requests"):
        table.add_row(name, *(f"{found[side][name]:,}" for side in SIDES))
    table.add_row("utilisation", *(f"{found[side]['utilisation']:.1%}" for side in SIDES))
    console.print(table)
    drivers = Table(
        "driver, µs", *(f"{side}: {which}" for side in SIDES for which in ("slowest 5 %", "middle half")), box=None
    )
    for driver in DRIVERS:
        cells = [found[side][f"drivers_of_{which}_us"][driver] for side in SIDES for which in ("slowest", "middle")]
        if any(cells):
            drivers.add_row(driver, *(_shown(cell) for cell in cells))
    console.print(drivers)
    for warning in dict.fromkeys(warning for side in SIDES for warning in found[side]["warnings"]):
        console.print(printable(warning), style="yellow", markup=False)


def print_capacity(console: Console, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Highest rates, and the knee between."""
    table = Table("capacity, requests/s", *SIDES, box=None)
    said = {
        "sla_rate_per_s": "p99 within the SLA up to", "stable_rate_per_s": "stable up to",
        "knee_per_s": "most rate per p99 (knee) at",
    }  # fmt: skip
    for name, words in said.items():
        table.add_row(words, *(_rate(found[side], name) for side in SIDES))
    console.print(table)


def _rate(found: Mapping[str, Any], name: str) -> str:
    if name == "sla_rate_per_s" and not found["sla_us"]:
        return "no SLA set"
    return "at no rate tried" if found[name] is None else f"{found[name]:,.1f}"


def _capacity(loaded: LoadedCandidate, side: str, plans: Plans, arrivals: tuple[Arrivals, ...]) -> Capacity:
    """At most three replications: they differ little, and every rate that is tried replays them all."""
    document, settings, few = loaded.document, loaded.settings(side), arrivals[:3]
    replays = replay_at(document.workloads, plans, settings, loaded.target, few, seeds_of(document)[: len(few)])
    return capacity(replays, settings.assembly.sla_us, warmup_share=document.traffic.warmup_share)


def _plans(loaded: LoadedCandidate, side: str, arrivals: tuple[Arrivals, ...], memo: Memo) -> Plans:
    settings, document = loaded.settings(side), loaded.document
    wanted = set(batch_sizes(settings.scheduling.max_batch))
    return {
        workload.name: {
            label: compile_plan(graph, loaded.target, plan_settings(settings, label), f"{workload.name} {label}", memo)
            for label, graph in plan_graphs(loaded, index, arrivals)
            if bucket_and_batch(label)[1] in wanted
        }
        for index, workload in enumerate(document.workloads)
    }


def _served(loaded: LoadedCandidate, side: str, plans: Plans, arrivals: tuple[Arrivals, ...]) -> Served:
    document, settings, seeds = loaded.document, loaded.settings(side), seeds_of(loaded.document)
    return replay_side(side, document.workloads, plans, settings, loaded.target, arrivals, seeds)


def _quantile_us(done: pl.DataFrame, quantile: float) -> float | None:
    value = done["latency_ps"].quantile(quantile, "higher")
    return None if value is None else value / _PS_PER_US


def _drivers_us(requests: pl.DataFrame) -> dict[str, float]:
    means = requests.select(pl.col(f"{driver}_ps").mean() for driver in DRIVERS).row(0)
    return {driver: (mean or 0.0) / _PS_PER_US for driver, mean in zip(DRIVERS, means, strict=True)}


def _percentile(found: Mapping[str, Any], name: str) -> str:
    return "unstable" if found["unstable_replications"] else _shown(found[name])


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:,.1f}"

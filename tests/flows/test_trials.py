"""The same requests at other rates, batches and fusion policies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from accelmodel.compile import compile_plan
from accelmodel.importers.onnx import read_graph
from accelmodel.importers.target import read_target, target_path
from accelmodel.plan import Plan
from accelmodel.settings import AssemblySettings, SchedulingSettings, Settings, TilingSettings
from accelmodel.target import Target
from flows.arrivals import Arrivals
from flows.labels import batch_sizes, label_of
from flows.plan_rows import Row
from flows.safe_yaml import read_yaml
from flows.trials import MOST_REPLICATIONS, MOST_REQUESTS, setting_of, trial_rows
from schemas.candidate import Bucket, Workload
from schemas.tables import from_rows

BLOCK = Workload(name="block", model="block.onnx", batch_dim="batch", buckets=(Bucket(name="all"),))
SETTINGS = Settings(
    tiling=TilingSettings(cores=1), assembly=AssemblySettings(sla_us=2000.0),
    scheduling=SchedulingSettings(max_batch=2, max_wait_us=300.0),
)  # fmt: skip


@pytest.fixture(scope="module")
def target() -> Target:
    return read_target(read_yaml(target_path("edge-npu")).values)


@pytest.fixture(scope="module")
def rows(block_model: Path, target: Target) -> list[Row]:
    arrivals = Arrivals(
        np.cumsum(np.random.default_rng(3).exponential(3e8, 1500)).astype(np.int64), np.ones(1500, np.int64),
        np.zeros(1500, np.int32), ("default",), np.zeros(1500, np.int32),
    )  # fmt: skip
    made: dict[tuple[str, int], Plan] = {}

    def compile_all(changed: Settings, most: int) -> Mapping[str, Mapping[str, Plan]]:
        for batch in batch_sizes(most):
            key = (changed.fusion.policy, batch)
            if key not in made:
                graph = read_graph(block_model, {"batch": batch, "sequence": 8})
                made[key] = compile_plan(graph, target, changed, label_of("all", batch))
        policy = changed.fusion.policy
        return {"block": {label_of("all", batch): made[policy, batch] for batch in batch_sizes(most)}}

    setting = setting_of("candidate", (BLOCK,), SETTINGS, target, [arrivals], (7,), 0.05)
    return trial_rows(setting, compile_all)


def chosen(rows: list[Row], experiment: str) -> list[Row]:
    return [row for row in rows if row["experiment"] == experiment]


def test_trials_are_rows_of_their_table(rows: list[Row]) -> None:
    assert from_rows("trials", rows).height == len(rows)
    keys = [(row["experiment"], row["label"]) for row in rows]
    assert len(set(keys)) == len(keys)


def test_sizes_are_tried_by_waits_with_the_sides_own_among_them(rows: list[Row]) -> None:
    batching = chosen(rows, "batching")
    assert {(row["max_batch"], row["max_wait_us"]) for row in batching} == {
        (1, 0.0), *((size, wait) for size in (2, 4) for wait in (0.0, 300.0, 1000.0, 5000.0))
    }  # fmt: skip
    assert [(row["max_batch"], row["max_wait_us"]) for row in batching if row["mark"] == "own"] == [(2, 300.0)]
    waits = {row["max_wait_us"]: row["p50_us"] for row in batching if row["max_batch"] == 4}
    assert waits[0.0] < waits[5000.0]  # type: ignore[operator]  # a batch that waits makes its requests wait


def test_every_fusion_policy_meets_the_same_traffic(rows: list[Row]) -> None:
    fusion = chosen(rows, "fusion")
    assert [row["policy"] for row in fusion] == ["none", "pattern", "aggressive"]
    assert len({row["rate_per_s"] for row in fusion}) == 1
    none, pattern, _ = fusion
    assert none["p50_us"] > pattern["p50_us"]  # type: ignore[operator]
    own = next(row for row in chosen(rows, "batching") if row["mark"] == "own")
    assert [pattern[name] for name in ("p50_us", "p99_us")] == [own[name] for name in ("p50_us", "p99_us")]


def test_rates_end_at_one_that_is_too_high_and_has_no_percentile(rows: list[Row]) -> None:
    rates = chosen(rows, "rate")
    assert [row["rate_per_s"] for row in rates] == sorted(row["rate_per_s"] for row in rates)  # type: ignore[type-var]
    assert rates[-1]["unstable"] and rates[-1]["p99_us"] is None
    marks = " ".join(str(row["mark"]) for row in rates).split()
    assert sorted(marks) == ["knee", "sla", "stable"]


def test_a_trial_takes_a_part_of_many_requests(target: Target) -> None:
    count = MOST_REQUESTS + 10
    long = Arrivals(
        np.arange(count), np.ones(count, np.int64), np.zeros(count, np.int32), ("a",), np.zeros(count, np.int32),
        np.ones(count, np.int32),
    )  # fmt: skip
    setting = setting_of("candidate", (BLOCK,), SETTINGS, target, [long] * 5, range(5), 0.0)
    assert len(setting.arrivals) == len(setting.seeds) == MOST_REPLICATIONS
    assert all(len(each.arrival_ps) == MOST_REQUESTS == len(each.iterations) for each in setting.arrivals)  # type: ignore[arg-type]

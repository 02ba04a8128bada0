"""Arrivals, buckets, batches and the rows that replays become."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accelmodel.compile import compile_plan
from accelmodel.importers.onnx import read_graph
from accelmodel.importers.target import read_target, target_path
from accelmodel.plan import Plan
from accelmodel.settings import AssemblySettings, IngressSettings, SchedulingSettings, Settings
from accelmodel.target import Target
from accelmodel.traffic import PS_PER_S, Traffic
from flows.arrivals import Arrivals, assign_workloads, replications
from flows.assembling import busiest_label, plan_weights
from flows.inputs import load_candidate
from flows.labels import batch_sizes, bucket_and_batch, plan_settings, shapes_of
from flows.replaying import replay_side
from flows.safe_yaml import read_yaml
from schemas.candidate import Bucket, Candidate, Workload
from schemas.tables import validate
from tests.flows.world import Write

WORKLOAD = Workload(
    name="block", model="block.onnx", batch_dim="batch", size_dim="sequence",
    buckets=(Bucket(name="short", shapes={"sequence": 8}), Bucket(name="long", shapes={"sequence": 16})),
)  # fmt: skip
LABELS = ("short/1", "short/2", "long/1", "long/2", "fallback/1")


@pytest.fixture(scope="module")
def target() -> Target:
    return read_target(read_yaml(target_path("edge-npu")).values)


@pytest.fixture(scope="module")
def plans(block_model: Path, target: Target) -> dict[str, Plan]:
    found = {}
    for label in LABELS:
        bucket, batch = bucket_and_batch(label)
        sequence = 8 if bucket == "short" else 16
        graph = read_graph(block_model, {"batch": batch, "sequence": sequence})
        found[label] = compile_plan(graph, target, plan_settings(Settings(), label), label)
    return found


def arrivals(*rows: tuple[int, int]) -> Arrivals:
    """Requests of (arrival in us, size)."""
    at_us, sizes = zip(*rows, strict=True)
    count = len(rows)
    return Arrivals(
        np.array(at_us, dtype=np.int64) * 1_000_000, np.array(sizes, dtype=np.int64), np.zeros(count, dtype=np.int32),
        ("default",), np.zeros(count, dtype=np.int32),
    )  # fmt: skip


def served(plans: dict[str, Plan], target: Target, settings: Settings, requests: Arrivals) -> pl.DataFrame:
    wanted = batch_sizes(settings.scheduling.max_batch)
    own = {label: plan for label, plan in plans.items() if bucket_and_batch(label)[1] in wanted}
    found = replay_side("candidate", [WORKLOAD], {"block": own}, settings, target, [requests], [1])
    return validate("requests", found.requests)


def test_batches_that_plans_are_made_for() -> None:
    assert batch_sizes(1) == (1,)
    assert batch_sizes(2) == (1, 2)
    assert batch_sizes(6) == (1, 2, 4, 6)
    assert batch_sizes(8) == (1, 2, 4, 8)


def test_shapes_of_a_bucket_bind_batch_and_size() -> None:
    assert shapes_of(WORKLOAD, 1, 2) == {"sequence": 16, "batch": 2}
    sized = WORKLOAD.model_copy(update={"buckets": (Bucket(name="a", max_size=12),)})
    assert shapes_of(sized, 0, 1) == {"sequence": 12, "batch": 1}
    alone = WORKLOAD.model_copy(update={"batch_dim": None})
    assert shapes_of(alone, 0, 1) == {"sequence": 8}


def test_a_request_takes_the_smallest_bucket_that_holds_it_else_the_fallback(
    plans: dict[str, Plan], target: Target
) -> None:
    rows = served(plans, target, Settings(), arrivals((0, 3), (9000, 8), (18000, 9), (27000, 17)))

    assert rows["bucket"].to_list() == ["short", "short", "long", "fallback"]
    assert rows["covered"].to_list() == [True, True, True, False]
    last = rows.row(3, named=True)
    assert last["fallback_ps"] == last["latency_ps"] > 0  # all its time is fallback


def test_only_the_exact_size_counts_under_the_exact_rule(plans: dict[str, Plan], target: Target) -> None:
    settings = replace(Settings(), ingress=IngressSettings(bucket_rule="exact"))
    rows = served(plans, target, settings, arrivals((0, 7), (9000, 8)))

    assert rows["bucket"].to_list() == ["fallback", "short"]


def test_rejected_requests_have_no_finish_and_miss_their_target(plans: dict[str, Plan], target: Target) -> None:
    settings = replace(Settings(), ingress=IngressSettings(admit_limit=1), assembly=AssemblySettings(sla_us=1e6))
    rows = served(plans, target, settings, arrivals((0, 8), (0, 8), (0, 8)))

    assert rows["status"].to_list().count("rejected") == 1
    assert rows.filter(pl.col("status") == "rejected")["sla_met"].to_list() == [False]
    assert rows.filter(pl.col("status") == "completed")["sla_met"].to_list() == [True, True]


def test_weights_are_shares_of_requests_by_the_plan_that_served_them(plans: dict[str, Plan], target: Target) -> None:
    settings = replace(Settings(), scheduling=SchedulingSettings(max_batch=2, max_wait_us=100))
    rows = served(plans, target, settings, arrivals((0, 8), (1, 8), (9000, 8), (18000, 16), (27000, 17)))
    weights = plan_weights(rows, "candidate", 2)

    assert weights == {
        ("block", "short", 2): pytest.approx(2 / 5), ("block", "short", 1): pytest.approx(1 / 5),
        ("block", "long", 1): pytest.approx(1 / 5), ("block", "fallback", 1): pytest.approx(1 / 5),
    }  # fmt: skip
    assert busiest_label(weights, "block", plans) == "short/2"


def test_workloads_are_drawn_in_proportion_and_keep_their_draw_when_requests_are_added() -> None:
    drawn = assign_workloads(20_000, [1.0, 3.0], seed=7)

    assert np.bincount(drawn) / 20_000 == pytest.approx([0.25, 0.75], abs=0.01)
    assert np.array_equal(assign_workloads(100, [1.0, 3.0], seed=7), drawn[:100])
    assert not np.array_equal(assign_workloads(100, [1.0, 3.0], seed=8), drawn[:100])


def test_replications_differ_in_their_seed_and_are_the_same_for_both_sides(write_candidate: Write) -> None:
    document = load_candidate(write_candidate("c")).document
    first, second = replications(document, None)[:2]
    again = replications(document, None)[0]

    assert np.array_equal(first.arrival_ps, again.arrival_ps)
    assert not np.array_equal(first.arrival_ps[:50], second.arrival_ps[:50])


def test_recorded_traffic_is_scaled_resampled_and_cut(write_candidate: Write, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,size\n" + "\n".join(f"{i},8" for i in range(400)) + "\n")
    file = {"path": "t.csv", "rate_scale": 10.0, "block_s": 5.0}
    document: Candidate = load_candidate(
        write_candidate("c", traffic={"file": file, "seed": 1, "max_requests": 150})
    ).document
    recorded = Traffic(
        np.arange(400, dtype=np.int64) * PS_PER_S, np.full(400, 8, dtype=np.int64), np.zeros(400, dtype=np.int32)
    )
    found = replications(document, recorded)

    assert [len(each.arrival_ps) for each in found] == [150] * 4
    assert np.diff(found[0].arrival_ps).mean() == pytest.approx(0.1 * PS_PER_S, rel=0.05)

"""Production traffic through every policy, on two sides that differ in their plans: nothing is lost or made up.

The parts are small and dense, so that queues form; service times are such that the machine is about half loaded.
"""

from pathlib import Path

import numpy as np
import pytest

from accelmodel.capacity import capacity
from accelmodel.importers.traffic import read_traffic
from accelmodel.replay import CORE_POLICIES, POLICIES, Bucket, Replayed, Requests, assign_buckets, replay
from accelmodel.settings import SchedulingSettings, Settings
from accelmodel.traffic import Traffic, resample_blocks, scale_rate, take
from tests.accelmodel.worlds import program, target

FILES = ("AzureLLMInferenceTrace_code.csv", "mooncake_conversation.jsonl")
SIZES = (1024, 4096, 16384)
QUEUES = tuple(policy.name for policy in POLICIES if policy.kind == "queue")
BATCHINGS = tuple(policy.name for policy in POLICIES if policy.kind == "batching")
SLOTS, KERNELS = 4, 5


@pytest.fixture(scope="module", params=FILES)
def traffic(request: pytest.FixtureRequest, reference_data: Path) -> Traffic:
    return take(read_traffic(reference_data / "traffic" / request.param), 1500)


def buckets_of(traffic: Traffic, side: str) -> list[Bucket]:
    """Programs whose time grows with the size; the candidate computes faster and moves more bytes."""
    unit_ps = int(0.5 * SLOTS * traffic.span_ps / len(traffic) / np.mean(traffic.size) / KERNELS)
    compute, moved = (unit_ps, 0.1) if side == "comparator" else (unit_ps * 4 // 5, 0.6)

    def made(size: int, batch: int) -> list[dict[str, int]]:
        busy = compute * size * (1 + batch) // 2
        return [{"launch": 1000, "compute": busy, "bytes": int(busy * moved)}] * KERNELS

    covered = [
        Bucket("llm", size, tuple(program(made(size, batch), batch=batch, workload="llm") for batch in (1, 2, 4)))
        for size in SIZES
    ]
    last = program(made(2 * SIZES[-1], 1), workload="llm", fallback=True)
    return [*covered, Bucket("llm", 2**40, (last,), fallback=True)]


def run(
    traffic: Traffic, side: str, seed: int = 0, buckets: list[Bucket] | None = None, **scheduling: object
) -> Replayed:
    bucket = assign_buckets(traffic.size, SIZES, "smallest_fit", len(SIZES))
    stream = (np.arange(len(traffic)) % 3).astype(np.int32)
    assert traffic.iterations is not None
    iterations = np.minimum(traffic.iterations, 4).astype(np.int32)
    asked = Requests(traffic.arrival_ps, bucket, stream, iterations, ("a", "b", "c"))
    chosen = Settings(scheduling=SchedulingSettings(**scheduling))  # type: ignore[arg-type]
    return replay(asked, buckets or buckets_of(traffic, side), target(slots=SLOTS), chosen, seed)


@pytest.mark.parametrize("core_policy", CORE_POLICIES)
@pytest.mark.parametrize("batching", BATCHINGS)
@pytest.mark.parametrize("queue", QUEUES)
def test_every_policy_serves_both_sides_and_loses_nothing(
    traffic: Traffic, queue: str, batching: str, core_policy: str
) -> None:
    for side in ("comparator", "candidate"):
        result = run(
            traffic, side, queue=queue, batching=batching, core_policy=core_policy, max_batch=4, max_wait_us=200.0,
            priority={"b": 1}, weight={"c": 2.0}, deadline_us=dict.fromkeys("abc", 1000000.0),
        )  # fmt: skip
        assert result.completed.all()
        total = sum(result.drivers().values())
        assert np.array_equal(total, result.latency_ps)
        assert all((values >= 0).all() for values in result.drivers().values())
        assert int(result.slot_requests.sum()) == len(traffic)
        uncovered = traffic.size > SIZES[-1]
        alone = result.batch_size == 1
        assert (result.driver("fallback")[uncovered] > 0).all()
        assert not result.driver("fallback")[~uncovered & alone].any()


def test_a_time_out_turns_away_only_those_that_waited_that_long(traffic: Traffic) -> None:
    wait_us = float(np.quantile(run(traffic, "comparator").driver("queueing"), 0.9)) / 1e6
    result = run(traffic, "comparator", timeout_us=wait_us)
    assert 0 < result.timed_out.sum() < 0.12 * len(traffic)
    assert (result.start_ps - result.arrival_ps)[result.completed].max() <= wait_us * 1e6 + 1


def test_the_side_that_moves_more_bytes_meets_contention(traffic: Traffic) -> None:
    sides = {side: run(traffic, side) for side in ("comparator", "candidate")}
    assert not sides["comparator"].driver("contention").any()
    assert sides["candidate"].driver("contention").any()


def test_capacity_of_both_sides_ends_where_a_queue_grows_without_end(traffic: Traffic) -> None:
    part = take(traffic, 400)
    for side in ("comparator", "candidate"):
        buckets = buckets_of(part, side)

        def replays(factor: float, side: str = side, buckets: list[Bucket] = buckets) -> tuple[Replayed]:
            return (run(scale_rate(part, factor), side, buckets=buckets),)

        found = capacity(replays, 0.0, tolerance=0.05)
        assert found.stable_rate_per_s is not None
        beyond = [trial for trial in found.trials if trial.unstable]
        assert beyond and all(trial.utilisation >= 1.0 and trial.quantiles_ps[2] is None for trial in beyond)
        assert min(trial.rate_per_s for trial in beyond) > found.stable_rate_per_s


def test_replications_of_the_record_keep_its_requests_whole(traffic: Traffic) -> None:
    again = resample_blocks(traffic, traffic.span_ps / 1e12 / 10, seed=3, duration_s=traffic.span_ps / 1e12)
    assert traffic.iterations is not None and again.iterations is not None
    known = set(zip(traffic.size.tolist(), traffic.iterations.tolist(), strict=True))
    assert set(zip(again.size.tolist(), again.iterations.tolist(), strict=True)) <= known
    assert run(again, "candidate").completed.all()

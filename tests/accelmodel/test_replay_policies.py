"""Every policy on a schedule small enough to work out on paper, and the laws that hold under all of them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from accelmodel.errors import InputError
from accelmodel.replay import CORE_POLICIES, POLICIES, Bucket, Replayed, Requests, replay, replay_stream
from accelmodel.settings import AssemblySettings, ExecutionSettings, IngressSettings, SchedulingSettings, Settings
from accelmodel.target import Target
from tests.accelmodel.worlds import US, bucket, program, requests, settings, target

ONE = [bucket(program([{"compute": 100}]))]
QUEUES = tuple(policy.name for policy in POLICIES if policy.kind == "queue")
BATCHINGS = tuple(policy.name for policy in POLICIES if policy.kind == "batching")


def of_streams(arrivals: list[int], streams: list[int], *names: str) -> Requests:
    return replace(requests(arrivals), stream=np.array(streams, np.int32), streams=names)


def started(result: Replayed) -> list[int]:
    """Requests in the order in which they started."""
    return np.argsort(result.start_ps, kind="stable").tolist()


def test_the_table_names_every_policy_once() -> None:
    names = [(policy.kind, policy.name) for policy in POLICIES]
    assert len(set(names)) == len(names)
    assert {policy.kind for policy in POLICIES} == {"queue", "batching", "core_policy"}


def test_priority_serves_the_lowest_level_first_and_interrupts_nothing() -> None:
    arrivals = of_streams([0, 1, 2, 3, 4], [0, 0, 1, 0, 1], "batch", "urgent")
    result = replay(arrivals, ONE, target(), settings(queue="priority", priority={"batch": 5}), 0)
    assert started(result) == [0, 2, 4, 1, 3]


def test_earliest_deadline_counts_from_arrival_and_takes_the_sla_where_none_is_given() -> None:
    arrivals = of_streams([0, 1, 2, 50], [0, 0, 1, 1], "patient", "hasty")
    chosen = settings(queue="earliest_deadline", deadline_us={"hasty": 0.00002})
    chosen = replace(chosen, assembly=AssemblySettings(sla_us=0.00006))
    result = replay(arrivals, ONE, target(), chosen, 0)
    assert started(result) == [0, 2, 1, 3]  # deadlines 60, 61, 22, 70
    with pytest.raises(InputError, match="none for patient"):
        replay(arrivals, ONE, target(), settings(queue="earliest_deadline", deadline_us={"hasty": 1.0}), 0)


def test_weighted_fair_shares_by_weight_while_both_streams_wait() -> None:
    streams = [0] * 40 + [1] * 40
    arrivals = of_streams([0] * 80, streams, "small", "large")
    result = replay(arrivals, ONE, target(), settings(queue="weighted_fair", weight={"large": 3.0}), 0)
    first = [streams[request] for request in started(result)[:40]]
    assert 29 <= sum(first) <= 31  # three of four


def test_a_greedy_stream_cannot_make_the_other_wait_under_weighted_fair() -> None:
    arrivals = of_streams([0] * 50 + [10], [0] * 50 + [1], "greedy", "modest")
    fair = replay(arrivals, ONE, target(), settings(queue="weighted_fair"), 0)
    fifo = replay(arrivals, ONE, target(), settings(), 0)
    assert fair.start_ps[50] <= 300 and fifo.start_ps[50] == 5000


def test_padded_batches_mix_buckets_and_run_the_largest() -> None:
    small, large = (Bucket("w", size, tuple(program([{"compute": time}], batch=batch) for batch in (1, 2)))
                    for size, time in ((1, 100), (2, 500)))  # fmt: skip
    arrivals = requests([0, 10], [0, 1])
    mixed = replay(arrivals, [small, large], target(), settings(batch=2, wait_us=1.0, batching="padded"), 0)
    assert mixed.batch.tolist() == [0, 0] and mixed.completion_ps.tolist() == [510, 510]
    apart = replay(arrivals, [small, large], target(), settings(batch=2, wait_us=1.0), 0)
    assert apart.batch.tolist() == [0, 1]


def test_padded_batches_keep_workloads_and_fallback_apart() -> None:
    one = bucket(program([{"compute": 100}]), program([{"compute": 100}], batch=2))
    other = bucket(*(program([{"compute": 100}], batch=size, workload="v") for size in (1, 2)))
    last = Bucket("w", 9, (program([{"compute": 100}], fallback=True),), fallback=True)
    chosen = settings(batch=2, wait_us=0.001, batching="padded")
    result = replay(requests([0, 0, 0, 0], [0, 1, 2, 0]), [one, other, last], target(slots=3), chosen, 0)
    assert result.batch.tolist() == [0, 1, 2, 0]


def decode(*times: int) -> Bucket:
    """Programs for batches 1, 2, 4 ... by their time."""
    return bucket(*(program([{"compute": time}], batch=1 << power) for power, time in enumerate(times)))


def test_requests_join_and_leave_between_iterations() -> None:
    arrivals = replace(requests([0, 50, 60]), iterations=np.array([3, 1, 4], np.int32))
    result = replay(arrivals, [decode(100, 150)], target(), settings(batch=2, batching="iteration"), 0)
    # 0-100 the first alone; 100-250 with the second, which leaves; 250-400 with the third; 400-700 that one alone.
    assert result.start_ps.tolist() == [0, 100, 250]
    assert result.completion_ps.tolist() == [400, 250, 700]
    assert result.driver("compute").tolist() == [400, 150, 450]
    assert result.driver("queueing").tolist() == [0, 50, 190]
    assert result.batch_size.tolist() == [2, 2, 1]
    assert result.slot_busy_ps.tolist() == [700]


def test_iterations_let_a_short_request_pass_a_long_one() -> None:
    arrivals = replace(requests([0, 0]), iterations=np.array([100, 1], np.int32))
    joined = replay(arrivals, [decode(100, 100)], target(), settings(batch=2, batching="iteration"), 0)
    assert joined.completion_ps.tolist() == [10_000, 200]


def test_no_request_joins_past_one_of_another_workload() -> None:
    other = bucket(*(program([{"compute": 100}], batch=size, workload="v") for size in (1, 2)))
    arrivals = replace(requests([0, 10, 20], [0, 1, 0]), iterations=np.array([3, 1, 1], np.int32))
    result = replay(arrivals, [decode(100, 100), other], target(), settings(batch=2, batching="iteration"), 0)
    assert result.start_ps.tolist() == [0, 300, 400]


def test_affinity_returns_to_the_slot_that_served_the_stream_if_it_is_idle() -> None:
    arrivals = of_streams([0, 10, 300, 310, 600, 605], [0, 1, 1, 0, 0, 0], "a", "b")
    result = replay(arrivals, ONE, target(slots=2), settings(policy="affinity"), 0)
    assert result.slot.tolist() == [0, 1, 1, 0, 0, 1]
    assert not result.driver("imbalance").any()


def test_partitioned_slots_leave_a_quiet_stream_undisturbed() -> None:
    arrivals = of_streams([0] * 9 + [5], [0] * 9 + [1], "loud", "quiet")
    result = replay(arrivals, ONE, target(slots=3), settings(policy="partitioned"), 0)
    assert result.start_ps[9] == 5
    assert set(result.slot[:9].tolist()).isdisjoint(result.slot[9:].tolist())
    assert result.driver("imbalance").any()  # a slot of the quiet stream idles


def test_a_request_that_waits_too_long_leaves_and_counts() -> None:
    result = replay(requests([0, 10, 20, 250]), ONE, target(), settings(timeout_us=0.000095), 0)
    assert result.timed_out.tolist() == [False, False, True, False]
    assert result.latency_ps.tolist() == [100, 190, -1, 100]
    assert "1 of 4 requests left" in result.warnings[0]


def test_a_batch_loses_members_that_time_out_before_it_starts() -> None:
    programs = bucket(*(program([{"compute": 1000}], batch=size) for size in (1, 2, 4)))
    arrivals = requests([0, 10, 900])
    result = replay(arrivals, [programs], target(), settings(batch=4, timeout_us=0.0005), 0)
    assert result.timed_out.tolist() == [False, True, False]
    assert result.batch_size.tolist() == [1, 0, 1]


def test_a_clock_schedule_adds_throttle_from_its_instant_on_and_hides_behind_transfers() -> None:
    execution = ExecutionSettings(throttle_from_us=(0.001, 0.002), throttle_clock=(0.5, 1.0))
    rows = [bucket(program([{"compute": 100}])), bucket(program([{"compute": 100, "memory": 60, "bytes": 10}]))]
    result = replay(requests([0, 1000, 1500, 2000], [0, 0, 1, 0]), rows, target(), Settings(execution=execution), 0)
    assert result.driver("throttle").tolist() == [0, 100, 40, 0]
    assert result.latency_ps.tolist() == [100, 200, 200, 100]


def test_measured_noise_draws_each_factor_alike() -> None:
    chosen = Settings(execution=ExecutionSettings(noise_factors=(0.5, 1.0, 3.0)))
    result = replay(requests(np.arange(3000) * 1000), ONE, target(), chosen, 7)
    values, counts = np.unique(result.latency_ps, return_counts=True)
    assert values.tolist() == [50, 100, 300]
    assert abs(counts / 1000 - 1).max() < 0.12  # four standard errors
    assert result.driver("noise").max() == 200


def any_system(seed: int) -> tuple[Requests, list[Bucket], Target, Settings]:
    """A random small system under random policies."""
    rng = np.random.default_rng(seed)
    most, batching = int(rng.choice([1, 2, 4])), str(rng.choice(BATCHINGS))

    def kernels() -> list[dict[str, int]]:
        rows = []
        for _ in range(int(rng.integers(0, 4))):
            row = {name: int(rng.integers(0, 900)) for name in ("launch", "compute", "memory", "barrier")}
            row["compute"] += 1
            row["bytes"] = int(rng.integers(0, 2)) * (row["compute"] + row["memory"]) // 2
            rows.append(row if rng.random() < 0.9 else {"launch": 5, "host": 300, "bytes": 100})
        return rows

    sizes = [size for size in (1, 2, 4) if size <= most]
    buckets = [Bucket("w", size, tuple(program(kernels(), batch=each) for each in sizes)) for size in (1, 2)]
    buckets.append(Bucket("w", 9, (program(kernels(), fallback=True),), fallback=True))
    count = int(rng.integers(1, 80))
    arrivals = Requests(
        np.sort(rng.integers(0, count * 1500, count)) // 400 * 400, rng.integers(0, 3, count).astype(np.int32),
        rng.integers(0, 3, count).astype(np.int32), rng.integers(1, 5, count).astype(np.int32), ("a", "b", "c"),
    )  # fmt: skip
    scheduling = SchedulingSettings(
        queue=str(rng.choice(QUEUES)), core_policy=str(rng.choice(CORE_POLICIES)), max_batch=most, batching=batching,
        max_wait_us=float(rng.choice([0.0, 0.002])), timeout_us=float(rng.choice([0.0, 0.004])),
        priority={"b": 1}, weight={"c": 2.5}, deadline_us={"a": 0.002},
    )  # fmt: skip
    execution = ExecutionSettings(
        noise_cv=float(rng.choice([0.0, 0.3])), throttle_from_us=(0.01,), throttle_clock=(0.7,)
    )
    chosen = Settings(
        ingress=IngressSettings(admit_limit=int(rng.choice([0, 5]))), execution=execution, scheduling=scheduling,
        assembly=AssemblySettings(sla_us=0.01),
    )  # fmt: skip
    return arrivals, buckets, target(slots=int(rng.integers(1, 5))), chosen


def test_requests_and_time_are_conserved_exactly_under_every_policy() -> None:
    seen = set()
    for seed in range(500):
        arrivals, buckets, machine, chosen = any_system(seed)
        result = replay(arrivals, buckets, machine, chosen, seed)
        done = result.completed
        assert int(done.sum()) + int(result.rejected.sum()) + int(result.timed_out.sum()) == len(done), seed
        assert not (result.rejected & result.timed_out).any(), seed
        total = sum(result.drivers().values())
        assert np.array_equal(total[done], result.latency_ps[done]), seed
        assert not total[~done].any() and (result.latency_ps[~done] == -1).all(), seed
        assert all((values >= 0).all() for values in result.drivers().values()), seed
        assert int(result.slot_requests.sum()) == int(done.sum()), seed
        assert result.batch_size.max() <= chosen.scheduling.max_batch, seed
        if chosen.scheduling.timeout_us:
            assert (result.start_ps - result.arrival_ps)[done].max(initial=0) <= 4000, seed
        seen.add((chosen.scheduling.queue, chosen.scheduling.batching, chosen.scheduling.core_policy))
    assert len(seen) == len(list(itertools.product(QUEUES, BATCHINGS, CORE_POLICIES)))


def test_requests_in_a_stream_of_chunks_fare_as_in_one_record() -> None:
    for seed in range(150):
        arrivals, buckets, machine, chosen = any_system(seed)
        whole = replay(arrivals, buckets, machine, chosen, seed)
        cuts = np.sort(np.random.default_rng(seed).integers(1, len(arrivals.arrival_ps) + 1, 4))
        edges = sorted({0, *cuts.tolist(), len(arrivals.arrival_ps)})
        chunks = [_part(arrivals, begin, end) for begin, end in itertools.pairwise(edges)]
        parts = list(replay_stream(chunks, buckets, machine, chosen, seed, arrivals.streams))
        assert [part.number for part in parts] == np.cumsum([0, *(len(part.slot) for part in parts)])[:-1].tolist()
        for name in (
            "completion_ps",
            "start_ps",
            "slot",
            "batch",
            "batch_size",
            "padded_size",
            "rejected",
            "timed_out",
        ):
            joined = np.concatenate([getattr(part, name) for part in parts])
            assert np.array_equal(joined, getattr(whole, name)), (seed, name)
        for name, values in whole.drivers().items():
            assert np.array_equal(np.concatenate([part.driver(name) for part in parts]), values), (seed, name)
        assert parts[-1].utilisation == whole.utilisation and parts[-1].kernels == whole.kernels, seed


def _part(arrivals: Requests, begin: int, end: int) -> Requests:
    assert arrivals.iterations is not None
    return Requests(
        arrivals.arrival_ps[begin:end], arrivals.bucket[begin:end], arrivals.stream[begin:end],
        arrivals.iterations[begin:end], arrivals.streams,
    )  # fmt: skip


def test_the_ring_of_a_stream_grows_with_what_is_in_flight_and_no_further() -> None:
    def chunks() -> list[Requests]:
        return [requests(np.arange(500) * 200 + 100_000 * number) for number in range(40)]

    parts = list(replay_stream(chunks(), ONE, target(), settings(admit=10**9), 0, ("default",)))
    assert sum(len(part.slot) for part in parts) == 20_000
    assert max(len(part.slot) for part in parts) <= 501  # what came, and what was held back
    late = [requests([0, 10]), requests([5])]
    with pytest.raises(InputError, match="arrivals from 10 ps on"):
        list(replay_stream(late, ONE, target(), settings(), 0, ("default",)))


def test_the_recursion_gives_what_the_event_loop_gives_to_the_picosecond() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        lengths = [rng.integers(1, 900, int(rng.integers(1, 4))).tolist() for _ in range(2)]
        buckets = [
            bucket(program([{"launch": 30, "compute": length, "barrier": 7} for length in kernels]))
            for kernels in lengths
        ]
        count, slots = 300, int(rng.integers(1, 6))
        arrivals = requests(np.sort(rng.integers(0, count * 900 // slots, count)) // 50 * 50, rng.integers(0, 2, count))
        scale = rng.exponential(1.0, count) if seed % 3 == 0 else None
        noise = 0.3 if seed % 2 else 0.0
        quick, slow = (
            replay(arrivals, buckets, target(slots=slots), settings(noise=noise, admit=admit), seed, scale)
            for admit in (0, 10**9)
        )
        for name in ("completion_ps", "start_ps", "slot", "batch", "batch_size", "padded_size", "slot_busy_ps"):
            assert np.array_equal(getattr(quick, name), getattr(slow, name)), (seed, name)
        for name, values in slow.drivers().items():
            assert np.array_equal(quick.driver(name), values), (seed, name)
        assert (quick.utilisation, quick.unstable, quick.kernels) == (slow.utilisation, slow.unstable, slow.kernels)
        assert quick.profile.peak_waiting.max() == slow.profile.peak_waiting.max(), seed
        for name in ("waiting", "busy_slots"):
            assert getattr(quick.profile, name).sum() == pytest.approx(getattr(slow.profile, name).sum()), (seed, name)


def test_iterations_are_no_overload_while_batches_have_room() -> None:
    arrivals = replace(requests(np.arange(500) * 90), iterations=np.full(500, 2, np.int32))
    busy = replay(arrivals, [decode(100, 110, 120)], target(), settings(batch=4, batching="iteration"), 0)
    assert busy.utilisation > 0.99 and not busy.unstable
    arrivals = replace(requests(np.arange(500) * 20), iterations=np.full(500, 2, np.int32))
    assert replay(arrivals, [decode(100, 110, 120)], target(), settings(batch=4, batching="iteration"), 0).unstable


def test_one_overloaded_partition_is_unstable_though_the_device_is_not_full() -> None:
    arrivals = of_streams((np.arange(1000) * 50).tolist(), [0] * 990 + [1] * 10, "loud", "quiet")
    result = replay(arrivals, ONE, target(slots=4), settings(policy="partitioned"), 0)
    assert result.utilisation < 0.6
    assert not result.unstable
    loud = of_streams((np.arange(1000) * 30).tolist(), [0] * 990 + [1] * 10, "loud", "quiet")
    result = replay(loud, ONE, target(slots=4), settings(policy="partitioned"), 0)
    assert result.utilisation < 0.9
    assert result.unstable


def test_bad_policies_are_refused_with_their_names() -> None:
    for field, name in (("queue", "lifo"), ("batching", "some"), ("core_policy", "magic")):
        with pytest.raises(InputError, match=f"scheduling.{field}: expected one of"):
            replay(requests([0]), ONE, target(), Settings(scheduling=SchedulingSettings(**{field: name})), 0)
    assert US == 10**6

"""Replay by hand: each driver on a schedule small enough to work out on paper, and the laws that always hold."""

import itertools

import numpy as np
import pytest

from accelmodel.errors import InputError
from accelmodel.replay import CORE_POLICIES, DRIVERS, Bucket, Replayed, assign_buckets, replay
from accelmodel.settings import SchedulingSettings, Settings
from tests.accelmodel.worlds import US, bucket, program, requests, settings, target


def drivers_of(result: Replayed, request: int) -> dict[str, int]:
    """Drivers of one request that are not zero."""
    return {name: int(values[request]) for name, values in result.drivers().items() if values[request]}


def test_three_requests_on_one_slot_follow_the_schedule_worked_out_by_hand() -> None:
    two_kernels = program([{"launch": 10, "compute": 30, "barrier": 5}, {"launch": 10, "compute": 20, "memory": 40}])
    result = replay(requests([0, 50, 300]), [bucket(two_kernels)], target(), settings(), seed=0)
    # launch 0-10, kernel 10-40, barrier 40-45; the second launch (10-20) is hidden; kernel 45-105.
    assert result.completion_ps.tolist() == [105, 210, 405]
    assert result.start_ps.tolist() == [0, 105, 300]
    run = {"launch": 10, "compute": 50, "memory": 40, "sync": 5}
    assert drivers_of(result, 0) == run
    assert drivers_of(result, 1) == {"queueing": 55, **run}
    assert drivers_of(result, 2) == run


def test_a_launch_longer_than_the_kernel_before_it_is_exposed() -> None:
    slow_host = program([{"launch": 10, "compute": 5}, {"launch": 10, "compute": 5}])
    result = replay(requests([0]), [bucket(slow_host)], target(), settings(), seed=0)
    # issue 0-10, kernel 10-15, issued again at 20: 5 more exposed, kernel 20-25.
    assert drivers_of(result, 0) == {"launch": 15, "compute": 10}


def test_an_op_on_the_host_stops_the_issuing_of_launches_and_is_all_fallback() -> None:
    split = program([{"launch": 5, "compute": 50}, {"launch": 7, "host": 100}, {"launch": 5, "compute": 10}])
    result = replay(requests([0]), [bucket(split)], target(), settings(), seed=0)
    # kernel 5-55; the host turns to the op at 55: 7 to start it, 100 to run it; then the launch of the last is exposed.
    assert drivers_of(result, 0) == {"launch": 10, "compute": 60, "fallback": 107}


def test_a_program_of_last_resort_is_all_fallback() -> None:
    covered = bucket(program([{"launch": 1, "compute": 10}]))
    uncovered = bucket(
        program([{"launch": 10, "compute": 20, "memory": 5, "barrier": 3}], fallback=True), fallback=True
    )
    result = replay(requests([0, 100], [0, 1]), [covered, uncovered], target(), settings(), seed=0)
    assert drivers_of(result, 0) == {"launch": 1, "compute": 10}
    assert drivers_of(result, 1) == {"fallback": 38}


def test_two_kernels_that_both_want_all_the_bandwidth_take_twice_as_long() -> None:
    streaming = bucket(program([{"memory": 1000, "bytes": 1000}]))
    result = replay(requests([0, 0]), [streaming], target(slots=2), settings(), seed=0)
    assert result.completion_ps.tolist() == [2000, 2000]
    assert drivers_of(result, 0) == {"memory": 1000, "contention": 1000}


def test_a_kernel_that_starts_in_the_middle_slows_the_other_from_there_on() -> None:
    streaming = bucket(program([{"memory": 1000, "bytes": 1000}]))
    result = replay(requests([0, 600]), [streaming], target(slots=2), settings(), seed=0)
    # The first has 400 left at 600 and runs at half speed: ends at 1400. The second did 400 by then, 600 alone: 2000.
    assert result.completion_ps.tolist() == [1400, 2000]
    assert drivers_of(result, 0)["contention"] == drivers_of(result, 1)["contention"] == 400


def test_bandwidth_is_shared_max_min_small_demands_first() -> None:
    small = bucket(program([{"compute": 800, "memory": 200, "bytes": 200}]))  # asks for 0.2 bytes/ps
    large = bucket(program([{"memory": 1000, "bytes": 800}]))  # asks for 0.8
    result = replay(requests([0, 0, 0], [0, 1, 1]), [small, large], target(slots=3), settings(), seed=0)
    # 0.2 + 0.4 + 0.4 = 1: the small one is not slowed, the large ones run at half speed until it ends at 1000, when
    # each has 500 left and gets 0.5 of its 0.8: 500 / 0.625 = 800 more.
    assert result.completion_ps.tolist() == [1000, 1800, 1800]
    assert drivers_of(result, 0) == {"compute": 800, "memory": 200}
    assert drivers_of(result, 1) == {"memory": 1000, "contention": 800}


def test_a_compute_bound_kernel_feels_no_contention() -> None:
    busy = bucket(program([{"compute": 1000, "bytes": 10}]))
    streaming = bucket(program([{"memory": 1000, "bytes": 1000}]))
    result = replay(requests([0, 0], [0, 1]), [busy, streaming], target(slots=2), settings(), seed=0)
    assert drivers_of(result, 0) == {"compute": 1000}
    assert drivers_of(result, 1)["contention"] == pytest.approx(10, abs=1)


def test_throttle_is_a_driver_of_its_own() -> None:
    result = replay(requests([0]), [bucket(program([{"compute": 80, "throttle": 20}]))], target(), settings(), seed=0)
    assert drivers_of(result, 0) == {"compute": 80, "throttle": 20}


def test_a_batch_waits_until_it_is_full() -> None:
    programs = bucket(program([{"compute": 100}]), program([{"compute": 150}], batch=2))
    result = replay(requests([0, 40]), [programs], target(), settings(batch=2, wait_us=1.0), seed=0)
    assert result.batch_size.tolist() == [2, 2]
    assert drivers_of(result, 0) == {"batching": 40, "compute": 150}
    assert drivers_of(result, 1) == {"compute": 150}


def test_a_batch_starts_when_its_first_request_has_waited_long_enough_and_is_padded() -> None:
    programs = bucket(*(program([{"compute": 100 * size}], batch=size) for size in (1, 2, 4)))
    at = [0, 10, 20, US + 500]
    result = replay(requests(at), [programs], target(), settings(batch=4, wait_us=1.0), seed=0)
    assert result.batch_size.tolist() == [3, 3, 3, 1]
    assert result.padded_size.tolist() == [4, 4, 4, 1]
    assert [drivers_of(result, i)["batching"] for i in range(4)] == [US, US - 10, US - 20, US]
    assert drivers_of(result, 0)["compute"] == 400


def test_while_every_slot_is_busy_waiting_is_queueing_even_in_an_unfilled_batch() -> None:
    programs = bucket(program([{"compute": 100}]), program([{"compute": 100}], batch=2))
    result = replay(requests([0, 0, 30]), [programs], target(), settings(batch=2, wait_us=0.00015), seed=0)
    # The pair runs 0-100; the third could start only at 100 and is due at 30 + 150 = 180.
    assert drivers_of(result, 2) == {"queueing": 70, "batching": 80, "compute": 100}


def test_a_ready_batch_takes_in_later_requests_until_it_starts() -> None:
    programs = bucket(*(program([{"compute": 100}], batch=size) for size in (1, 2, 4)))
    result = replay(requests([0, 10, 20, 30, 40]), [programs], target(), settings(batch=4), seed=0)
    assert result.batch_size.tolist() == [1, 4, 4, 4, 4]
    assert drivers_of(result, 4) == {"queueing": 60, "compute": 100}


def test_a_full_batch_overtakes_one_that_is_still_filling() -> None:
    one = bucket(program([{"compute": 100}]), program([{"compute": 100}], batch=2))
    result = replay(requests([0, 10, 11], [0, 1, 1]), [one, one], target(), settings(batch=2, wait_us=1.0), seed=0)
    assert result.start_ps.tolist() == [US, 11, 11]


def test_round_robin_lets_a_request_wait_while_another_slot_idles() -> None:
    long, short = bucket(program([{"compute": 1000}])), bucket(program([{"compute": 10}]))
    arrivals = requests([0, 0, 100], [0, 1, 1])
    spread = replay(arrivals, [long, short], target(slots=2), settings(policy="round_robin"), seed=0)
    assert spread.slot.tolist() == [0, 1, 0]
    assert drivers_of(spread, 2) == {"imbalance": 900, "compute": 10}
    shortest = replay(arrivals, [long, short], target(slots=2), settings(policy="join_shortest_queue"), seed=0)
    assert shortest.slot.tolist() == [0, 1, 1]
    shared = replay(arrivals, [long, short], target(slots=2), settings(), seed=0)
    assert drivers_of(shared, 2) == {"compute": 10}


def test_requests_beyond_the_admit_limit_are_rejected_and_recorded() -> None:
    result = replay(
        requests([0, 1, 2, 3, 200]), [bucket(program([{"compute": 100}]))], target(), settings(admit=1), seed=0
    )
    assert result.rejected.tolist() == [False, False, True, True, False]
    assert result.completion_ps.tolist() == [100, 200, -1, -1, 300]
    assert result.latency_ps.tolist() == [100, 199, -1, -1, 100]
    assert any("2 of 5 requests were rejected" in line for line in result.warnings)


def test_a_request_that_starts_at_once_does_not_count_as_waiting() -> None:
    result = replay(requests([0, 0]), [bucket(program([{"compute": 100}]))], target(slots=2), settings(admit=1), seed=0)
    assert not result.rejected.any()


def random_case(seed: int) -> tuple[Replayed, Settings]:
    """A random small system: buckets with batch programs, a fallback, noise, contention, every policy."""
    rng = np.random.default_rng(seed)
    most = int(rng.choice([1, 2, 4]))

    def kernels() -> list[dict[str, int]]:
        rows = []
        for _ in range(int(rng.integers(0, 6))):
            names = ("launch", "compute", "memory", "throttle", "barrier")
            row = {name: int(rng.integers(0, 2000)) * int(rng.integers(0, 2)) for name in names}
            row["compute"] += 1
            row["bytes"] = int((row["compute"] + row["memory"] + row["throttle"]) * rng.random())
            rows.append(row if rng.random() < 0.9 else {"launch": row["launch"], "host": 500, "bytes": 100})
        return rows

    sizes = [size for size in (1, 2, 4) if size <= most]
    buckets = [bucket(*(program(kernels(), batch=size) for size in sizes)) for _ in range(3)]
    buckets.append(bucket(program(kernels(), fallback=True), fallback=True))
    count = int(rng.integers(1, 60))
    arrivals = np.sort(rng.integers(0, count * 3000, count)) // 500 * 500  # many at the same instant
    chosen = settings(
        batch=most, wait_us=float(rng.choice([0.0, 0.002])), policy=str(rng.choice(CORE_POLICIES)),
        noise=float(rng.choice([0.0, 0.3])), admit=int(rng.choice([0, 3])),
    )  # fmt: skip
    machine = target(slots=int(rng.integers(1, 5)))
    return replay(requests(arrivals, rng.integers(0, 4, count)), buckets, machine, chosen, seed), chosen


def test_drivers_sum_exactly_to_latency_and_nothing_is_lost_in_random_systems() -> None:
    completed = 0
    for seed in range(600):
        result, chosen = random_case(seed)
        done = ~result.rejected
        total = sum(result.drivers().values())
        assert np.array_equal(total[done], result.latency_ps[done]), seed
        assert all((values >= 0).all() for values in result.drivers().values()), seed
        assert (result.start_ps >= result.arrival_ps)[done].all(), seed
        assert result.slot_requests.sum() + result.rejected.sum() == len(result.arrival_ps), seed
        sizes = np.bincount(result.batch[done])
        assert np.array_equal(sizes[result.batch[done]], result.batch_size[done]), seed
        assert result.batch_size.max() <= chosen.scheduling.max_batch, seed
        if chosen.scheduling.core_policy == "least_loaded":
            assert not result.driver("imbalance").any(), seed
        completed += int(done.sum())
    assert completed > 10_000


def test_no_slot_runs_two_batches_at_once() -> None:
    for seed in range(100):
        result, _ = random_case(seed)
        for slot in range(int(result.slot.max()) + 1):
            spans = sorted(
                set(zip(*(a[result.slot == slot] for a in (result.start_ps, result.completion_ps)), strict=True))
            )
            assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), seed
            assert sum(end - start for start, end in spans) == result.slot_busy_ps[slot], seed


def test_the_profile_conserves_bytes_and_busy_time() -> None:
    row = {"launch": 50_000, "compute": 300_000, "memory": 100_000, "bytes": 333_000}
    arrivals = np.arange(2000) * 117_000
    result = replay(requests(arrivals), [bucket(program([row] * 3))], target(slots=4), settings(noise=0.2), seed=5)
    profile = result.profile
    moved = (profile.dram_utilisation * profile.bin_ps).sum()  # peak is 1 byte/ps
    assert result.dram_bytes == 2000 * 3 * 333_000
    assert moved == pytest.approx(result.dram_bytes, rel=1e-6)
    assert profile.dram_utilisation.max() <= 1.0 + 1e-9
    assert (profile.busy_slots * profile.bin_ps).sum() == pytest.approx(result.slot_busy_ps.sum(), rel=1e-9)
    waited = result.driver("queueing").sum()
    assert (profile.waiting * profile.bin_ps).sum() == pytest.approx(waited, rel=1e-9)


def test_the_same_arguments_give_the_same_result_and_another_seed_another() -> None:
    first, second = random_case(3)[0], random_case(3)[0]
    assert np.array_equal(first.completion_ps, second.completion_ps)
    noisy = [bucket(program([{"compute": 1000}]))]
    by_seed = [replay(requests([0]), noisy, target(), settings(noise=0.5), seed).completion_ps[0] for seed in (1, 2)]
    assert by_seed[0] != by_seed[1]


def test_noise_is_paired_by_request_and_kernel_whatever_happened_before() -> None:
    one = [bucket(program([{"compute": 100_000}, {"compute": 100_000}]))]
    alone = replay(requests([0, 10**9]), one, target(), settings(noise=0.3), seed=9)
    queued = replay(requests([0, 10]), one, target(slots=1), settings(noise=0.3), seed=9)
    assert (alone.completion_ps - alone.start_ps).tolist() == (queued.completion_ps - queued.start_ps).tolist()


def test_noise_has_mean_one_and_the_stated_variation() -> None:
    one = [bucket(program([{"compute": 1_000_000}]))]
    result = replay(requests(np.arange(40_000) * 10**8), one, target(), settings(noise=0.25), seed=4)
    factor = result.latency_ps / 1e6
    error = 0.25 / np.sqrt(len(factor))
    assert abs(factor.mean() - 1.0) < 4 * error
    assert factor.std() == pytest.approx(0.25, rel=0.03)


def test_noise_never_lets_a_kernel_outrun_dram() -> None:
    one = [bucket(program([{"memory": 1000, "bytes": 1000}]))]
    result = replay(requests(np.arange(100) * 10**6), one, target(), settings(noise=0.5), seed=4)
    assert result.latency_ps.min() == 1000
    assert not result.driver("contention").any()


def test_a_rate_above_capacity_is_called_unstable_with_its_utilisation() -> None:
    one = [bucket(program([{"compute": 150}]))]
    result = replay(requests(np.arange(1000) * 100), one, target(), settings(), seed=0)
    assert result.unstable
    assert result.utilisation == pytest.approx(1.5)
    assert "unstable" in result.warnings[0] and "1.500" in result.warnings[0]
    assert not replay(requests(np.arange(1000) * 200), one, target(), settings(), seed=0).unstable
    assert not replay(requests([5]), one, target(), settings(), seed=0).unstable


def test_service_scale_multiplies_compute_by_request() -> None:
    result = replay(
        requests([0, 1000]),
        [bucket(program([{"compute": 100, "memory": 7}]))],
        target(),
        settings(),
        0,
        np.array([2.0, 0.5]),
    )
    assert result.latency_ps.tolist() == [207, 57]


def test_buckets_are_chosen_by_smallest_fit_or_exactly() -> None:
    sizes = np.array([1, 128, 129, 512, 600])
    assert assign_buckets(sizes, (512, 128), "smallest_fit", 9).tolist() == [1, 1, 0, 0, 9]
    assert assign_buckets(sizes, (512, 128), "exact", 9).tolist() == [9, 1, 9, 0, 9]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: requests([5, 3]), "sorted times"),
        (lambda: requests([-1, 3]), "times >= 0"),
        (lambda: requests([]), "at least one request"),
        (lambda: Bucket("w", 1, (program([], batch=2), program([]))), "ascending"),
        (lambda: bucket(program([]), fallback=True), "fallback=True"),
        (lambda: program([{"bytes": 5}]), "busy time where bytes move"),
        (lambda: assign_buckets(np.array([1]), (1,), "nearest", 0), "smallest_fit or exact"),
        (lambda: replay(requests([0], [1]), [bucket(program([]))], target(), settings(), 0), "an index below 1"),
        (lambda: replay(requests([0]), [bucket(program([], cores=2))], target(), settings(), 0), "at most 1 cores"),
        (lambda: replay(requests([0]), [bucket(program([]))], target(), settings(batch=2), 0), "max_batch 2"),
        (lambda: replay(requests([0]), [bucket(program([]))], target(), settings(policy="magic"), 0), "core_policy"),
        (
            lambda: replay(
                requests([0]), [bucket(program([]))], target(), Settings(scheduling=SchedulingSettings(queue="lifo")), 0
            ),
            "fifo",
        ),
    ],
)
def test_bad_input_is_refused_with_what_was_expected(build, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="(?s).*" + says.replace("(", r"\(")):
        build()


def test_every_driver_of_the_vocabulary_is_reported() -> None:
    result, _ = random_case(0)
    assert tuple(result.drivers()) == DRIVERS
    assert len(DRIVERS) == 11

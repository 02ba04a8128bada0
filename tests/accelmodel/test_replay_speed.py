"""What makes the replay fast pays: compared within one run, with room for a busy machine."""

import time
from collections.abc import Callable

import numpy as np

from accelmodel.replay import Requests, replay
from accelmodel.settings import Settings
from tests.accelmodel.worlds import US, bucket, program, requests, settings, target

COUNT = 60_000
BY_EVENTS = settings(admit=10**9)  # rejects nothing, but rules the recursion out


def arrivals(slots: int) -> Requests:
    gaps = np.random.default_rng(1).exponential(US / (0.8 * slots), COUNT)
    return requests(np.cumsum(gaps).astype(np.int64))


def seconds(run: Callable[[], object]) -> float:
    """Best of five, after one that compiles."""
    run()
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def served(slots: int, chosen: Settings, kernels: int = 1, moved: int = 0) -> Callable[[], object]:
    row = {"compute": US // kernels, "bytes": moved // kernels}
    asked, buckets, machine = arrivals(slots), [bucket(program([row] * kernels))], target(slots=slots)
    return lambda: replay(asked, buckets, machine, chosen, 0)


def test_the_recursion_is_faster_than_the_event_loop() -> None:
    assert 1.3 * seconds(served(4, settings())) < seconds(served(4, BY_EVENTS))


def test_a_program_that_none_can_slow_is_one_event_however_many_kernels_it_has() -> None:
    alone, crowded = (served(4, BY_EVENTS, kernels=20, moved=moved) for moved in (US // 5, US // 2))
    assert 1.5 * seconds(alone) < seconds(crowded)


def test_sixty_times_the_slots_do_not_take_sixty_times_as_long() -> None:
    assert seconds(served(256, BY_EVENTS)) < 6 * seconds(served(4, BY_EVENTS))

"""Joins inside a profile against the plain rules, one event at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accelmodel.profile import Column
from accelmodel.profile_join import covered, match_calls, number_iterations, queue_depths

few = st.integers(0, 4)
times = st.integers(-3, 12)


def longs(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@given(st.lists(st.tuples(few, times, st.booleans())), st.lists(st.tuples(few, times), unique=True))
def test_a_call_is_the_last_of_its_key_before_the_event_else_the_first(
    events: list[tuple[int, int, bool]], calls: list[tuple[int, int]]
) -> None:
    keys, starts, known = (list(part) for part in zip(*events, strict=True)) if events else ([], [], [])
    wanted = Column(longs(keys), np.array(known, bool))
    found = match_calls(wanted, longs(starts), longs([key for key, _ in calls]), longs([at for _, at in calls]))
    for (key, start, is_known), index in zip(events, found.tolist(), strict=True):
        own = sorted((at, place) for place, (other, at) in enumerate(calls) if other == key) if is_known else []
        before = [place for at, place in own if at <= start]
        assert index == (before[-1] if before else own[0][1] if own else -1)


@given(st.lists(st.tuples(few, times, times), min_size=1))
def test_a_queue_holds_what_was_launched_before_and_not_yet_started(kernels: list[tuple[int, int, int]]) -> None:
    group, launch, start = (longs(list(part)) for part in zip(*kernels, strict=True))
    for place, depth in enumerate(queue_depths(group, launch, start).tolist()):
        own, at, _ = kernels[place]
        assert depth == sum(each == own and other < at < begun for each, other, begun in kernels)


@given(
    st.lists(st.tuples(few, times, st.booleans())),
    st.lists(st.tuples(few, st.integers(0, 3)), max_size=6),
)
def test_an_event_is_in_the_iteration_whose_span_of_its_process_holds_it(
    events: list[tuple[int, int, bool]], made: list[tuple[int, int]]
) -> None:
    spans = [(process, index, 4 * index, 4 * index + length) for index, (process, length) in enumerate(made)]
    owner, index, start, end = (longs(list(part)) for part in zip(*spans, strict=True)) if spans else [longs([])] * 4
    process, at, known = (list(part) for part in zip(*events, strict=True)) if events else ([], [], [])
    found = number_iterations(longs(process), longs(at), np.array(known, bool), owner, index, start, end).listed()
    alone = len({process for process, *_ in spans}) == 1
    for (process_, time, is_known), number in zip(events, found, strict=True):
        own = [n for whose, n, first, last in spans if (alone or whose == process_) and first <= time < last]
        assert number == (own[0] if own and is_known else None)


@given(st.lists(st.tuples(few, times, st.integers(0, 4)), min_size=1))
def test_gaps_are_the_instants_between_first_and_last_that_no_span_holds(spans: list[tuple[int, int, int]]) -> None:
    group, start, length = (longs(list(part)) for part in zip(*spans, strict=True))
    ends, gap_start, gap = covered(group, start, start + length)
    found = {
        (spans[at][0], instant)
        for at, first, size in zip(ends.tolist(), gap_start.tolist(), gap.tolist(), strict=True)
        for instant in range(first, first + size)
    }
    wanted = set()
    for own in {each for each, *_ in spans}:
        mine = [(first, first + size) for each, first, size in spans if each == own]
        held = {instant for first, last in mine for instant in range(first, last)}
        window = range(min(first for first, _ in mine), max(last for _, last in mine))
        wanted |= {(own, instant) for instant in window if instant not in held}
    assert found == wanted
    assert all(
        spans[at][1] == first + size
        for at, first, size in zip(ends.tolist(), gap_start.tolist(), gap.tolist(), strict=True)
    )

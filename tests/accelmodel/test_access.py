"""Counts of positions, against a loop over the iteration space; and that they take no memory of a tensor's size."""

import tracemalloc
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from accelmodel.access import positions_in_range
from accelmodel.plan import AxisMap


def counted(terms: list[tuple[int, int]], offset: int, axis_size: int) -> tuple[int, int, int]:
    axis = AxisMap(tuple((f"d{i}", stride) for i, (stride, _) in enumerate(terms)), offset)
    return positions_in_range(axis, {f"d{i}": size for i, (_, size) in enumerate(terms)}, axis_size)


@given(
    st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 5)), min_size=1, max_size=3),
    st.integers(-12, 12),
    st.integers(0, 20),
)
def test_counts_are_those_of_going_through_every_point(
    terms: list[tuple[int, int]], offset: int, axis_size: int
) -> None:
    points = product(*(range(size) for _, size in terms))
    reached = [offset + sum(s * i for (s, _), i in zip(terms, point, strict=True)) for point in points]
    inside = [position for position in reached if 0 <= position < axis_size]
    assert counted(terms, offset, axis_size) == (len(set(inside)), len(inside), max(1, len(reached)))


def test_counting_a_long_axis_takes_no_memory_of_its_length() -> None:
    long = 2**34
    tracemalloc.start()
    try:
        assert counted([(1, long)], 0, long) == (long, long, long)
        assert counted([(2, long), (1, 3)], -1, 2 * long)[:2] == (2 * long, 3 * long - 1)
        assert counted([(long, 7), (1, long)], 0, 7 * long)[0] == 7 * long
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2**20


def test_sums_that_are_too_many_to_tell_apart_are_counted_as_the_fewest_that_are_certain() -> None:
    distinct, reads, every = counted([(7, 2**20), (9, 2**20)], 0, 2**40)
    assert every == reads == 2**40
    assert distinct == 2**20

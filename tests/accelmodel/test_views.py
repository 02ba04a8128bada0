"""Regions through views, against enumeration of the flat indices."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmodel.views import axis_blocks, map_extents, map_masks, map_starts


def extents(source: tuple[int, ...], tile: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    arrays = [np.array([float(t), float(t), float(s)]) for t, s in zip(tile, source, strict=True)]
    return tuple(int(e[0]) for e in map_extents(arrays, source, shape, 1))


def test_equal_axes_pair_up_and_splits_stay_together() -> None:
    assert axis_blocks((2, 6), (2, 2, 3)) == (((0,), (0,)), ((1,), (1, 2)))
    assert axis_blocks((4, 6), (6, 4)) == (((0, 1), (0, 1)),)
    assert axis_blocks((4, 1, 5), (4, 5)) == (((0,), (0,)), ((2,), (1,)))
    assert axis_blocks((), (1, 1)) == ()


@pytest.mark.parametrize(
    ("source", "tile", "shape", "expected"),
    [
        ((8, 12), (2, 12), (8, 3, 4), (2, 3, 4)),  # heads whole
        ((8, 12), (2, 4), (8, 3, 4), (2, 1, 4)),  # one head
        ((8, 12), (2, 2), (8, 3, 4), (2, 1, 2)),  # half a head
        ((8, 12), (2, 6), (8, 3, 4), (2, 3, 4)),  # a head and a half may touch three
        ((8, 3, 4), (2, 3, 4), (8, 12), (2, 12)),  # merged
        ((8, 3, 4), (2, 1, 4), (8, 12), (2, 4)),
        ((2, 5), (1, 5), (10,), (5,)),
        ((2, 5), (2, 3), (10,), (8,)),  # two partial rows: the span that holds both
    ],
)
def test_boxes_of_views(
    source: tuple[int, ...], tile: tuple[int, ...], shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert extents(source, tile, shape) == expected


def test_split_axes_depend_on_what_the_merged_one_did() -> None:
    assert map_masks([0b1, 0b10], (8, 12), (8, 3, 4)) == [0b1, 0b10, 0b10]
    assert map_masks([0b1, 0b10, 0b100], (8, 3, 4), (8, 12)) == [0b1, 0b110]


def test_starts_follow_the_flat_index() -> None:
    assert map_starts([1.0, 7.0], (8, 12), (8, 3, 4)) == [1.0, 1.0, 3.0]
    assert map_starts([1.0, 2.0, 3.0], (8, 3, 4), (8, 12)) == [1.0, 11.0]


@settings(max_examples=150, deadline=None)
@given(
    shapes=st.sampled_from(
        [
            ((4, 6), (2, 2, 6)),
            ((4, 6), (24,)),
            ((24,), (4, 6)),
            ((4, 6), (6, 4)),
            ((2, 3, 4), (6, 4)),
            ((6, 4), (2, 3, 4)),
            ((24,), (2, 3, 4)),
            ((24,), (2, 2, 2, 3)),
        ]
    ),
    data=st.data(),
)
def test_boxes_hold_every_element_of_every_tile(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    source, shape = shapes
    tile = tuple(data.draw(st.integers(1, size)) for size in source)
    box = extents(source, tile, shape)
    for corner in product(*(range(0, size, step) for size, step in zip(source, tile, strict=True))):
        ranges = [range(c, min(c + t, n)) for c, t, n in zip(corner, tile, source, strict=True)]
        flat = [sum(i * prod(source[a + 1 :]) for a, i in enumerate(index)) for index in product(*ranges)]
        positions = np.array(np.unravel_index(flat, shape))
        spans = positions.max(axis=1) - positions.min(axis=1) + 1
        assert all(span <= size for span, size in zip(spans, box, strict=True)), (corner, spans, box)

"""Greedy placement: what fits, where, and what is spilled by rule."""

from random import Random

import pytest

from accelmodel.check import check_placement
from accelmodel.errors import InputError
from accelmodel.place import peak_live_bytes, place
from accelmodel.plan import Buffer, Placement
from accelmodel.settings import PlacementSettings


def buffer(name: str, size: int, start: int, end: int, role: str = "intermediate") -> Buffer:
    return Buffer(name, name, role, size, start, end)


def placed(
    buffers: list[Buffer], capacity: int = 1000, alignment: int = 1, tiles: int = 1, **rest: object
) -> Placement:
    order, reserve = rest.pop("order", "best"), rest.pop("reserve", 0)
    settings = PlacementSettings(order=order, reserve_bytes=reserve)  # type: ignore[arg-type]
    result = place(tuple(buffers), capacity, alignment, settings, "g0", tiles, **rest)  # type: ignore[arg-type]
    assert check_placement(result, alignment) == ()
    return result


def offsets(placement: Placement) -> dict[str, int]:
    return {item.buffer.name: item.offset_bytes for item in placement.placed}


def test_a_buffer_takes_the_place_of_one_that_ends_when_it_starts() -> None:
    assert offsets(placed([buffer("a", 60, 0, 2), buffer("b", 60, 2, 3)])) == {"a": 0, "b": 0}


def test_buffers_that_live_together_lie_side_by_side() -> None:
    placement = placed([buffer("a", 60, 0, 2), buffer("b", 40, 1, 3)])
    assert offsets(placement) == {"a": 0, "b": 60}
    assert (placement.height_bytes, placement.lower_bound_bytes) == (100, 100)


def test_offsets_are_aligned() -> None:
    assert offsets(placed([buffer("a", 60, 0, 2), buffer("b", 40, 0, 2)], alignment=64)) == {"a": 0, "b": 64}


def test_a_gap_between_two_buffers_is_filled() -> None:
    buffers = [buffer("a", 50, 0, 9), buffer("b", 40, 0, 2), buffer("c", 30, 0, 9), buffer("d", 20, 3, 5)]
    assert offsets(placed(buffers, order="start"))["d"] == 50  # b has ended, c lies above it
    assert placed(buffers).height_bytes == peak_live_bytes(buffers) == 120


def test_the_best_order_is_the_lowest_of_all() -> None:
    random = Random(5)
    buffers = [
        buffer(f"b{i}", random.randint(1, 40), s := random.randint(0, 8), s + random.randint(1, 5)) for i in range(20)
    ]
    heights = {
        order: placed(buffers, 10**6, order=order).height_bytes for order in ("size", "lifetime", "area", "start")
    }
    best = placed(buffers, 10**6)
    assert best.height_bytes == min(heights.values())
    assert heights[best.method] == best.height_bytes


def test_what_finds_no_place_is_spilled_and_charged_written_and_read_once_a_tile() -> None:
    placement = placed([buffer("a", 60, 0, 2), buffer("b", 50, 0, 2)], capacity=100, tiles=7)
    assert [b.name for b in placement.spilled] == ["b"]  # the choice that spills fewer bytes
    assert placement.placement_spill_bytes == 2 * 50 * 7


def test_streamed_blocks_and_results_are_placed_before_anything_is_spilled() -> None:
    buffers = [buffer("big", 90, 0, 3), buffer("in", 20, 0, 3, "stream"), buffer("out", 20, 0, 3, "output")]
    assert [b.name for b in placed(buffers, capacity=100).spilled] == ["big"]


def test_a_streamed_block_is_spilled_where_there_is_no_room_at_all() -> None:
    assert [b.name for b in placed([buffer("in", 20, 0, 1, "stream")], capacity=10).spilled] == ["in"]


def test_overflow_that_the_tile_plan_counts_is_not_charged_twice() -> None:
    buffers = [buffer("a", 60, 0, 2), buffer("b", 50, 0, 2)]
    assert placed(buffers, capacity=100, tiles=7, counted_spill_bytes=2 * 10 * 7).placement_spill_bytes == 2 * 40 * 7


def test_reserved_bytes_are_not_used() -> None:
    assert placed([buffer("a", 60, 0, 2)], capacity=100, reserve=50).spilled != ()
    assert placed([buffer("a", 60, 0, 2)], capacity=100, reserve=40).capacity_bytes == 60


def test_random_placements_never_overlap_and_never_exceed_the_capacity() -> None:
    for seed in range(60):
        random = Random(seed)
        buffers = [
            buffer(
                f"b{i}", random.randint(0, 50), s := random.randint(0, 9), s + random.randint(0, 6),
                random.choice(("stream", "output", "intermediate", "operand")),
            )
            for i in range(random.randint(1, 25))
        ]  # fmt: skip
        placed(buffers, capacity=random.choice((60, 120, 10**6)), alignment=random.choice((1, 4, 16)), tiles=3)


def test_no_buffers_take_no_room() -> None:
    assert placed([]).height_bytes == 0


def test_two_buffers_that_are_alike_are_both_placed() -> None:
    assert [item.offset_bytes for item in placed([buffer("a", 10, 0, 1), buffer("a", 10, 0, 1)]).placed] == [0, 10]


def test_an_unknown_order_is_refused_with_those_known() -> None:
    with pytest.raises(InputError, match="size, lifetime, area, start"):
        placed([], order="luck")

"""Regions of tiles: against point-by-point enumeration, and by hand where the rule is a choice."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmodel.boundary import boundary
from accelmodel.plan import Group, Lowered
from accelmodel.regions import (
    Nest,
    Regions,
    Tiles,
    accessed_elements,
    make_tiles,
    nest_of,
    pass_elements,
    propagate,
    region_count,
    tile_elements,
)
from tests.accelmodel import brute, tiny


def regions_of(lowered: Lowered, group: Group, **tile: int) -> tuple[Nest, Tiles, Regions]:
    nest = nest_of(boundary(lowered, group))
    rows = np.array([[tile.get(name, size) for name, size in zip(nest.dims, nest.sizes, strict=True)]], np.int64)
    tiles = make_tiles(nest, rows, None)
    return nest, tiles, propagate(nest, tiles)


def reads_of(lowered: Lowered, regions: Regions, tensor: str) -> list[tuple[int, ...]]:
    """Extents of every read of a tensor in a whole tile."""
    return [
        tuple(int(axis.extent[0]) for axis in touch.axes)
        for step in sorted(regions.reads)
        for access, touch in regions.reads[step]
        if access.tensor == tensor
    ]


def made(regions: Regions, tensor: str) -> tuple[int, ...]:
    return tuple(int(axis.extent[0]) for axis in regions.makes[tensor].axes)


# --- by hand ---


def test_a_gemm_tile_needs_a_row_panel_and_a_column_panel() -> None:
    lowered = tiny.gemm(64, 48, 32)
    _, _, regions = regions_of(lowered, tiny.alone(0), m=16, n=12)
    assert reads_of(lowered, regions, "a") == [(16, 32)]
    assert reads_of(lowered, regions, "b") == [(32, 12)]
    assert made(regions, "c") == (16, 12)


def test_operands_depend_only_on_the_dims_that_index_them() -> None:
    lowered = tiny.gemm(64, 48, 32)
    _, _, regions = regions_of(lowered, tiny.alone(0))
    masks = {access.tensor: touch.mask for access, touch in regions.reads[0]}
    assert masks == {"a": 0b01, "b": 0b10}  # m is bit 0, n is bit 1


def test_two_convolutions_ask_for_the_halo_of_both() -> None:
    lowered = tiny.two_convolutions(4, 16)
    _, tiles, regions = regions_of(lowered, tiny.everything(lowered), y=4, x=16)
    assert made(regions, "t") == (4, 6, 16)  # one row more on each side
    assert reads_of(lowered, regions, "x") == [(4, 8, 16)]  # and one more for the second window
    # 4 tiles of 8 rows, less the two rows above the image and the two below it: 28 rows of 16, 4 channels.
    touch = regions.reads[0][0][1]
    assert pass_elements(touch, (4, 16, 16), tiles.trips)[0] == 28 * 16 * 4


def test_a_gemm_chain_may_cut_rows_only() -> None:
    lowered = tiny.two_gemms(64, 32, 96, 48)
    nest = nest_of(boundary(lowered, tiny.everything(lowered)))
    assert dict(zip(nest.dims, nest.tileable, strict=True)) == {"m": True, "n": False}
    assert nest.stream == (1, "k", 96)
    assert nest.loop == {0, 1}


def test_blocks_of_the_chains_middle_are_made_and_consumed_one_by_one() -> None:
    lowered = tiny.two_gemms(64, 32, 96, 48)
    nest = nest_of(boundary(lowered, tiny.everything(lowered)))
    tiles = make_tiles(nest, np.array([[16, 48]]), np.array([40]))
    regions = propagate(nest, tiles)
    assert tiles.trips.tolist() == [[4, 1, 3]]
    assert made(regions, "t") == (16, 40)
    assert reads_of(lowered, regions, "w") == [(32, 40)]
    assert reads_of(lowered, regions, "v") == [(40, 48)]
    assert made(regions, "y") == (16, 48)


def test_attention_whose_keys_come_from_outside_may_cut_heads_and_rows() -> None:
    lowered = tiny.attention(2, 16, 24, 8)
    nest = nest_of(boundary(lowered, tiny.everything(lowered)))
    assert dict(zip(nest.dims, nest.tileable, strict=True)) == {"h": True, "m": True, "e": False}
    assert nest.stream is None  # softmax needs whole rows: no block of them is consumed before all are made


def test_keys_made_in_the_group_forbid_cutting_rows() -> None:
    rows, width = 16, 8
    ops = [
        tiny.op("keys", "elementwise", {"n": rows, "d": width}, {"z": "n d"}, {"k": "n d"}),
        tiny.op(
            "scores", "contraction", {"m": rows, "n": rows, "d": width}, {"q": "m d", "k": "n d"}, {"s": "m n"},
            reduced="d",
        ),
        tiny.op("softmax", "reduction", {"m": rows, "n": rows}, {"s": "m n"}, {"p": "m n"}, reduced="n"),
    ]  # fmt: skip
    shapes = {"z": (rows, width), "q": (rows, width), "k": (rows, width), "s": (rows, rows), "p": (rows, rows)}
    lowered = tiny.world(ops, shapes)
    nest = nest_of(boundary(lowered, tiny.everything(lowered)))
    assert dict(zip(nest.dims, nest.tileable, strict=True)) == {"m": False}


def test_a_row_statistic_made_in_the_group_forbids_cutting_the_row() -> None:
    ops = [
        tiny.op("mean", "reduction", {"m": 8, "n": 16}, {"x": "m n"}, {"u": "m ."}, reduced="n"),
        tiny.op("sub", "elementwise", {"m": 8, "n": 16}, {"x": "m n", "u": "m ."}, {"y": "m n"}),
    ]
    lowered = tiny.world(ops, {"x": (8, 16), "u": (8, 1), "y": (8, 16)})
    nest = nest_of(boundary(lowered, tiny.everything(lowered)))
    assert nest.tileable == (True, False)


def sibling_outputs() -> Lowered:
    """p feeds two results: the larger one is the root, the other is derived from p."""
    ops = [
        tiny.op("a", "elementwise", {"m": 8, "n": 6}, {"x": "m n"}, {"p": "m n"}),
        tiny.op("b", "elementwise", {"m": 8, "n": 6}, {"p": "m n"}, {"y": "m n"}),
        tiny.op("c", "reduction", {"i": 8, "j": 6}, {"p": "i j"}, {"z": "i"}, reduced="j"),
    ]
    return tiny.world(ops, {"x": (8, 6), "p": (8, 6), "y": (8, 6), "z": (8,)})


def test_an_output_beside_the_root_is_derived_from_a_shared_tensor() -> None:
    lowered = sibling_outputs()
    nest, _, regions = regions_of(lowered, tiny.everything(lowered), m=2)
    assert nest.edge.ops[nest.edge.root].name == "b"
    assert nest.tileable == (True, False)  # the sum over the row needs whole rows of p
    assert made(regions, "z") == (2,)
    assert made(regions, "p") == (2, 6)


def test_an_output_that_shares_nothing_keeps_everything_whole() -> None:
    ops = [
        tiny.op("a", "elementwise", {"m": 8}, {"x": "m"}, {"y": "m"}),
        tiny.op("b", "elementwise", {"m": 4}, {"u": "m"}, {"v": "m"}),
    ]
    lowered = tiny.world(ops, {"x": (8,), "y": (8,), "u": (4,), "v": (4,)})
    assert nest_of(boundary(lowered, tiny.everything(lowered))).tileable == (False,)


def test_slices_of_one_tensor_add_up_in_what_makes_it() -> None:
    """Three thirds of one projection, read side by side: the producer makes three blocks, not one."""
    ops = [
        tiny.op(
            "project", "contraction", {"m": 8, "n": 12, "k": 4}, {"x": "m k", "w": "k n"}, {"t": "m n"}, reduced="k"
        ),
        tiny.op("join", "elementwise", {"m": 8, "n": 4}, {"t": "m n"}, {"u": "m n"}),
    ]
    lowered = tiny.world(ops, {"x": (8, 4), "w": (4, 12), "t": (8, 12), "u": (8, 4)})
    parts = tuple(tiny.Access("t", tiny.axes(text)) for text in ("m n", "m n+4", "m n+8"))
    join = tiny.replace_reads(lowered.ops[1], parts)
    lowered = tiny.with_ops(lowered, (lowered.ops[0], join))
    _, _, regions = regions_of(lowered, tiny.everything(lowered), m=4, n=2)
    assert made(regions, "t") == (4, 6)
    assert {name: int(reach.extent[0]) for name, reach in regions.points[0].items()} == {"m": 4, "n": 6, "k": 4}


# --- against enumeration ---


def split_world() -> Lowered:
    """[6, 12] split in thirds along n; the thirds are multiplied together."""
    ops = [
        tiny.op("split", "movement", {"m": 6, "n": 12}, {"x": "m n"}, {"q": "m n", "r": "m n-4", "s": "m n-8"}),
        tiny.op("join", "elementwise", {"m": 6, "n": 4}, {"q": "m n", "r": "m n", "s": "m n"}, {"y": "m n"}),
    ]
    return tiny.world(ops, {"x": (6, 12), **dict.fromkeys("qrsy", (6, 4))})


def reshape_world() -> Lowered:
    """Element-wise on [4, 6, 10], seen as [24, 10], then reduced over columns, seen as [4, 6]."""
    ops = [
        tiny.op("a", "elementwise", {"i": 4, "j": 6, "k": 10}, {"x": "i j k"}, {"p": "i j k"}),
        tiny.op("flat", "view", {"r": 24, "k": 10}, {"p": ""}, {"q": "r k"}),
        tiny.op("sum", "reduction", {"r": 24, "k": 10}, {"q": "r k"}, {"s": "r"}, reduced="k"),
        tiny.op("back", "view", {"i": 4, "j": 6}, {"s": ""}, {"t": "i j"}),
        tiny.op("b", "elementwise", {"i": 4, "j": 6}, {"t": "i j"}, {"y": "i j"}),
    ]
    shapes = {"x": (4, 6, 10), "p": (4, 6, 10), "q": (24, 10), "s": (24,), "t": (4, 6), "y": (4, 6)}
    return tiny.world(ops, shapes)


def concat_world() -> Lowered:
    """[4, 3] beside [4, 5], then element-wise."""
    ops = [
        tiny.op("join", "movement", {"m": 4, "n": 8}, {"a": "m n", "b": "m n-3"}, {"t": "m n"}),
        tiny.op("e", "elementwise", {"m": 4, "n": 8}, {"t": "m n"}, {"y": "m n"}),
    ]
    return tiny.world(ops, {"a": (4, 3), "b": (4, 5), "t": (4, 8), "y": (4, 8)})


def strided_world() -> Lowered:
    """A stride-2 convolution with a window of 3 over 9 columns, padded by one, and a slice of its result."""
    ops = [
        tiny.op("conv", "contraction", {"f": 2, "x": 5, "c": 3, "i": 3}, {"a": "c 2*x+i-1", "w": "f c i"}, {"t": "f x"},
                reduced="c i"),
        tiny.op("cut", "movement", {"f": 2, "x": 3}, {"t": "f x+1"}, {"y": "f x"}),
    ]  # fmt: skip
    return tiny.world(ops, {"a": (3, 9), "w": (2, 3, 3), "t": (2, 5), "y": (2, 3)})


def grouped_world() -> Lowered:
    """A grouped 1-D convolution: 2 groups of 3 channels to 2 groups of 2."""
    ops = [
        tiny.op("conv", "contraction", {"g": 2, "o": 2, "x": 6, "c": 3, "i": 3},
                {"a": "3*g+c x+i-1", "w": "2*g+o c i"}, {"t": "2*g+o x"}, reduced="c i"),
        tiny.op("e", "elementwise", {"n": 4, "x": 6}, {"t": "n x"}, {"y": "n x"}),
    ]  # fmt: skip
    return tiny.world(ops, {"a": (6, 6), "w": (4, 3, 3), "t": (4, 6), "y": (4, 6)})


WORLDS = {
    "gemm": tiny.gemm(6, 8, 4),
    "gemm_bias_relu": tiny.gemm_bias_relu(6, 8, 4),
    "two_gemms": tiny.two_gemms(6, 4, 5, 3, gelu=True),
    "two_convolutions": tiny.two_convolutions(1, 6),
    "diamond": tiny.diamond(4, 6),
    "attention": tiny.attention(2, 4, 5, 3),
    "softmax": tiny.softmax(4, 5),
    "split": split_world(),
    "reshape": reshape_world(),
    "concat": concat_world(),
    "strided": strided_world(),
    "grouped": grouped_world(),
}


def divisors(size: int) -> list[int]:
    return [d for d in range(1, size + 1) if size % d == 0]


@pytest.mark.parametrize("name", WORLDS)
def test_regions_hold_every_point_and_totals_are_exact_for_dividing_tiles(name: str) -> None:
    lowered = WORLDS[name]
    group = tiny.everything(lowered)
    nest = nest_of(boundary(lowered, group))
    root = group.ops[nest.edge.root]
    choices = [
        divisors(size) if cut else [size] for size, cut in zip(nest.sizes, nest.tileable, strict=True)
    ]  # fmt: skip
    for sizes in product(*choices):
        tile = dict(zip(nest.dims, sizes, strict=True))
        _, tiles, regions = regions_of(lowered, group, **tile)
        everywhere = [brute.touched(lowered, group, root, box) for box in brute.tiles(lowered.ops[root], tile)]
        compare(lowered, regions, tiles, everywhere, exact=not counted_as_box(name, tile))


def counted_as_box(name: str, tile: dict[str, int]) -> bool:
    """Where a region is a box around what is touched: a tile narrower than the padding, whose neighbours are clipped
    too, and a tile of several partial rows that a view flattens."""
    if name == "two_convolutions":
        return min(tile["y"], tile["x"]) == 1
    return name == "reshape" and tile["i"] > 1 and tile["j"] < 6


def compare(
    lowered: Lowered, regions: Regions, tiles: Tiles, everywhere: list[tuple[brute.Points, brute.Points]], exact: bool
) -> None:
    external: dict[str, list] = {}
    for step in regions.reads:
        for access, touch in regions.reads[step]:
            external.setdefault(access.tensor, []).append(touch)
    produced = {access.tensor for op in lowered.ops for access in op.writes}
    for tensor, touches in external.items():
        largest = max(len(reads.get(tensor, ())) for reads, _ in everywhere)
        assert sum(tile_elements(t, 1)[0] for t in touches) >= largest
        if tensor in produced or len(touches) > 1:
            continue
        total = sum(len(reads.get(tensor, ())) for reads, _ in everywhere)
        shape = lowered.graph.tensors[tensor].shape
        repeats = len(everywhere) / region_count(touches[0].mask, tiles.trips)[0]
        counted = pass_elements(touches[0], shape, tiles.trips)[0] * repeats
        assert counted == pytest.approx(total) if exact else counted >= total * (1 - 1e-9)
        assert accessed_elements(touches[0], shape) <= prod(shape)
    for tensor, touch in regions.makes.items():
        largest = max(len(makes.get(tensor, ())) for _, makes in everywhere)
        assert tile_elements(touch, 1)[0] >= largest


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_imperfect_tiles_are_covered_too(data: st.DataObject) -> None:
    """Tiles that divide nothing: regions still hold every point, and no read is lost from the totals."""
    lowered = WORLDS[data.draw(st.sampled_from(["gemm", "two_convolutions", "diamond", "concat", "strided", "split"]))]
    group = tiny.everything(lowered)
    nest = nest_of(boundary(lowered, group))
    tile = {
        name: data.draw(st.integers(1, size)) if cut else size
        for name, size, cut in zip(nest.dims, nest.sizes, nest.tileable, strict=True)
    }
    root = group.ops[nest.edge.root]
    _, tiles, regions = regions_of(lowered, group, **tile)
    everywhere = [brute.touched(lowered, group, root, box) for box in brute.tiles(lowered.ops[root], tile)]
    compare(lowered, regions, tiles, everywhere, exact=False)

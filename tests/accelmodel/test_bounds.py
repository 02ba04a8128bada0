"""Bounds by hand, and against everything that an exhaustive search finds."""

from dataclasses import replace
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmodel.boundary import boundary
from accelmodel.bounds import bound, contraction_io_bytes, on_chip_bytes
from accelmodel.cost import kernel_cost
from accelmodel.estimate import Situation, estimate, work
from accelmodel.plan import Group, Lowered
from accelmodel.regions import make_tiles, nest_of
from accelmodel.settings import ExecutionSettings
from accelmodel.target import Target
from tests.accelmodel import tiny


def test_inputs_are_read_and_outputs_written_once() -> None:
    lowered = tiny.gemm_bias_relu(8, 16, 4)
    found = bound(lowered, tiny.everything(lowered), tiny.machine())
    assert found.dram_bytes == 8 * 4 + 4 * 16 + 16 + 8 * 16


def test_the_io_bound_of_a_contraction_by_hand() -> None:
    # 2 x 1000^3 x sqrt(1 x 1 x 4) / sqrt(10000) - 2 x 10000 - 1000^2 x (4 - 1)
    expected = 2 * 1e9 * 2 / 100 - 20_000 - 3e6
    assert contraction_io_bytes(10**9, 10**6, (1.0, 1.0, 4.0), 1.0, 10_000) == pytest.approx(expected)


def test_a_large_contraction_on_a_small_machine_takes_the_io_bound() -> None:
    target = tiny.machine(sram_bytes=1023)
    assert on_chip_bytes(target) == 1024
    found = bound(tiny.gemm(512, 512, 512), tiny.alone(0), target)
    assert found.dram_bytes == int(2 * 512**3 / sqrt(1024) - 2 * 1024)


def test_on_chip_memory_is_that_of_all_cores_and_the_l2() -> None:
    target = tiny.machine(cores=4, sram_bytes=1000, accumulator_bytes=24, l2_bytes=5000)
    assert on_chip_bytes(target) == 4 * 1024 + 5000


def test_convolutions_and_products_of_one_tensor_take_no_io_bound() -> None:
    """Their operands are shared between windows, or play both parts: the argument does not hold."""
    square = tiny.op("s", "contraction", {"m": 256, "n": 256, "k": 256}, {"x": "m k"}, {"y": "m n"}, reduced="k")
    square = tiny.replace_reads(square, (*square.reads, tiny.Access("x", tiny.axes("n k"))))
    lowered = tiny.world([square], {"x": (256, 256), "y": (256, 256)})
    assert bound(lowered, tiny.alone(0), tiny.machine(sram_bytes=64)).dram_bytes == 2 * 256 * 256


def test_a_gather_is_bound_by_one_row_and_its_result() -> None:
    rows = tiny.op("gather", "movement", {"i": 6, "w": 8}, {"table": "* w", "ids": "i"}, {"y": "i w"})
    lowered = tiny.world([rows], {"table": (1000, 8), "ids": (6,), "y": (6, 8)}, weights=["table"])
    assert bound(lowered, tiny.alone(0), tiny.machine()).dram_bytes == 8 + 6 + 48


def test_a_slice_is_bound_by_what_it_takes() -> None:
    cut = tiny.op("cut", "movement", {"i": 3}, {"x": "2*i+1"}, {"y": "i"})
    lowered = tiny.world([cut], {"x": (100,), "y": (3,)})
    assert bound(lowered, tiny.alone(0), tiny.machine()).dram_bytes == 3 + 3


def test_a_strided_convolution_reads_the_positions_that_it_reaches() -> None:
    conv = tiny.op(
        "conv", "contraction", {"f": 1, "x": 4, "c": 2}, {"a": "c 3*x", "w": "f c"}, {"y": "f x"}, reduced="c"
    )
    lowered = tiny.world([conv], {"a": (2, 10), "w": (1, 2), "y": (1, 4)})
    assert bound(lowered, tiny.alone(0), tiny.machine()).dram_bytes == 2 * 4 + 2 + 4


def split(rows: int, parts: tuple[int, int]) -> tiny.LoweredOp:
    return tiny.op("cut", "movement", {"i": rows, "j": sum(parts)}, {"x": "i j"}, {"a": "i j", "b": f"i j-{parts[0]}"})


def test_of_a_split_only_the_part_that_is_used_is_bound_to_be_read() -> None:
    """Hand arithmetic: 8 rows of the first 5 of 9 columns are read, and 8 x 5 results written."""
    relu = tiny.op("relu", "elementwise", {"i": 8, "j": 5}, {"a": "i j"}, {"y": "i j"})
    shapes = {"x": (8, 9), "a": (8, 5), "b": (8, 4), "y": (8, 5)}
    lowered = tiny.world([split(8, (5, 4)), relu], shapes, outputs=["y"])
    found = bound(lowered, tiny.everything(lowered), tiny.machine())
    assert found.dram_bytes == 8 * 5 + 8 * 5
    assert found.dram_bytes <= least(lowered, tiny.everything(lowered), tiny.machine(), False)[0]


def test_of_a_split_whose_parts_are_all_used_everything_is_read() -> None:
    relus = [tiny.op(f"relu{t}", "elementwise", {"i": 8, "j": n}, {t: "i j"}, {f"{t}y": "i j"}) for t, n in
             (("a", 5), ("b", 4))]  # fmt: skip
    shapes = {"x": (8, 9), "a": (8, 5), "b": (8, 4), "ay": (8, 5), "by": (8, 4)}
    lowered = tiny.world([split(8, (5, 4)), *relus], shapes)
    assert bound(lowered, tiny.everything(lowered), tiny.machine()).dram_bytes == 8 * 9 + 8 * 9


def test_what_a_slice_in_the_group_drops_is_neither_read_nor_worked_on() -> None:
    ops = [
        tiny.op("relu", "elementwise", {"i": 8, "j": 10}, {"x": "i j"}, {"h": "i j"}),
        tiny.op("take", "movement", {"i": 8, "j": 3}, {"h": "i 2*j+1"}, {"y": "i j"}),
    ]
    lowered = tiny.world(ops, {"x": (8, 10), "h": (8, 10), "y": (8, 3)})
    found = bound(lowered, tiny.everything(lowered), tiny.machine(lanes=1, dram_bytes_per_ns=1e6))
    assert found.dram_bytes == 8 * 3 + 8 * 3
    assert found.latency_ns == 8 * 3


def test_a_group_that_nothing_uses_is_bound_by_nothing() -> None:
    lowered = tiny.gemm(4, 4, 4)
    dead = replace(lowered, graph=replace(lowered.graph, outputs=("a",)))
    assert bound(dead, tiny.alone(0), tiny.machine()).dram_bytes == 0


def test_latency_is_bound_by_engines_and_dram() -> None:
    lowered = tiny.gemm(64, 64, 64)
    slow_engine = bound(lowered, tiny.alone(0), tiny.machine(cores=2, macs_per_ns=1.0, dram_bytes_per_ns=1e9))
    assert slow_engine.latency_ns == 64**3 / 2
    slow_dram = bound(lowered, tiny.alone(0), tiny.machine(macs_per_ns=1e9, dram_bytes_per_ns=2.0))
    assert slow_dram.latency_ns == 3 * 64 * 64 / 2


def test_views_are_bound_by_nothing_and_host_ops_by_their_cost() -> None:
    view = tiny.op("v", "view", {"i": 8}, {"x": ""}, {"y": "i"})
    ops = [view, tiny.op("f", "fallback", {"i": 8}, {"y": "i"}, {"z": "i"})]
    lowered = tiny.world(ops, {"x": (4, 2), "y": (8,), "z": (8,)})
    target = tiny.machine()
    views = bound(lowered, tiny.alone(0), target)
    assert (views.dram_bytes, views.latency_ns) == (0, 0.0)
    cost = kernel_cost(lowered, tiny.alone(1), None, target, ExecutionSettings())
    assert bound(lowered, tiny.alone(1), target).latency_ns == cost.busy_ns


# --- no plan beats a bound ---


def least(lowered: Lowered, group: Group, target: Target, double_buffer: bool) -> tuple[float, float]:
    """Least DRAM bytes and least busy time over every tile, block, depth and innermost loop."""
    nest = nest_of(boundary(lowered, group))
    situation = Situation(target, target.cores, double_buffer, 1.0)
    sizes = [range(1, n + 1) if cut else [n] for n, cut in zip(nest.sizes, nest.tileable, strict=True)]
    blocks = range(1, nest.stream[2] + 1) if nest.stream else [1]
    rows = np.array([(*t, k, d) for *t, k, d in product(*sizes, blocks, (1, 3))], np.int64)
    worked = work(nest, make_tiles(nest, rows[:, :-2], rows[:, -2] if nest.stream else None), rows[:, -1], situation)
    dims = range(len(nest.dims))
    orders = [(*(d for d in dims if d != inner), inner) for inner in dims]
    found = [estimate(worked, order, situation) for order in orders]
    return min(float(e.dram_bytes.min()) for e in found), min(float(e.busy_ns.min()) for e in found)


def machines(draw: st.DrawFn) -> Target:
    return tiny.machine(
        cores=draw(st.integers(1, 3)), native=(draw(st.sampled_from([1, 4])),) * 3, lanes=4,
        sram_bytes=draw(st.sampled_from([64, 200, 1000])), accumulator_bytes=draw(st.sampled_from([1, 50])),
        l2_bytes=draw(st.sampled_from([0, 100, 2000])), dram_bytes_per_ns=draw(st.sampled_from([0.5, 100.0])),
        macs_per_ns=draw(st.sampled_from([0.5, 50.0])), half_transfer_bytes=draw(st.sampled_from([0.0, 8.0])),
    )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> tuple[Lowered, Target]:
    size = st.integers(1, 12)
    world = draw(
        st.one_of(
            st.builds(tiny.gemm, size, size, st.integers(1, 40)),
            st.builds(tiny.gemm_bias_relu, size, size, size),
            st.builds(lambda m, k: tiny.gemm(m, m, k, accumulator="int32"), size, size),
            st.builds(tiny.two_gemms, size, size, size, size),
            st.builds(tiny.two_convolutions, st.integers(1, 2), st.integers(3, 7)),
            st.builds(tiny.diamond, size, size),
            st.builds(tiny.softmax, size, size),
            st.builds(tiny.attention, st.integers(1, 2), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4)),
        )
    )
    return world, machines(draw)


@settings(max_examples=120, deadline=None)
@given(case=cases(), double_buffer=st.booleans())
def test_no_plan_of_the_exhaustive_search_beats_a_bound(case: tuple[Lowered, Target], double_buffer: bool) -> None:
    lowered, target = case
    for group in (tiny.everything(lowered), tiny.alone(0)):
        found = bound(lowered, group, target)
        dram_bytes, busy_ns = least(lowered, group, target, double_buffer)
        assert round(dram_bytes) >= found.dram_bytes
        assert busy_ns >= found.latency_ns * (1 - 1e-9)


@pytest.mark.parametrize("sram_bytes", [300, 500, 1100])
def test_the_io_bound_is_not_far_from_what_tiles_reach(sram_bytes: int) -> None:
    """The bound is worth having: the best tile moves less than three times as much."""
    target = tiny.machine(native=(1, 1, 1), lanes=1, sram_bytes=sram_bytes)
    lowered = tiny.gemm(48, 48, 48)
    reached, _ = least(lowered, tiny.alone(0), target, False)
    proven = bound(lowered, tiny.alone(0), target).dram_bytes
    assert proven <= reached < 3 * proven

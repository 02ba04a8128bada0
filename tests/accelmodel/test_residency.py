"""Working sets by hand: which buffers a tile needs, when, and what it costs when they do not fit."""

from dataclasses import replace

import numpy as np
import pytest

from accelmodel.boundary import boundary
from accelmodel.estimate import Estimate, Situation, estimate, work
from accelmodel.inplace import chains
from accelmodel.plan import Lowered
from accelmodel.regions import make_tiles, nest_of
from accelmodel.target import Target
from tests.accelmodel import tiny


def estimated(
    lowered: Lowered, target: Target, tile: dict[str, int], *, k_tile: int | None = None, depth: int = 1,
    double_buffer: bool = False, order: tuple[str, ...] | None = None,
) -> Estimate:  # fmt: skip
    nest = nest_of(boundary(lowered, tiny.everything(lowered)))
    rows = np.array([[tile[name] for name in nest.dims]], np.int64)
    tiles = make_tiles(nest, rows, None if k_tile is None else np.array([k_tile]))
    situation = Situation(target, target.cores, double_buffer, 1.0)
    loop_order = tuple(nest.dims.index(name) for name in order or nest.dims)
    return estimate(work(nest, tiles, np.array([depth]), situation), loop_order, situation)


def buffers(found: Estimate) -> dict[str, tuple[int, int, int]]:
    """tensor:role -> (bytes, first step, end)"""
    return {
        f"{need.tensor}:{need.role}": (int(need.size_bytes[0]), need.start, need.end)
        for need in found.working_set.needs
        if need.size_bytes[0] > 0
    }


def test_a_gemm_streams_panels_and_keeps_its_sums() -> None:
    # Panels of two native blocks (32) of the reduction; results leave by 2 rows of 32.
    found = estimated(tiny.gemm(64, 64, 64), tiny.machine(sram_bytes=4096), {"m": 32, "n": 32}, depth=2)
    assert buffers(found) == {
        "a:stream": (32 * 32, 0, 1), "b:stream": (32 * 32, 0, 1),
        "c:accumulator": (32 * 32 - 1, 0, 1),  # one byte of it lies in the accumulator space
        "c:output": (64, 0, 1),
    }  # fmt: skip
    assert found.working_set.peak_bytes[0] == 3 * 1024 + 63


def test_double_buffering_holds_moving_blocks_twice() -> None:
    target = tiny.machine(sram_bytes=1 << 14)
    found = estimated(tiny.gemm(64, 64, 64), target, {"m": 32, "n": 32}, double_buffer=True, order=("m", "n"))
    held = buffers(found)
    assert held["b:stream"] == (2 * 32 * 16, 0, 1)
    assert held["c:output"] == (2 * 32, 0, 1)
    assert held["a:operand"] == (32 * 64, 0, 1)  # kept over the inner loop, once


def test_sums_stay_in_accumulators_as_far_as_they_fit() -> None:
    lowered = tiny.gemm(64, 64, 64, accumulator="int32")
    all_in = estimated(lowered, tiny.machine(accumulator_bytes=4096), {"m": 32, "n": 32})
    assert "c:accumulator" not in buffers(all_in)
    half_in = estimated(lowered, tiny.machine(accumulator_bytes=2048), {"m": 32, "n": 32})
    assert buffers(half_in)["c:accumulator"] == (2048, 0, 1)


def test_results_leave_block_by_block_when_the_whole_reduction_is_on_chip() -> None:
    found = estimated(tiny.gemm(64, 64, 16), tiny.machine(), {"m": 64, "n": 64})
    assert buffers(found)["c:accumulator"] == (16 * 16 - 1, 0, 1)


def test_epilogues_work_on_the_accumulators_in_place() -> None:
    lowered = tiny.gemm_bias_relu(64, 64, 64)
    edge = boundary(lowered, tiny.everything(lowered))
    assert [chain.storages for chain in chains(edge)] == [("c", "d", "e")]
    held = buffers(estimated(lowered, tiny.machine(), {"m": 32, "n": 32}, depth=4))
    assert "d:intermediate" not in held
    assert held["c:accumulator"] == (256 * 4 - 1, 0, 3)  # 64 of 64 in one block: four native blocks of results


def test_a_tensor_that_two_ops_read_is_not_overwritten() -> None:
    lowered = tiny.diamond(8, 8)
    found = chains(boundary(lowered, tiny.everything(lowered)))
    assert [chain.storages for chain in found] == [("p",), ("q", "y"), ("r",)]
    held = buffers(estimated(lowered, tiny.machine(), {"m": 4, "n": 8}))
    assert held["p:intermediate"] == (32, 0, 3)
    assert held["q:intermediate"] == (32, 1, 4)
    assert held["r:intermediate"] == (32, 2, 4)


def test_a_window_does_not_overwrite_what_it_slides_over() -> None:
    ops = [
        tiny.op("a", "elementwise", {"x": 8}, {"i": "x"}, {"p": "x"}),
        tiny.op("pool", "reduction", {"x": 8, "w": 3}, {"p": "x+w-1"}, {"y": "x"}, reduced="w"),
    ]
    lowered = tiny.world(ops, {"i": (8,), "p": (8,), "y": (8,)})
    assert [chain.storages for chain in chains(boundary(lowered, tiny.everything(lowered)))] == [("p",), ("y",)]


def test_a_chain_holds_the_block_of_its_middle_and_all_its_sums() -> None:
    lowered = tiny.two_gemms(64, 32, 96, 48)
    held = buffers(estimated(lowered, tiny.machine(), {"m": 16, "n": 48}, k_tile=32))
    assert held["t:accumulator"] == (16 * 32 - 1, 0, 2)  # the middle is its own accumulator: equal widths
    assert held["y:accumulator"] == (16 * 48, 0, 2)  # kept over all three blocks
    assert held["w:stream"] == (16 * 32, 0, 1)
    assert held["v:stream"] == (16 * 48, 1, 2)  # up to four native blocks: the middle is on chip already
    assert held["x:operand"] == (16 * 32, 0, 2)  # used again by every block, and it fits


def test_wide_sums_are_stored_narrow_for_the_next_contraction() -> None:
    lowered = tiny.two_gemms(64, 32, 96, 48, gelu=True, accumulator="int32")
    held = buffers(estimated(lowered, tiny.machine(), {"m": 16, "n": 48}, k_tile=32))
    assert held["t:accumulator"] == (16 * 32 * 4 - 1, 0, 2)  # 32 of k in two blocks: the sums are needed twice
    assert held["u:intermediate"] == (16 * 32, 1, 3)


def test_an_operand_of_several_steps_stays_whole_between_them() -> None:
    ops = [
        tiny.op("a", "elementwise", {"m": 8, "n": 16}, {"x": "m n"}, {"p": "m n"}),
        tiny.op("b", "elementwise", {"m": 8, "n": 16}, {"p": "m n"}, {"q": "m n"}),
        tiny.op("c", "elementwise", {"m": 8, "n": 16}, {"q": "m n", "x": "m n"}, {"y": "m n"}),
    ]
    lowered = tiny.world(ops, dict.fromkeys("xpqy", (8, 16)))
    held = buffers(estimated(lowered, tiny.machine(), {"m": 4, "n": 16}))
    assert held["x:operand"] == (64, 0, 3)


def test_buffers_are_rounded_up_to_the_alignment() -> None:
    machine = tiny.machine()
    target = replace(machine, sram=replace(machine.sram, alignment_bytes=64))
    held = buffers(estimated(tiny.chain(2, 8, 10), target, {"m": 3, "n": 10}))
    assert held["t1:intermediate"] == (64, 0, 2)


def test_what_overflows_is_written_and_read_once_a_tile() -> None:
    # x 1 row, p, q, r whole tiles of 8 x 64: at step 2 p, q and r live, and a row of y later. Capacity 1200.
    lowered = tiny.diamond(8, 64)
    found = estimated(lowered, tiny.machine(sram_bytes=1200), {"m": 8, "n": 64})
    assert found.working_set.peak_bytes[0] == 3 * 512
    # The cheapest bytes go: q or r, one reader each (written once, read once); p has two readers.
    assert found.spill_bytes[0] == 2 * (3 * 512 - 1200)
    assert found.dram_bytes[0] == 2 * 512 + 2 * 336


def test_partial_sums_that_overflow_return_with_every_block() -> None:
    # 256 x 512 of sums and a middle block of 256 x 416 exceed 128 KiB: sums are cheapest, and move for 4 of 5 blocks.
    lowered = tiny.two_gemms(512, 512, 2048, 512)
    found = estimated(lowered, tiny.machine(), {"m": 256, "n": 512}, k_tile=416)
    peak = int(found.working_set.peak_bytes[0])
    over = peak - 128 * 1024
    streams, last = 256 * 16 + 16 * 416, 16 * 64 + 512
    assert peak == 256 * 512 + 256 * 416 - 1 + max(streams, last)
    assert found.spill_bytes[0] == 2 * (5 - 1) * over * 2  # two row tiles


@pytest.mark.parametrize("sram_bytes", [256, 700])
def test_a_tile_cannot_run_where_one_native_block_of_each_buffer_does_not_fit(sram_bytes: int) -> None:
    found = estimated(tiny.gemm(64, 64, 64), tiny.machine(sram_bytes=sram_bytes), {"m": 16, "n": 16})
    # 256 bytes each of a, b and sums, 16 of results, less 1 byte of accumulators
    assert found.working_set.short_bytes[0] == 3 * 256 + 16 - 1 - sram_bytes
    assert np.isinf(found.busy_ns[0])

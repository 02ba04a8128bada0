"""How often a contraction goes over an operand, and what a spilled operand costs for it."""

import numpy as np

from accelmodel.boundary import boundary
from accelmodel.regions import nest_of, propagate, whole_tile
from accelmodel.settings import ExecutionSettings, TilingSettings
from accelmodel.sweeps import result_block, sweeps
from accelmodel.tile import tile_group
from tests.accelmodel import tiny

MACHINE = tiny.machine(accumulator_bytes=65536)  # holds 16,384 float32 sums: a square of 128 x 128


def _gemm(m, n, k):
    return tiny.gemm(m, n, k, dtype="float16", accumulator="float32")


def _sweeps(lowered, step, tensor):
    nest = nest_of(boundary(lowered, tiny.everything(lowered)))
    return sweeps(nest, propagate(nest, whole_tile(nest)), step, tensor, 1, MACHINE)


def test_accumulators_hold_a_square_block_of_whole_native_tiles():
    op = _gemm(512, 512, 512).ops[0]
    assert result_block(op, MACHINE) == (128, 128)
    assert result_block(op, tiny.machine(accumulator_bytes=64)) == (16, 16)


def test_each_operand_is_gone_over_once_a_block_of_the_dim_it_lacks():
    lowered = _gemm(256, 640, 64)  # [256, 64] @ [64, 640] -> [256, 640]
    first, second = (read.tensor for read in lowered.ops[0].reads[:2])
    assert _sweeps(lowered, 0, first) == np.array([5.0])  # 640 / 128 blocks of n
    assert _sweeps(lowered, 0, second) == np.array([2.0])  # 256 / 128 blocks of m


def test_an_elementwise_op_goes_over_its_operand_once():
    lowered = tiny.chain(2, 64, 64)
    assert _sweeps(lowered, 0, lowered.ops[0].reads[0].tensor) == np.array([1.0])


def test_a_spilled_chain_costs_more_where_small_accumulators_make_more_sweeps():
    lowered = tiny.two_gemms(256, 256, 1024, 512, dtype="float16", accumulator="float32")

    def spilled(accumulator_bytes: int) -> int:
        target = tiny.machine(sram_bytes=8 * 1024, accumulator_bytes=accumulator_bytes)
        plan = tile_group(lowered, tiny.everything(lowered), target, TilingSettings(), ExecutionSettings())
        assert plan.tiles == 1  # the same tile on both machines
        return plan.spill_bytes

    assert spilled(64) > 2 * spilled(65536) > 0

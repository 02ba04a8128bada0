"""Contractions of one tile: operands laid out over the dims of the op, multiplied block by block of the reduction.

The products of two stored values are exact in the accumulator or rounded to it; partial sums of each block of the
reduction are added to an accumulator of the declared type, in the plan's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.execute_affine import Box, Operand, Region
from accelmodel.execute_operand import lay_out
from accelmodel.execute_ops import number
from accelmodel.graph import Op
from accelmodel.plan import LoweredOp
from accelmodel.precision import FLOATS, rounded

Array = npt.NDArray[Any]

# Accumulators narrower than float32 are rounded after so many products: engines add a short dot product at full width
# inside and round it once as it enters the accumulator.
NARROW_STEP = 16


def contract(
    node: Op,
    op: LoweredOp,
    reads: Sequence[Operand],
    blocks: Sequence[tuple[Region, Array]],
    box: Box,
    k_tile: int,
) -> Array:
    """MatMul, Gemm or Conv on a box -> one axis a dim, of size 1 on reduction dims.

    k_tile: block of the first reduction dim, 0 for all of it. The bias, if there is one, is added in the accumulator.
    """
    left, right = (_laid_out(reads[i], blocks[i], op, box) for i in (0, 1))
    # products of integers are exact in 64 bits, and wrap nowhere that a 32-bit accumulator of a real kernel does not
    if left.dtype.kind not in "f":
        left, right = left.astype(np.int64), right.astype(np.int64)
    total = _multiply(left, right, op, box, k_tile)
    scale = number(node, "alpha", 1.0) if node.op_type == "Gemm" else 1.0
    total = total if scale == 1.0 else rounded(total * total.dtype.type(scale), op.accumulator)
    if len(reads) < 3:
        return total
    bias = _laid_out(reads[2], blocks[2], op, box)
    share = number(node, "beta", 1.0) if node.op_type == "Gemm" else 1.0
    return rounded(total + bias * bias.dtype.type(share), op.accumulator)


def _laid_out(read: Operand, block: tuple[Region, Array], op: LoweredOp, box: Box) -> Array:
    return lay_out(read, block, box, op.precision, 0)


def _multiply(left: Array, right: Array, op: LoweredOp, box: Box, k_tile: int) -> Array:
    """Sum over the reduction dims of left x right, both [dims], by one batched matrix product a block.

    Dims in both operands are batch, those in one of them rows or columns: [batch, m, k] @ [batch, k, n].
    """
    reduced = [i for i, dim in enumerate(op.dims) if dim.role == "reduction"]
    kept = [i for i in range(len(box)) if i not in reduced]
    batch = [i for i in kept if left.shape[i] > 1 and right.shape[i] > 1]
    rows = [i for i in kept if left.shape[i] > 1 and i not in batch]
    columns = [i for i in kept if i not in batch and i not in rows]
    extents = [end - begin for begin, end in box]
    k = prod(extents[i] for i in reduced)
    left3 = _grouped(left, (batch, rows, reduced), columns)
    right3 = _grouped(right, (batch, reduced, columns), rows)
    inner = prod(extents[i] for i in reduced[1:])
    product = _accumulate(left3, right3, op.accumulator, k_tile * inner or k)
    order = [*batch, *rows, *columns]
    spread = product.reshape([extents[i] for i in order] + [1] * len(reduced))
    return spread.transpose(np.argsort([*order, *reduced]))


def _grouped(values: Array, groups: tuple[Sequence[int], ...], absent: Sequence[int]) -> Array:
    """Axes gathered into three; `absent` axes have size 1."""
    shape = [prod(values.shape[i] for i in group) for group in groups]
    return values.transpose([i for group in groups for i in group] + list(absent)).reshape(shape)


def _accumulate(left: Array, right: Array, accumulator: str, step: int) -> Array:
    """[b, m, k] @ [b, k, n] -> [b, m, n], `step` of k at a time."""
    narrow = accumulator in FLOATS and accumulator not in ("float32", "float64")
    if accumulator == "float64":
        left, right = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    k = left.shape[2]
    step = max(1, min(step, NARROW_STEP) if narrow else step)
    total = np.zeros((left.shape[0], left.shape[1], right.shape[2]), dtype=left.dtype)
    for begin in range(0, k, step):
        part = np.matmul(left[:, :, begin : begin + step], right[:, begin : begin + step, :])
        total = part if begin == 0 else total + part
        total = rounded(total, accumulator) if narrow else total
    return total

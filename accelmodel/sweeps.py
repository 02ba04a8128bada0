"""How often a contraction goes over an operand: what a spilled operand costs.

A contraction makes one block of results at a time: as many as its accumulators hold, a square as near as the engine's
native block allows. For every such block along the dims that an operand lacks, it reads the same part of that operand
again. On chip this is free; what of the operand was spilled comes from DRAM each time. This is the classical tiled
matrix product, traffic of A = |A| ceil(N / n) (e.g. Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", ACM TOMS 34(3), 2008).
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from accelmodel.boundary import storage_of
from accelmodel.contraction import contracted, roles_of
from accelmodel.graph import ELEMENT_BYTES
from accelmodel.plan import LoweredOp
from accelmodel.region_walk import FloatArray
from accelmodel.regions import Nest, Regions
from accelmodel.target import Target


def sweeps(nest: Nest, regions: Regions, step: int, storage: str, count: int, target: Target) -> FloatArray:
    """Times that the op at `step` goes over its operand in one tile: 1 but for contractions. [count]"""
    op = nest.edge.ops[step]
    once = np.ones(count)
    if op.kind != "contraction" or step not in regions.points:
        return once
    first, second = contracted(op)
    roles = roles_of(op)
    block_m, block_n = result_block(op, target)
    points = regions.points[step]
    times = once
    for access, lacks, block in ((first, roles.n, block_n), (second, roles.m, block_m)):
        if access is None or storage_of(nest.edge.lowered, access.tensor) != storage:
            continue
        extent = np.multiply.reduce([once, *(points[name].extent[:count] for name in lacks)])
        times = np.maximum(times, np.ceil(extent / block))
    return times


def result_block(op: LoweredOp, target: Target) -> tuple[int, int]:
    """Rows and columns of results that the accumulators hold at once: a square, down to whole native blocks."""
    native = target.engines[op.engine].native_tile
    side = isqrt(int(target.accumulator_bytes / ELEMENT_BYTES[op.accumulator]))
    return max(native[0], side - side % native[0]), max(native[1], side - side % native[1])

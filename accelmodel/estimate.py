"""Cost of many candidate tiles of one group at once: the terms of cost_terms.py put together.

The tile search and `cost.kernel_cost` both go through `estimate`, so that what was searched is what is charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from accelmodel import cost_terms as terms
from accelmodel.contraction import Roles, roles_of
from accelmodel.errors import InputError
from accelmodel.fetches import into_cores, out_of_dram, spans
from accelmodel.needs import Need, base_needs
from accelmodel.operands import Operand, Result, operands, results
from accelmodel.plan import LoweredOp
from accelmodel.region_walk import FloatArray, Points
from accelmodel.regions import IntArray, Nest, Regions, Tiles, propagate, tile_elements
from accelmodel.residency import WorkingSet, fit, retain
from accelmodel.target import Target


@dataclass(frozen=True, slots=True)
class Situation:
    """What a group runs under. cores: most cores that one kernel may use."""

    target: Target
    cores: int
    double_buffer: bool
    clock_fraction: float


@dataclass(frozen=True, slots=True)
class Worked:
    """What all loop orders of the same candidates share. Arrays are [C].

    tile_flops: padded flops of one tile. tile_ns: engine time of one tile. kept_bytes: SRAM traffic of one tile for
    results that stay inside the group.
    """

    nest: Nest
    tiles: Tiles
    regions: Regions
    depth: IntArray
    outer: tuple[Operand, ...]
    outs: tuple[Result, ...]
    needs: tuple[Need, ...]
    tile_flops: FloatArray
    tile_ns: FloatArray
    kept_bytes: FloatArray


@dataclass(frozen=True, slots=True)
class Estimate:
    """Cost of each candidate under one loop order. Arrays are [C]; bytes and ns are of the whole kernel.

    busy_ns is infinite where the tile cannot run.
    """

    loop_order: tuple[int, ...]
    tiles: FloatArray
    cores: FloatArray
    padded_flops: FloatArray
    read_bytes: FloatArray
    write_bytes: FloatArray
    spill_bytes: FloatArray
    halo_bytes: FloatArray
    l2_bytes: FloatArray
    compute_ns: FloatArray
    sram_ns: FloatArray
    dram_ns: FloatArray
    l2_ns: FloatArray
    busy_ns: FloatArray
    working_set: WorkingSet

    @property
    def dram_bytes(self) -> FloatArray:
        return self.read_bytes + self.write_bytes


def work(nest: Nest, tiles: Tiles, depth: IntArray, situation: Situation) -> Worked:
    """Regions, operands, buffers and engine time of every candidate."""
    target = situation.target
    regions = propagate(nest, tiles)
    outer = operands(nest, tiles, regions, depth, target)
    outs = results(nest, tiles, regions, depth)
    flops, busy = np.zeros(tiles.count), np.zeros(tiles.count)
    for step, points in regions.points.items():
        op = nest.edge.ops[step]
        repeats = tiles.trips[:, -1] if step in nest.loop else 1.0
        op_flops = padded_flops(op, points, tiles.count, target) * repeats
        flops = flops + op_flops
        if op.flops:
            busy = busy + terms.engine_ns(op_flops, *engine_rate(op, target), situation.clock_fraction)
    return Worked(
        nest=nest, tiles=tiles, regions=regions, depth=depth, outer=outer, outs=outs,
        needs=base_needs(nest, tiles, regions, outer, outs, depth, target, situation.double_buffer),
        tile_flops=flops, tile_ns=busy, kept_bytes=_kept_bytes(nest, tiles, regions),
    )  # fmt: skip


def estimate(
    worked: Worked, loop_order: tuple[int, ...], situation: Situation, spill_bytes: FloatArray | None = None
) -> Estimate:
    """Traffic and time under one loop order (indices of the root's dims, outermost first).

    spill_bytes: [C] spill traffic of the whole kernel where it is known already; otherwise the working set's own.
    """
    nest, trips, target = worked.nest, worked.tiles.trips, situation.target
    tiles = np.prod(trips[:, :-1], axis=1, dtype=np.float64)
    cores = np.minimum(tiles, situation.cores)
    uses = spans(worked.outer, trips, loop_order, target)
    needs, kept = retain(worked.needs, worked.outer, uses, len(nest.edge.ops), target)
    working_set = fit(needs, len(nest.edge.ops), target)
    to_core = from_dram = into_cores(worked.outer, worked.tiles, cores, uses, kept)
    if target.l2 is not None and worked.outer:
        from_dram = out_of_dram(worked.outer, worked.tiles, loop_order, cores, kept, target.l2.capacity_bytes)
    moved = _Moved.of(worked, to_core, from_dram)
    spill = working_set.spill_bytes * tiles if spill_bytes is None else spill_bytes
    dram_ns = _dram_ns(moved, spill, cores, target)
    l2_bytes, l2_ns = _l2(moved, target)
    waves = terms.wave_count(tiles, cores)
    sram = 2.0 * (moved.core_bytes + moved.written_bytes) / tiles + worked.kept_bytes + _reread_bytes(worked)
    compute_ns, sram_ns = waves * worked.tile_ns, waves * sram / target.sram.bandwidth_bytes_per_ns
    stages = waves * _blocks(worked) if situation.double_buffer else np.ones(len(tiles))
    busy = terms.overlapped_ns([np.maximum(compute_ns, sram_ns), dram_ns, l2_ns], stages)
    return Estimate(
        loop_order=loop_order, tiles=tiles, cores=cores, padded_flops=worked.tile_flops * tiles,
        read_bytes=moved.read_bytes + spill / 2, write_bytes=moved.written_bytes + spill / 2, spill_bytes=spill,
        halo_bytes=moved.halo_bytes, l2_bytes=l2_bytes, compute_ns=compute_ns, sram_ns=sram_ns, dram_ns=dram_ns,
        l2_ns=l2_ns, busy_ns=np.where(working_set.short_bytes > 0, np.inf, busy),
        working_set=working_set,
    )  # fmt: skip


# --- engines ---


def engine_rate(op: LoweredOp, target: Target) -> tuple[float, float]:
    """Peak of one core's engine at the op's precision, flops/ns, and its efficiency."""
    engine = target.engines[op.engine]
    if op.precision not in engine.flops_per_ns:
        raise InputError(
            stage="tiling", where=f"op {op.name!r} on the {op.engine} engine of {target.name!r}",
            expected=f"one of the engine's precisions, {', '.join(engine.flops_per_ns)}", found=op.precision,
            remedy="Lower the op to a precision that the engine has, or add its rate to the target file.",
        )  # fmt: skip
    return engine.flops_per_ns[op.precision], engine.efficiency


def padded_flops(op: LoweredOp, points: Points, count: int, target: Target) -> FloatArray:
    """Flops that the engine spends on one tile of the op, native blocks filled up. [C]"""
    space = prod(max(1, dim.size) for dim in op.dims)
    if not op.flops:
        return np.zeros(count)
    native = target.engines[op.engine].native_tile
    extents = {name: reach.extent[:count] for name, reach in points.items()}
    roles = roles_of(op) if op.engine == "matrix" else Roles((), tuple(extents), (), ())
    m, n, k, batch = (_product(extents, names, count) for names in (roles.m, roles.n, roles.k, roles.batch))
    if op.engine != "matrix":
        native = (1, prod(native), 1)  # lanes take elements of any dim
    return terms.padded_macs(m, n, k, batch, native) * (op.flops / space)


def _product(extents: dict[str, FloatArray], names: tuple[str, ...], count: int) -> FloatArray:
    result = np.ones(count)
    for name in names:
        result = result * extents[name]
    return result


# --- traffic ---


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bytes that cross the edges of the cores, [C] for each operand and then each result. into: to or from the cores;
    across: over the DRAM boundary; runs: contiguous bytes of one transfer."""

    into: list[FloatArray]
    across: list[FloatArray]
    runs: list[FloatArray]
    core_bytes: FloatArray
    read_bytes: FloatArray
    written_bytes: FloatArray
    halo_bytes: FloatArray

    @classmethod
    def of(cls, worked: Worked, to_core: Sequence[FloatArray], from_dram: Sequence[FloatArray]) -> _Moved:
        count, outer = worked.tiles.count, worked.outer
        inner = [o.pass_bytes * times for o, times in zip(outer, to_core, strict=True)]
        read = [o.pass_bytes * times for o, times in zip(outer, from_dram, strict=True)]
        halo = [(o.pass_bytes - o.accessed_bytes) * times for o, times in zip(outer, from_dram, strict=True)]
        written = [np.full(count, out.total_bytes) for out in worked.outs]
        return cls(
            into=[*inner, *written], across=[*read, *written],
            runs=[*(o.run_bytes for o in outer), *(out.run_bytes for out in worked.outs)],
            core_bytes=_sum(inner, count), read_bytes=_sum(read, count), written_bytes=_sum(written, count),
            halo_bytes=np.maximum(_sum(halo, count), 0.0),
        )  # fmt: skip


def _dram_ns(moved: _Moved, spill: FloatArray, cores: FloatArray, target: Target) -> FloatArray:
    """Time on DRAM: each transfer at the bandwidth of its runs; spilled buffers move in long ones. [C]"""
    peak = terms.dram_peak(target, cores)
    return _transfer_ns(moved.across, moved.runs, peak, target.dram.half_transfer_bytes) + spill / peak


def _l2(moved: _Moved, target: Target) -> tuple[FloatArray, FloatArray]:
    """Bytes between L2 and cores, and their time; nothing where there is no L2. [C] each."""
    none = np.zeros(len(moved.core_bytes))
    if target.l2 is None:
        return none, none
    rate = np.full(len(none), target.l2.bandwidth_bytes_per_ns)
    moved_ns = _transfer_ns(moved.into, moved.runs, rate, target.l2.half_transfer_bytes)
    return moved.core_bytes + moved.written_bytes, moved_ns


def _transfer_ns(
    moved_bytes: Sequence[FloatArray], run_bytes: Sequence[FloatArray], peak: FloatArray, half: float
) -> FloatArray:
    """Sum of bytes over the bandwidth that each transfer's runs reach. [C]"""
    parts = [b / terms.effective_bandwidth(peak, run, half) for b, run in zip(moved_bytes, run_bytes, strict=True)]
    return _sum(parts, len(peak))


def _kept_bytes(nest: Nest, tiles: Tiles, regions: Regions) -> FloatArray:
    """SRAM traffic of results that stay inside, one tile: each written once and read by every op that does not work
    on it in place. [C]"""
    edge = nest.edge
    total = np.zeros(tiles.count)
    for storage, step in edge.made.items():
        readers = [r for r in edge.readers.get(storage, ()) if edge.ops[r].kind in ("contraction", "movement")]
        if not readers:
            continue
        repeats = tiles.trips[:, -1] if step in nest.loop and nest.stream and step != nest.stream[0] else 1.0
        size = tile_elements(regions.makes[storage], tiles.count) * edge.lowered.element_bytes[storage]
        total = total + size * (1 + len(readers)) * repeats
    return total


def _reread_bytes(worked: Worked) -> FloatArray:
    """SRAM traffic of operands that more than one step reads, beyond the first read, one tile. [C]"""
    again = [operand.tile_bytes * (len(operand.steps) - 1) for operand in worked.outer]
    return _sum(again, worked.tiles.count)


def _blocks(worked: Worked) -> FloatArray:
    """Stages that the transfers of one tile come in. [C]"""
    blocks = np.maximum.reduce([*(o.blocks for o in worked.outer), np.ones(worked.tiles.count)])
    stages: FloatArray = blocks * worked.tiles.trips[:, -1]
    return stages


def _sum(parts: Sequence[FloatArray], count: int) -> FloatArray:
    total = np.zeros(count)
    for part in parts:
        total = total + part
    return total

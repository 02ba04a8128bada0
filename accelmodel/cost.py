"""What one kernel costs, and what its ops ask for: the sum of the terms in cost_terms.py.

`kernel_cost` charges a tile plan; the tile search compares candidates through the same `estimate`.
"""

from __future__ import annotations

from math import prod

import numpy as np

from accelmodel import cost_terms as terms
from accelmodel.access import picked_axis, positions_in_range
from accelmodel.boundary import Boundary, boundary, storage_bytes
from accelmodel.contraction import contracted, roles_of
from accelmodel.estimate import Estimate, Situation, estimate, work
from accelmodel.plan import Access, Group, KernelCost, Lowered, LoweredOp, TilePlan
from accelmodel.regions import Nest, Tiles, make_tiles, nest_of
from accelmodel.settings import ExecutionSettings
from accelmodel.target import Target


def kernel_cost(
    lowered: Lowered,
    group: Group,
    tile_plan: TilePlan | None,
    target: Target,
    execution: ExecutionSettings,
    placement_spill_bytes: int = 0,
) -> KernelCost:
    """Cost of one group as a kernel that runs alone on the machine.

    tile_plan: None for a group of views (which costs nothing) and for fallback ops (which run on the host).
    placement_spill_bytes: DRAM bytes that placement adds to the tile plan's own spill. Raises ValueError where a group
    that needs a tile plan has none.
    """
    edge = boundary(lowered, group)
    if edge.root < 0:
        return _nothing()
    if edge.fallback:
        return _on_host(edge, target, execution)
    if tile_plan is None:
        raise ValueError(f"group {group.name} holds more than views and fallback ops: it needs a tile plan")
    nest = nest_of(edge)
    situation = Situation(target, tile_plan.cores, tile_plan.double_buffer, execution.clock_fraction)
    worked = work(nest, _tiles_of(nest, tile_plan), np.array([tile_plan.stream_depth]), situation)
    loop_order = tuple(nest.dims.index(name) for name in tile_plan.loop_order)
    spill_bytes = tile_plan.spill_bytes + placement_spill_bytes
    found = estimate(worked, loop_order, situation, np.array([float(spill_bytes)]))
    return _assembled(edge, found, tile_plan, spill_bytes, target, execution)


def requested_bytes(op: LoweredOp, lowered: Lowered, target: Target) -> int:
    """Bytes that one op alone asks for at the engine's native tile, re-reads included, without padding.

    Each native block of the iteration space reads its share of every operand again; results are written once. So an
    operand counts the positions that it is read at (in range only: padding asks for nothing), times the native blocks
    along dims that it does not have. Views ask for nothing; fallback ops and data movements for each element once.
    """
    if op.kind == "view":
        return 0
    written = sum(lowered.tensor_bytes(write.tensor) for write in op.writes)
    if op.kind == "fallback":
        return round(written + sum(lowered.tensor_bytes(read.tensor) for read in op.reads))
    return round(written + sum(_requested(op, read, lowered, target) for read in op.reads))


def launches_of(edge: Boundary) -> int:
    """Launches of a group: one, or as many as its most demanding op needs when alone; views need none."""
    return max((max(1, op.launches) for op in edge.ops if op.kind != "view"), default=0)


# --- what an op asks for ---


def _requested(op: LoweredOp, read: Access, lowered: Lowered, target: Target) -> float:
    """Bytes of one operand."""
    sizes = op.dim_sizes()
    shape = lowered.graph.tensors[read.tensor].shape
    element_bytes = lowered.element_bytes[read.tensor]
    own = {name for axis in read.axes or () for name, _ in axis.terms}
    if op.kind == "movement":
        results = sum(prod(lowered.graph.tensors[write.tensor].shape) for write in op.writes)
        touched = prod(positions_in_range(a, sizes, n)[0] for a, n in zip(read.axes or (), shape, strict=True))
        return min(touched, results) * element_bytes if not picked_axis(read) else results * element_bytes
    asked = float(prod(sizes[name] for name in own))
    for axis, size in zip(read.axes or (), shape, strict=True):
        inside, every = positions_in_range(axis, sizes, size)[1:]
        asked = asked * inside / every if axis.terms else asked * (size if axis.whole else 1)
    return asked * _rereads(op, read, own, target) * element_bytes


def _rereads(op: LoweredOp, read: Access, own: set[str], target: Target) -> int:
    """Native blocks along the dims that an operand does not have."""
    native = target.engines[op.engine].native_tile
    sizes = op.dim_sizes()
    if op.engine == "matrix":
        roles = roles_of(op)
        k = roles.k if read in contracted(op) else ()  # a bias joins each result once, not each block of the reduction
        blocks = ((roles.m, native[0]), (roles.n, native[1]), (k, native[2]), (roles.batch, 1))
    else:
        inner = tuple(dim.name for dim in op.dims if dim.role == "parallel")[-1:]
        rest = tuple(dim.name for dim in op.dims if dim.name not in inner)
        blocks = ((inner, prod(native)), (rest, 1), ((), 1), ((), 1))
    times = 1
    for names, block in blocks:
        others = [name for name in names if name not in own]
        # A block spans its dims flattened; where the operand has some of them, the others are walked one by one.
        walked = prod(sizes[name] for name in others)
        times *= -(-walked // block) if len(others) == len(names) else walked
    return times


# --- the parts of a kernel's cost ---


def _tiles_of(nest: Nest, tile_plan: TilePlan) -> Tiles:
    sizes = dict(tile_plan.tile)
    tile = np.array([[sizes[name] for name in nest.dims]], np.int64).reshape(1, len(nest.dims))
    return make_tiles(nest, tile, np.array([tile_plan.k_tile], np.int64) if nest.stream else None)


def _assembled(
    edge: Boundary,
    found: Estimate,
    tile_plan: TilePlan,
    spill_bytes: int,
    target: Target,
    execution: ExecutionSettings,
) -> KernelCost:
    """One candidate's estimate, with launches and barriers, and the class of its bottleneck."""
    launches = launches_of(edge)
    barriers = launches + execution.extra_barriers
    launch_ns = terms.launch_ns(launches, target, execution.launch_mode)
    barrier_ns = terms.barrier_ns(barriers, target)
    read, written = round(found.read_bytes[0]), round(found.write_bytes[0])
    compute_ns, sram_ns, dram_ns, l2_ns, busy_ns = (
        float(a[0]) for a in (found.compute_ns, found.sram_ns, found.dram_ns, found.l2_ns, found.busy_ns)
    )
    times = {
        "launch": launch_ns, "sync": barrier_ns, "compute": compute_ns, "sram": max(sram_ns, l2_ns), "dram": dram_ns,
    }  # fmt: skip
    allowed = np.full(1, float(tile_plan.cores_allowed or tile_plan.cores))
    idle = float(terms.idle_share(found.tiles, allowed)[0])
    flops = sum(op.flops for op in edge.ops)
    return KernelCost(
        flops=flops, padded_flops=max(flops, round(found.padded_flops[0])),
        dram_read_bytes=read, dram_write_bytes=written, spill_bytes=spill_bytes, halo_bytes=round(found.halo_bytes[0]),
        l2_bytes=round(found.l2_bytes[0]), requested_bytes=_all_requested(edge, target),
        compute_ns=compute_ns, dram_ns=dram_ns, l2_ns=l2_ns, sram_ns=sram_ns, fallback_ns=0.0,
        launches=launches, launch_ns=launch_ns, barriers=barriers, barrier_ns=barrier_ns,
        busy_ns=busy_ns, total_ns=busy_ns + barrier_ns + launch_ns,
        bottleneck=terms.bottleneck_class(times, idle, spill_bytes / max(1, read + written)),
    )  # fmt: skip


def _on_host(edge: Boundary, target: Target, execution: ExecutionSettings) -> KernelCost:
    """A fallback op: its operands leave DRAM for the host and its results come back."""
    read = storage_bytes(edge.lowered, edge.external)
    written = storage_bytes(edge.lowered, edge.outputs)
    flops, launches = sum(op.flops for op in edge.ops), launches_of(edge)
    busy_ns = terms.fallback_ns(flops, read + written, target)
    barriers = launches + execution.extra_barriers
    launch_ns = terms.launch_ns(launches, target, execution.launch_mode)
    barrier_ns = terms.barrier_ns(barriers, target)
    return KernelCost(
        flops=flops, padded_flops=flops, dram_read_bytes=read, dram_write_bytes=written, spill_bytes=0, halo_bytes=0,
        l2_bytes=0, requested_bytes=_all_requested(edge, target), compute_ns=0.0,
        dram_ns=(read + written) / target.dram.bandwidth_bytes_per_ns, l2_ns=0.0, fallback_ns=busy_ns,
        launches=launches, launch_ns=launch_ns, barriers=barriers, barrier_ns=barrier_ns, busy_ns=busy_ns,
        total_ns=busy_ns + barrier_ns + launch_ns,
        bottleneck=terms.bottleneck_class({"launch": launch_ns, "sync": barrier_ns, "fallback": busy_ns}, 0.0, 0.0),
    )  # fmt: skip


def _nothing() -> KernelCost:
    """Views rename memory: no launch, no bytes, no time. Their class is `launch`, the first, for want of any."""
    return KernelCost(
        flops=0, padded_flops=0, dram_read_bytes=0, dram_write_bytes=0, spill_bytes=0, halo_bytes=0, l2_bytes=0,
        requested_bytes=0, compute_ns=0.0, dram_ns=0.0, l2_ns=0.0, fallback_ns=0.0, launches=0, launch_ns=0.0,
        barriers=0, barrier_ns=0.0, busy_ns=0.0, total_ns=0.0, bottleneck="launch",
    )  # fmt: skip


def _all_requested(edge: Boundary, target: Target) -> int:
    return sum(requested_bytes(op, edge.lowered, target) for op in edge.ops)

"""Independent checker of whole plans: tiles cover their dims, figures add up, nothing beats its bound. See check.py."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose, isfinite, prod

from accelmodel.check_grouping import check_grouping
from accelmodel.check_placement import peak_bytes, placement_problems
from accelmodel.plan import BOTTLENECKS, Bound, Kernel, KernelCost, Lowered, LoweredOp, Placement, Plan, TilePlan

_RELATIVE = 1e-9  # rounding of sums of floating point times


def check_plan(plan: Plan) -> tuple[str, ...]:
    """Every op in exactly one group, every group a kernel or listed as infeasible, and every kernel sound."""
    problems = list(check_grouping(plan.lowered, plan.grouping))
    names = [group.name for group in plan.grouping.groups]
    lost = {item.group for item in plan.infeasible}
    if [kernel.group.name for kernel in plan.kernels] != [name for name in names if name not in lost]:
        problems.append("plan: the kernels are not the groups that can run, in their order")
    if lost - set(names):
        problems.append(f"plan: infeasible group {min(lost - set(names))} is not among the groups")
    for kernel in plan.kernels:
        problems += (f"kernel {kernel.group.name}: {text}" for text in _kernel_problems(plan, kernel))
    return tuple(problems)


def _kernel_problems(plan: Plan, kernel: Kernel) -> Iterator[str]:
    ops = [plan.lowered.ops[op] for op in kernel.group.ops]
    kinds = {op.kind for op in ops}
    untiled = kinds == {"view"} or "fallback" in kinds
    if untiled != (kernel.tile_plan is None):
        yield f"holds {', '.join(sorted(kinds))}, so {'no tile plan' if untiled else 'a tile plan'} was expected"
        return
    yield from _cost_problems(kernel.cost, ops)
    yield from _bound_problems(kernel.cost, kernel.bound)
    if kernel.tile_plan is not None:
        yield from _tile_problems(plan, kernel, kernel.tile_plan)
        yield from _memory_problems(kernel, kernel.tile_plan, kernel.placement)


def _cost_problems(cost: KernelCost, ops: list[LoweredOp]) -> Iterator[str]:
    for name in KernelCost.__slots__:
        value = getattr(cost, name)
        if name != "bottleneck" and not (isfinite(value) and value >= 0):
            yield f"{name} is {value}, expected a finite number, 0 or more"
    if cost.bottleneck not in BOTTLENECKS:
        yield f"unknown bottleneck class {cost.bottleneck}"
    total_ns = cost.busy_ns + cost.barrier_ns + cost.launch_ns
    if not isclose(cost.total_ns, total_ns, rel_tol=_RELATIVE, abs_tol=_RELATIVE):
        yield f"total of {cost.total_ns} ns, but busy, barrier and launch add up to {total_ns} ns"
    if cost.padded_flops < cost.flops:
        yield f"{cost.padded_flops} padded flops are fewer than the {cost.flops} flops of its ops"
    if cost.spill_bytes > cost.dram_bytes:
        yield f"{cost.spill_bytes} spill bytes are more than all its {cost.dram_bytes} DRAM bytes"
    if all(op.kind == "view" for op in ops):
        if cost.launches or cost.total_ns or cost.dram_bytes:
            yield f"views only, but {cost.launches} launches, {cost.total_ns} ns, {cost.dram_bytes} DRAM bytes"
    elif cost.launches < 1:
        yield "no launch, although it holds more than views"


def _bound_problems(cost: KernelCost, bound: Bound) -> Iterator[str]:
    if cost.dram_bytes < bound.dram_bytes:
        yield f"{cost.dram_bytes} DRAM bytes are below the bound of {bound.dram_bytes}"
    if cost.busy_ns < bound.latency_ns * (1 - _RELATIVE):
        yield f"{cost.busy_ns} ns busy are below the bound of {bound.latency_ns} ns"


def _tile_problems(plan: Plan, kernel: Kernel, tile_plan: TilePlan) -> Iterator[str]:
    if tile_plan.root not in kernel.group.ops:
        yield f"its root, op {tile_plan.root}, is not in the group"
        return
    sizes = {dim.name: dim.size for dim in plan.lowered.ops[tile_plan.root].dims if dim.role == "parallel"}
    tile, trips = dict(tile_plan.tile), dict(tile_plan.trips)
    for dim, size in tile.items():
        if dim not in sizes:
            yield f"tiles {dim}, which is no parallel dim of its root"
        elif not 1 <= size <= sizes[dim]:
            yield f"tile of {size} on {dim}, which has {sizes[dim]}"
        elif trips.get(dim) != -(-sizes[dim] // size):
            yield f"{trips.get(dim)} trips of {size} do not just cover {dim}, which has {sizes[dim]}"
    untiled = [dim for dim, size in sizes.items() if size > 1 and dim not in tile]
    if untiled:
        yield f"says no tile size for {untiled[0]}"
    if sorted(tile_plan.loop_order) != sorted(tile):
        yield f"loops over {', '.join(tile_plan.loop_order)}, but tiles {', '.join(tile)}"
    if tile_plan.tiles != prod(trips.values()):
        yield f"{tile_plan.tiles} tiles, but the trips multiply to {prod(trips.values())}"
    if not 1 <= tile_plan.cores <= plan.cores:
        yield f"{tile_plan.cores} cores get work, expected 1 to {plan.cores}"
    elif tile_plan.waves != -(-tile_plan.tiles // plan.cores):
        yield f"{tile_plan.waves} waves of {tile_plan.tiles} tiles over {plan.cores} cores"
    yield from _reduction_problems(plan.lowered, kernel, tile_plan)


def _reduction_problems(lowered: Lowered, kernel: Kernel, tile_plan: TilePlan) -> Iterator[str]:
    longest = max(
        (dim.size for op in kernel.group.ops for dim in lowered.ops[op].dims if dim.role == "reduction"), default=0
    )
    if not 0 <= tile_plan.k_tile <= longest:
        yield f"streams blocks of {tile_plan.k_tile} of a reduction of at most {longest}"


def _memory_problems(kernel: Kernel, tile_plan: TilePlan, placement: Placement | None) -> Iterator[str]:
    peak = peak_bytes(list(tile_plan.buffers))
    if tile_plan.peak_bytes != peak:
        yield f"says a peak of {tile_plan.peak_bytes} bytes, but its buffers reach {peak}"
    overflow = max(0, peak - tile_plan.capacity_bytes)
    if tile_plan.spill_bytes < overflow * tile_plan.tiles:  # what does not stay is read again, once at the least
        yield f"exceeds the capacity by {overflow} bytes in {tile_plan.tiles} tiles, and counts {tile_plan.spill_bytes}"
    if placement is None:
        yield "has buffers and no placement"
        return
    yield from placement_problems(placement, 1)
    if placement.group != kernel.group.name:
        yield f"carries the placement of {placement.group}"
    held = [item.buffer for item in placement.placed] + list(placement.spilled)
    if sorted(held, key=repr) != sorted(tile_plan.buffers, key=repr):
        yield "its placement holds other buffers than its tile plan"
    if placement.capacity_bytes > tile_plan.capacity_bytes:
        yield f"is placed in {placement.capacity_bytes} bytes, of which there are {tile_plan.capacity_bytes}"
    spill_bytes = tile_plan.spill_bytes + placement.placement_spill_bytes
    if kernel.cost.spill_bytes != spill_bytes:
        yield f"{kernel.cost.spill_bytes} spill bytes in its cost, {spill_bytes} in its tile plan and placement"

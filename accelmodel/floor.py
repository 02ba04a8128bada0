"""Lower bounds of what a group costs under the cost model, ns: cheap to ask, they spare fusion many tile searches.

Unlike `bounds.bound`, which holds for any plan, these hold for the plans of this tile search: no recompute, so that a
group is cut only along dims that everything in it depends on, and no more cores than tiles are at work.
"""

from __future__ import annotations

from math import prod

import numpy as np

from accelmodel import cost_terms as terms
from accelmodel.boundary import Boundary, boundary
from accelmodel.bounds import bound
from accelmodel.cost import kernel_cost, launches_of
from accelmodel.estimate import engine_rate, padded_flops
from accelmodel.plan import Group, Lowered
from accelmodel.regions import nest_of, propagate, whole_tile
from accelmodel.settings import ExecutionSettings, TilingSettings
from accelmodel.target import Target
from accelmodel.tile_candidates import candidates


def bound_floor_ns(
    lowered: Lowered, group: Group, target: Target, settings: TilingSettings, execution: ExecutionSettings
) -> float:
    """Launches, barriers and the provable bound of the group's latency."""
    edge = boundary(lowered, group)
    if edge.root < 0 or edge.fallback:
        return kernel_cost(lowered, group, None, target, execution).total_ns
    return _fixed_ns(edge, target, execution) + bound(lowered, group, target).latency_ns


def tiled_floor_ns(
    lowered: Lowered, group: Group, target: Target, settings: TilingSettings, execution: ExecutionSettings
) -> float:
    """The same with the cores that the group's tiles can occupy at most: their engines one op after the other, and
    their share of the DRAM bandwidth."""
    edge = boundary(lowered, group)
    if edge.root < 0 or edge.fallback:
        return kernel_cost(lowered, group, None, target, execution).total_ns
    nest = nest_of(edge)
    tiles = prod(size for size, cut in zip(nest.sizes, nest.tileable, strict=True) if cut)
    cores = float(min(tiles, settings.cores or target.cores))
    busy = [
        terms.engine_ns(np.array([float(op.flops)]), *engine_rate(op, target), execution.clock_fraction)[0]
        for op in edge.ops
        if op.flops
    ]
    dram_ns = bound(lowered, group, target).dram_bytes / float(terms.dram_peak(target, np.array([cores]))[0])
    return _fixed_ns(edge, target, execution) + max(float(sum(busy)) / cores, dram_ns)


def searched_floor_ns(
    lowered: Lowered, group: Group, target: Target, settings: TilingSettings, execution: ExecutionSettings
) -> float:
    """The same over the very tiles that the search would try: padded arithmetic in whole waves, but no working set, no
    loop order and no traffic beyond the bound."""
    edge = boundary(lowered, group)
    if edge.root < 0 or edge.fallback:
        return kernel_cost(lowered, group, None, target, execution).total_ns
    nest = nest_of(edge)
    tried = candidates(nest, propagate(nest, whole_tile(nest)), target, settings).tiles
    regions = propagate(nest, tried)
    tile_ns = np.zeros(tried.count)
    for step, points in regions.points.items():
        op = edge.ops[step]
        if op.flops:
            repeats = tried.trips[:, -1] if step in nest.loop else 1
            flops = padded_flops(op, points, tried.count, target) * repeats
            tile_ns += terms.engine_ns(flops, *engine_rate(op, target), execution.clock_fraction)
    tiles = np.prod(tried.trips[:, :-1], axis=1, dtype=np.float64)
    cores = np.minimum(tiles, settings.cores or target.cores)
    compute_ns = terms.wave_count(tiles, cores) * tile_ns
    dram_ns = bound(lowered, group, target).dram_bytes / terms.dram_peak(target, cores)
    return _fixed_ns(edge, target, execution) + float(np.maximum(compute_ns, dram_ns).min())


def _fixed_ns(edge: Boundary, target: Target, execution: ExecutionSettings) -> float:
    launches = launches_of(edge)
    launch_ns = terms.launch_ns(launches, target, execution.launch_mode)
    return launch_ns + terms.barrier_ns(launches + execution.extra_barriers, target)

"""Tiling: how one group is worked through on one target.

`tile_group` weighs every candidate tile (tile_candidates.py) under every loop order that matters (which dim is
innermost) with the cost model, and takes the least latency alone on the machine; among those within 0.1 % of it, the
one with the least DRAM traffic, then the least time on DRAM (short runs waste it), the smallest working set (in
eighths of the SRAM: what is left unused below that helps nobody), the fewest tiles and the longest transfers.

A tile that overflows the SRAM is legal and pays its spill. A group cannot run where not even one native block of each
buffer that is needed at once fits into SRAM, or where its operands, results and spilled buffers exceed DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from accelmodel import cost_terms as terms
from accelmodel.boundary import Boundary, boundary, storage_bytes
from accelmodel.contraction import roles_of
from accelmodel.cost import launches_of
from accelmodel.errors import InputError
from accelmodel.estimate import Estimate, Situation, Worked, estimate, work
from accelmodel.needs import Need
from accelmodel.operands import clean_reduction, reduction_block, stream_unit
from accelmodel.plan import Buffer, Group, Infeasible, Lowered, TilePlan
from accelmodel.regions import Nest, nest_of, propagate, whole_tile
from accelmodel.settings import ExecutionSettings, TilingSettings
from accelmodel.target import Target
from accelmodel.tile_candidates import Candidates, candidates

_TIE = 1e-3  # relative difference of latency below which traffic decides


def needs_tiles(lowered: Lowered, group: Group) -> bool:
    """The group runs on cores: it holds more than views, and no fallback op."""
    edge = boundary(lowered, group)
    return edge.root >= 0 and not edge.fallback


def tile_group(
    lowered: Lowered, group: Group, target: Target, settings: TilingSettings, execution: ExecutionSettings
) -> TilePlan | Infeasible:
    """The best tile plan of one group, or why none can run. ValueError for groups that no tile describes
    (`needs_tiles`)."""
    edge = boundary(lowered, group)
    if edge.root < 0 or edge.fallback:
        raise ValueError(f"group {group.name} holds only views or a fallback op: it has no tiles")
    cores = settings.cores or target.cores
    situation = Situation(target, cores, settings.double_buffer, execution.clock_fraction)
    nest = nest_of(edge)
    tried = candidates(nest, propagate(nest, whole_tile(nest)), target, settings)
    worked = work(nest, tried.tiles, tried.depth, situation)
    orders = _loop_orders(nest)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        found = [estimate(worked, order, situation) for order in orders]
    fixed_ns = _fixed_ns(edge, target, execution)
    _check_times(edge, found, target)
    chosen = _best(found, tried, fixed_ns, target.sram.capacity_bytes)
    refusal = _refusal(edge, found, chosen, target)
    if refusal is not None:
        return refusal
    return _plan(worked, tried, found[chosen.order], chosen.row, len(orders), situation)


@dataclass(frozen=True, slots=True)
class _Choice:
    """order: index of the loop order; row: of the candidate."""

    order: int
    row: int


def _loop_orders(nest: Nest) -> tuple[tuple[int, ...], ...]:
    """One order for each dim that may be cut, with that dim innermost and the others as they come."""
    every = tuple(range(len(nest.dims)))
    cut = [d for d in every if nest.tileable[d] and nest.sizes[d] > 1]
    return tuple((*(d for d in every if d != inner), inner) for inner in reversed(cut)) or (every,)


def _fixed_ns(edge: Boundary, target: Target, execution: ExecutionSettings) -> float:
    """Launches and barriers: the same for every tile."""
    launches = launches_of(edge)
    barriers = launches + execution.extra_barriers
    return terms.launch_ns(launches, target, execution.launch_mode) + terms.barrier_ns(barriers, target)


def _check_times(edge: Boundary, found: list[Estimate], target: Target) -> None:
    """A tile without a finite time lacks memory; any other means that figures overflow."""
    for e in found:
        if np.isnan(e.busy_ns).any() or bool((np.isinf(e.busy_ns) & (e.working_set.short_bytes <= 0)).any()):
            raise InputError(
                stage="tiling", where=f"group {edge.group.name!r} on target {target.name!r}",
                expected="a finite time of every tile", found="one too large for a number",
                remedy="Correct the target's rates, bandwidths and transfer sizes, and execution.clock_fraction.",
            )  # fmt: skip


def _best(found: list[Estimate], tried: Candidates, fixed_ns: float, capacity_bytes: int) -> _Choice:
    """Least latency; within the tie, the rules of the module's docstring, then latency, then the first tried."""
    total = np.concatenate([e.busy_ns for e in found]) + fixed_ns
    near = np.flatnonzero(total <= total.min() * (1.0 + _TIE))
    traffic = np.round(np.concatenate([e.dram_bytes for e in found])[near])
    peak = np.concatenate([e.working_set.peak_bytes for e in found])[near]
    tiles = np.concatenate([e.tiles for e in found])[near]
    transfers = np.tile(tried.tiles.k_tile * tried.depth, len(found))[near]
    on_dram = np.round(np.concatenate([e.dram_ns for e in found])[near])
    eighths = np.ceil(8.0 * peak / capacity_bytes)
    first = near[np.lexsort((total[near], -transfers, tiles, eighths, on_dram, traffic))[0]]
    order, row = divmod(int(first), len(found[0].busy_ns))
    return _Choice(order, row)


def _refusal(edge: Boundary, found: list[Estimate], chosen: _Choice, target: Target) -> Infeasible | None:
    """Hard limits: native blocks beyond SRAM for every candidate, or more in DRAM than DRAM holds."""
    best = found[chosen.order]
    if not np.isfinite(best.busy_ns[chosen.row]):
        short = min(float(e.working_set.short_bytes.min()) for e in found)
        capacity = target.sram.capacity_bytes
        return _infeasible(edge, capacity + round(short), capacity, "one native block of each buffer exceeds SRAM")
    stored = storage_bytes(edge.lowered, edge.external + edge.outputs)
    over = best.working_set.peak_bytes[chosen.row] - target.sram.capacity_bytes
    demand = stored + round(max(0.0, float(over)) * float(best.cores[chosen.row]))
    if demand > target.dram.capacity_bytes:
        reason = "operands, results and spilled buffers exceed DRAM"
        return _infeasible(edge, demand, target.dram.capacity_bytes, reason, "dram")
    return None


def _infeasible(edge: Boundary, demand: int, capacity: int, reason: str, memory: str = "sram") -> Infeasible:
    return Infeasible(edge.group.name, demand, capacity, max(1, demand - capacity), reason, memory)


def _plan(worked: Worked, tried: Candidates, found: Estimate, row: int, orders: int, situation: Situation) -> TilePlan:
    """The chosen candidate as a plan."""
    nest, trips = worked.nest, worked.tiles.trips[row]
    cores = int(found.cores[row])
    tile = tuple((name, int(size)) for name, size in zip(nest.dims, worked.tiles.tile[row], strict=True))
    buffers = _buffers(found.working_set.needs, row)
    notes = (
        f"{tried.tiles.count} tiles under {orders} loop orders" + (", longest lists thinned" if tried.thinned else ""),
        *_uncut_notes(nest),
    )
    return TilePlan(
        root=nest.edge.group.ops[nest.edge.root],
        tile=tile,
        loop_order=tuple(nest.dims[d] for d in found.loop_order),
        trips=tuple((name, int(n)) for name, n in zip(nest.dims, trips, strict=False)),
        k_tile=_k_tile(worked, row, situation.target),
        tiles=int(found.tiles[row]),
        waves=-(-int(found.tiles[row]) // cores),
        cores=cores,
        double_buffer=situation.double_buffer,
        buffers=buffers,
        peak_bytes=_peak(buffers),
        capacity_bytes=situation.target.sram.capacity_bytes,
        spill_bytes=round(float(found.spill_bytes[row])),
        candidates_tried=tried.tiles.count * orders,
        notes=notes,
        stream_depth=int(tried.depth[row]),
        cores_allowed=situation.cores,
    )


def _k_tile(worked: Worked, row: int, target: Target) -> int:
    """Block of the streamed reduction; without one, the block of the first reduction dim by which the operands of the
    last contraction come in (all of it where windows overlap along it)."""
    if worked.nest.stream is not None:
        return int(worked.tiles.k_tile[row])
    for step, op in reversed(list(enumerate(worked.nest.edge.ops))):
        if op.kind == "contraction":
            sizes = op.dim_sizes()
            first = sizes[roles_of(op).k[0]] if roles_of(op).k else 0
            points, unit = worked.regions.points[step], stream_unit(target.engines[op.engine].native_tile)
            clean = clean_reduction(op, points, worked.tiles.count)[0][row]
            block = reduction_block(op, points, worked.tiles.count, worked.depth, unit)[row]
            return first if clean < first else min(first, ceil(block * first / clean))
    return 0


def _buffers(needs: tuple[Need, ...], row: int) -> tuple[Buffer, ...]:
    """Buffers of one candidate, in order of first use; those of no bytes are left out."""
    held = [
        Buffer(f"{need.tensor}:{need.role}", need.tensor, need.role, int(need.size_bytes[row]), need.start, need.end)
        for need in needs
        if need.size_bytes[row] > 0
    ]
    return tuple(sorted(held, key=lambda b: (b.start, b.end, b.name)))


def _peak(buffers: tuple[Buffer, ...]) -> int:
    steps = range(max((b.end for b in buffers), default=0))
    return max((sum(b.size_bytes for b in buffers if b.start <= step < b.end) for step in steps), default=0)


def _uncut_notes(nest: Nest) -> tuple[str, ...]:
    """Which dims stay whole because cutting them would recompute something."""
    whole = [name for name, cut, n in zip(nest.dims, nest.tileable, nest.sizes, strict=True) if not cut and n > 1]
    return (f"not cut, as it would recompute: {', '.join(whole)}",) if whole else ()

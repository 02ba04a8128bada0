"""The only composition of the stages: graph + target + settings -> plan.

Each stage is a function of its own, so that a flow may run them one at a time with the same result as `compile_plan`:

    lower_stage -> fuse_stage -> tile_stage -> place_stage -> assemble_plan

Between the stages the independent checkers look at what was made; a broken promise is an error of ours, not of the
input, and raises BrokenPlanError.

Fusion asks what a group costs: the tile search and the cost model answer with the same side's tiling and execution
settings. So under policy `optimal` a change of a later stage's settings can move a fusion boundary. In a prefix hybrid
the move then appears together with the setting that caused it, which is where the blame belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from accelmodel.bounds import bound
from accelmodel.check import check_grouping, check_placement, check_plan
from accelmodel.cost import kernel_cost
from accelmodel.floor import bound_floor_ns, searched_floor_ns, tiled_floor_ns
from accelmodel.fuse import fuse
from accelmodel.fuse_search import GroupCost
from accelmodel.graph import Graph
from accelmodel.lower import lower
from accelmodel.memo import Memo, Structure
from accelmodel.place import place
from accelmodel.plan import Group, Grouping, Infeasible, Kernel, KernelCost, Lowered, Placement, Plan, TilePlan
from accelmodel.settings import FusionSettings, Settings
from accelmodel.target import Target
from accelmodel.tile import tile_group

FLOORS = (bound_floor_ns, tiled_floor_ns, searched_floor_ns)
TileResult = TilePlan | Infeasible | None


class BrokenPlanError(RuntimeError):
    """A stage broke a promise: an error in this program, not in its input."""


def compile_plan(graph: Graph, target: Target, settings: Settings, workload: str, memo: Memo | None = None) -> Plan:
    """The plan of one workload. A memo shared between calls makes hybrids and repeated layers cheap."""
    memo = memo or Memo()
    lowered = lower_stage(graph, target, settings)
    grouping = fuse_stage(lowered, target, settings, memo)
    tiles = tile_stage(lowered, grouping, target, settings, memo)
    placements = place_stage(grouping, tiles, target, settings)
    return assemble_plan(lowered, grouping, tiles, placements, target, settings, workload)


def reference_plan(graph: Graph, target: Target, comparator: Settings, workload: str, memo: Memo | None = None) -> Plan:
    """What both sides' metrics refer to: the comparator with every op alone."""
    unfused = replace(comparator, fusion=FusionSettings(policy="none"))
    return compile_plan(graph, target, unfused, workload, memo)


# --- stages ---


def lower_stage(graph: Graph, target: Target, settings: Settings) -> Lowered:
    lowered = lower(graph, settings.lowering, target)
    same = [op.name for op in lowered.ops] == [op.name for op in graph.ops]
    _require("lowering", () if same else ("the lowered ops are not the ops of the graph",))
    return lowered


def fuse_stage(lowered: Lowered, target: Target, settings: Settings, memo: Memo | None = None) -> Grouping:
    """Groups by the side's policy; costs are those of the side's own tiling and execution settings."""
    asked = _asked(lowered, target, settings, memo)
    floors = tuple(_floor(asked, floor_ns) for floor_ns in FLOORS)
    grouping = fuse(lowered, settings.fusion, _cost(asked), floors, asked.structure.key)
    limits = None if settings.fusion.policy == "none" else settings.fusion
    _require("fusion", check_grouping(lowered, grouping, limits))
    return grouping


def tile_stage(
    lowered: Lowered, grouping: Grouping, target: Target, settings: Settings, memo: Memo | None = None
) -> tuple[TileResult, ...]:
    """A tile plan for each group: None where no tile describes it (views, fallback), Infeasible where none fits."""
    asked = _asked(lowered, target, settings, memo)
    return tuple(_tiled(asked, group) for group in grouping.groups)


def place_stage(
    grouping: Grouping, tiles: tuple[TileResult, ...], target: Target, settings: Settings
) -> tuple[Placement | None, ...]:
    """Offsets for the buffers of each tile plan; None where there is none."""
    return tuple(
        _placed(group, result, target, settings) if isinstance(result, TilePlan) else None
        for group, result in zip(grouping.groups, tiles, strict=True)
    )


def assemble_plan(
    lowered: Lowered,
    grouping: Grouping,
    tiles: tuple[TileResult, ...],
    placements: tuple[Placement | None, ...],
    target: Target,
    settings: Settings,
    workload: str,
) -> Plan:
    """Costs and bounds of every kernel, and the plan; groups that cannot run are listed apart."""
    kernels, infeasible = [], []
    for group, result, placement in zip(grouping.groups, tiles, placements, strict=True):
        if isinstance(result, Infeasible):
            infeasible.append(result)
            continue
        spill_bytes = placement.placement_spill_bytes if placement else 0
        cost = kernel_cost(lowered, group, result, target, settings.execution, spill_bytes)
        kernels.append(Kernel(group, result, placement, cost, bound(lowered, group, target)))
    plan = Plan(
        workload=workload, target=target.name, lowered=lowered, grouping=grouping, kernels=tuple(kernels),
        infeasible=tuple(infeasible), cores=settings.tiling.cores or target.cores,
    )  # fmt: skip
    _require("assembly of the plan", check_plan(plan))
    return plan


# --- cost of a group, for fusion and for comparison ---


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the tile search and the cost model are asked about, and what is known already.

    context: one number for all that a group's cost depends on beside the group: target, tiling and execution settings
    (without noise, which belongs to the replay).
    """

    lowered: Lowered
    target: Target
    settings: Settings
    memo: Memo
    structure: Structure
    context: int


def _asked(lowered: Lowered, target: Target, settings: Settings, memo: Memo | None) -> _Asked:
    memo = memo or Memo()
    context = memo.number((repr(target), settings.tiling, replace(settings.execution, noise_cv=0.0)))
    return _Asked(lowered, target, settings, memo, memo.structure(lowered), context)


def group_cost(lowered: Lowered, target: Target, settings: Settings, memo: Memo | None = None) -> GroupCost:
    """Modelled ns of a group alone on the machine, launches and barriers included; infinite where it cannot run.

    Memoised by structure: op types, dims, access maps, precisions, shapes, element sizes and which results leave the
    group, under this target and these tiling and execution settings.
    """
    return _cost(_asked(lowered, target, settings, memo))


def unfused_costs(
    lowered: Lowered, group: Group, target: Target, settings: Settings, memo: Memo | None = None
) -> tuple[KernelCost, ...]:
    """Costs of the group's ops as one kernel each, in order; ops that cannot run alone are left out."""
    asked = _asked(lowered, target, settings, memo)
    alone = (Group(lowered.ops[op].name, (op,)) for op in group.ops)
    results = ((single, _tiled(asked, single)) for single in alone)
    return tuple(
        kernel_cost(lowered, single, result, target, settings.execution)
        for single, result in results
        if not isinstance(result, Infeasible)
    )


def _cost(asked: _Asked) -> GroupCost:
    def cost(ops: tuple[int, ...]) -> float:
        key = (asked.context, asked.structure.key(ops))
        return asked.memo.once(key, lambda: _total_ns(asked, Group("tried", ops)))

    return cost


def _floor(asked: _Asked, floor_ns: Callable[..., float]) -> GroupCost:
    def floor(ops: tuple[int, ...]) -> float:
        key = (asked.context, floor_ns.__name__, asked.structure.key(ops))
        tiling, execution = asked.settings.tiling, asked.settings.execution
        return asked.memo.once(
            key, lambda: floor_ns(asked.lowered, Group("tried", ops), asked.target, tiling, execution)
        )

    return floor


def _total_ns(asked: _Asked, group: Group) -> float:
    result = _tiled(asked, group)
    if isinstance(result, Infeasible):
        return inf
    return kernel_cost(asked.lowered, group, result, asked.target, asked.settings.execution).total_ns


def _tiled(asked: _Asked, group: Group) -> TileResult:
    """Memoised by the very ops of the group (buffers carry tensor names), so that hybrids find it again."""
    kinds = {asked.lowered.ops[op].kind for op in group.ops}
    if kinds == {"view"} or "fallback" in kinds:
        return None
    result = asked.memo.once(
        (asked.context, asked.structure.number, group.ops),
        lambda: tile_group(asked.lowered, group, asked.target, asked.settings.tiling, asked.settings.execution),
    )
    return replace(result, group=group.name) if isinstance(result, Infeasible) else result


def _placed(group: Group, tile_plan: TilePlan, target: Target, settings: Settings) -> Placement:
    alignment_bytes = target.sram.alignment_bytes
    placement = place(
        tile_plan.buffers, tile_plan.capacity_bytes, alignment_bytes, settings.placement, group.name,
        tile_plan.tiles, tile_plan.spill_bytes,
    )  # fmt: skip
    _require("placement", check_placement(placement, alignment_bytes))
    return placement


def _require(stage: str, problems: tuple[str, ...]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BrokenPlanError(f"{stage}: internal error: {problems[0]}{more}. Please report it with the model.")

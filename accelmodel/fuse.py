"""Fusion: which ops become one kernel.

`fuse(lowered, settings, group_cost)` partitions the ops into legal groups (legality.py) by one of four policies and
puts the groups into an executable order:

  none        every op alone: the reference of the launch metrics.
  pattern     one anchor with element-wise ops around it, as rule-based compilers do (fuse_greedy.py).
  aggressive  whatever is legal, whatever it costs (fuse_greedy.py).
  optimal     least modelled cost (fuse_optimal.py), never worse than the other three.

`group_cost` gives the modelled ns of a group alone on the machine, launch included, and infinity where it cannot run.
It comes from outside, so that this stage knows nothing of tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from heapq import heapify, heappop, heappush
from math import isinf

from accelmodel.errors import InputError
from accelmodel.fuse_greedy import aggressive, pattern
from accelmodel.fuse_optimal import optimal
from accelmodel.fuse_search import Costing, GroupCost, GroupKey
from accelmodel.graph import Graph
from accelmodel.legality import AtomGraph, atom_graph, bits
from accelmodel.plan import Group, Grouping, Lowered
from accelmodel.settings import FusionSettings

POLICIES = ("none", "pattern", "aggressive", "optimal")
_NAMES_SHOWN = 4


def fuse(
    lowered: Lowered,
    settings: FusionSettings,
    group_cost: GroupCost,
    floors: tuple[GroupCost, ...] = (),
    key: GroupKey = lambda ops: ops,
) -> Grouping:
    """Groups of the policy that the settings name, in an executable order.

    floors: lower bounds of group_cost, each dearer to ask and tighter than the one before; key: equal for groups that
    cost the same. Both only spare questions. Raises InputError for an unknown policy.
    Names in `split_before` that this graph lacks belong to other workloads of the side (`require_splits`).
    """
    _require_known(settings)
    graph = atom_graph(lowered, settings)
    if settings.policy == "none":
        alone = "policy none: every op alone"
        return _grouping(lowered, settings, {(i,): alone for i in range(len(lowered.ops))}, exact=False, notes=())
    if settings.policy == "pattern":
        reasons = {m: _pattern_reason(graph, m) for m in pattern(graph, group_cost)}
        return _grouping(lowered, settings, _named_ops(graph, reasons), exact=False, notes=())
    if settings.policy == "aggressive":
        reasons = {m: f"aggressive: {stop}" for m, stop in aggressive(graph, group_cost).items()}
        return _grouping(lowered, settings, _named_ops(graph, reasons), exact=False, notes=())
    proposals = (pattern(graph, group_cost), tuple(aggressive(graph, group_cost)))
    found = optimal(graph, Costing(group_cost, floors, key), proposals)
    reasons = {m: _optimal_reason(graph, m, group_cost) for m in found.groups}
    return _grouping(lowered, settings, _named_ops(graph, reasons), exact=found.exact, notes=found.notes)


def require_splits(settings: FusionSettings, graphs: Iterable[Graph]) -> None:
    """Every name in `split_before` is an op of at least one of the side's graphs, else InputError."""
    known = {op.name for graph in graphs for op in graph.ops}
    unknown = [name for name in settings.split_before if name not in known]
    if unknown:
        close = get_close_matches(unknown[0], known, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise InputError(
            stage="fusion", where="split_before", expected="names of ops of the workloads", found=repr(unknown[0]),
            remedy=f"{hint}Take the op names from the worksheet (tilegate plan --json).",
        )  # fmt: skip


def _require_known(settings: FusionSettings) -> None:
    if settings.policy not in POLICIES:
        raise InputError(
            stage="fusion", where="policy", expected=f"one of {', '.join(POLICIES)}", found=repr(settings.policy),
            remedy="Name one of the four policies.",
        )  # fmt: skip


def _named_ops(graph: AtomGraph, reasons: Mapping[int, str]) -> dict[tuple[int, ...], str]:
    return {graph.ops(members): reason for members, reason in reasons.items()}


# --- why ---


def _pattern_reason(graph: AtomGraph, members: int) -> str:
    atoms = list(bits(members))
    if len(atoms) == 1:
        return f"pattern: {graph.kind(atoms[0])} with nothing element-wise to join it"
    anchors = [atom for atom in atoms if graph.kind(atom) != "elementwise"]
    if not anchors:
        return f"pattern: element-wise chain of {len(atoms)} ops"
    others = [graph.name(atom) for atom in atoms if atom != anchors[0]]
    return f"pattern: {graph.kind(anchors[0])} {graph.name(anchors[0])} with element-wise {_shown(others)}"


def _optimal_reason(graph: AtomGraph, members: int, group_cost: GroupCost) -> str:
    atoms = list(bits(members))
    together = group_cost(graph.ops(members))
    if len(atoms) == 1:
        return "optimal: cheapest alone" if not isinf(together) else "optimal: cannot run, alone or with others"
    alone = sum(group_cost(graph.atoms[atom]) for atom in atoms)
    return f"optimal: {together:.0f} ns together, {alone:.0f} ns as {len(atoms)} groups"


def _shown(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


# --- order and names ---


def _grouping(
    lowered: Lowered,
    settings: FusionSettings,
    reasons: Mapping[tuple[int, ...], str],
    *,
    exact: bool,
    notes: tuple[str, ...],
) -> Grouping:
    """Groups in topological order of the quotient (ties: the group whose first op comes first), with their names."""
    groups = tuple(
        Group(f"g{number}_{lowered.ops[main_op(lowered, ops)].name}", ops, reasons[ops])
        for number, ops in enumerate(_executable(lowered, tuple(reasons)))
    )
    return Grouping(settings.policy, groups, exact, notes)


def main_op(lowered: Lowered, ops: tuple[int, ...]) -> int:
    """The op that a group is named after: a contraction before anything else, then the most flops, then the first."""
    return max(
        ops,
        key=lambda i: (lowered.ops[i].kind == "contraction", lowered.ops[i].kind != "view", lowered.ops[i].flops, -i),
    )


def _executable(lowered: Lowered, groups: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    home = {op: ops for ops in groups for op in ops}
    producers = lowered.graph.producers()
    waits: dict[tuple[int, ...], set[tuple[int, ...]]] = {ops: set() for ops in groups}
    feeds: dict[tuple[int, ...], set[tuple[int, ...]]] = {ops: set() for ops in groups}
    for number, op in enumerate(lowered.graph.ops):
        for source in (home[producers[name]] for name in op.inputs if name in producers):
            if source != home[number]:
                waits[home[number]].add(source)
                feeds[source].add(home[number])
    ready = [ops for ops in groups if not waits[ops]]
    heapify(ready)
    order = []
    while ready:
        order.append(heappop(ready))
        for following in feeds[order[-1]]:
            waits[following].discard(order[-1])
            if not waits[following]:
                heappush(ready, following)
    if len(order) != len(groups):
        raise RuntimeError("fusion: internal error: the groups wait for each other and cannot be ordered")
    return order

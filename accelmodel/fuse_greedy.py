"""Fusion policies that follow a rule and not a cost: `none`, `pattern`, `aggressive`.

Each returns a partition of the atoms: sets of atoms (see legality.py), one a group. Costs are asked only whether a
group can run at all: a group without any tile that fits (infinite cost) is never formed from parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isinf

from accelmodel.fuse_search import GroupCost
from accelmodel.legality import AtomGraph, bits, refusal, union

CanRun = Callable[[int], bool]
CYCLE = "the groups would wait for each other"
TOO_LARGE = "no tile of it fits on chip"


@dataclass(slots=True)
class Quotient:
    """A partition that grows by merging, and what each group reaches: the groups stay free of cycles.

    Local to one run of a policy. A group is named by its lowest atom; `reach[g]` is the set of atoms of the groups
    that wait, directly or not, for group g.
    """

    graph: AtomGraph
    home: list[int] = field(init=False)
    members: dict[int, int] = field(init=False)
    reach: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.home = list(range(len(self.graph.atoms)))
        self.members = {atom: 1 << atom for atom in self.home}
        self.reach = dict(enumerate(self.graph.descendants))

    def group(self, atom: int) -> int:
        """Members of the group that holds this atom."""
        return self.members[self.home[atom]]

    def would_cycle(self, merged: int) -> bool:
        """Whether some group outside would both wait for these atoms and be waited for by them."""
        outside = union(self.graph.after, merged) & ~merged
        return any(self.reach[group] & merged for group in {self.home[atom] for atom in bits(outside)})

    def refusal(self, merged: int) -> str:
        """Why these atoms (whole groups) may not become one group; "" where they may."""
        return refusal(self.graph, merged) or (CYCLE if self.would_cycle(merged) else "")

    def merge(self, merged: int) -> None:
        """Make one group of these atoms, after `refusal` had nothing against it."""
        parts = {self.home[atom] for atom in bits(merged)}
        reach = 0
        for part in parts:
            reach |= self.reach.pop(part)
            del self.members[part]
        first = min(parts)
        self.members[first], self.reach[first] = merged, reach & ~merged
        for atom in bits(merged):
            self.home[atom] = first
        for group, reached in self.reach.items():
            if reached & merged:
                self.reach[group] = reached | merged | reach

    def partition(self) -> tuple[int, ...]:
        return tuple(self.members.values())


def pattern(graph: AtomGraph, group_cost: GroupCost) -> tuple[int, ...]:
    """One anchor (a contraction, reduction or chain of element-wise ops) with element-wise ops before and after.

    After the anchor: as long as its next post-dominator and everything on the ways there are element-wise and free,
    they join (so that nothing made in between is needed elsewhere). Before it: element-wise ops that feed this group
    alone. Anchors in topological order, epilogues first: a value is best used where it is made. Movement never joins.
    """
    return _grown(graph, group_cost, _match)[0].partition()


def _match(quotient: Quotient, among: int, can_run: CanRun) -> None:
    graph, follower = quotient.graph, post_dominators(quotient.graph)
    kinds = [graph.kind(atom) for atom in range(len(graph.atoms))]
    simple = sum(1 << atom for atom, kind in enumerate(kinds) if kind == "elementwise")
    anchors = [atom for atom in bits(among) if kinds[atom] in ("contraction", "reduction")]
    for atom in anchors:
        _grow_epilogue(quotient, follower, simple & among, atom, can_run)
    for atom in anchors:
        _grow_prologue(quotient, simple & among, atom, can_run)
    for atom in bits(simple & among):
        if quotient.group(atom) == 1 << atom:
            _grow_epilogue(quotient, follower, simple & among, atom, can_run)


def _grow_epilogue(
    quotient: Quotient, follower: tuple[int | None, ...], simple: int, atom: int, can_run: CanRun
) -> None:
    graph, tail = quotient.graph, atom
    while (following := follower[tail]) is not None:
        added = graph.descendants[tail] & graph.ancestors[following] | 1 << following
        free = all(quotient.group(new) == 1 << new for new in bits(added))
        if added & ~simple or not free or not _join(quotient, quotient.group(atom) | added, can_run):
            return
        tail = following


def _grow_prologue(quotient: Quotient, simple: int, atom: int, can_run: CanRun) -> None:
    graph = quotient.graph
    refused = 0
    while True:
        members = quotient.group(atom)
        offered = [
            new
            for new in bits(union(graph.before, members) & ~members & simple & ~refused)
            if quotient.group(new) == 1 << new and not graph.after[new] & ~members and not graph.makes[new] & graph.kept
        ]
        if not offered:
            return
        if not _join(quotient, members | 1 << offered[-1], can_run):
            refused |= 1 << offered[-1]


def _join(quotient: Quotient, merged: int, can_run: CanRun) -> bool:
    if quotient.refusal(merged) or not can_run(merged):
        return False
    quotient.merge(merged)
    return True


def _grown(
    graph: AtomGraph, group_cost: GroupCost, grow: Callable[[Quotient, int, CanRun], None]
) -> tuple[Quotient, tuple[int, ...]]:
    """Grow groups by a rule that asks for no cost; a finished group that cannot run at all is taken apart and grown
    again, this time refusing each step that breaks it. Returns the groups, and those that were taken apart."""
    quotient = Quotient(graph)
    grow(quotient, (1 << len(graph.atoms)) - 1, lambda members: True)
    grown = [members for members in quotient.partition() if members & (members - 1)]
    broken = tuple(members for members in grown if isinf(group_cost(graph.ops(members))))
    if broken:
        quotient = Quotient(graph)
        for members in grown:
            if members not in broken:
                quotient.merge(members)
        grow(quotient, sum(broken), lambda members: not isinf(group_cost(graph.ops(members))))
    return quotient, broken


def post_dominators(graph: AtomGraph) -> tuple[int | None, ...]:
    """The first atom that every way from an atom to the outputs passes; None where there is none.

    A value that leaves the graph and is read inside as well has a way out of its own, hence no post-dominator.
    """
    count = len(graph.atoms)
    follower: list[int | None] = [None] * count
    depth = [0] * (count + 1)  # of the tree of post-dominators, whose root is the exit
    for atom in reversed(range(count)):
        leaves = bool(graph.makes[atom] & graph.kept) or not graph.after[atom]
        meeting = None if leaves else _meeting(list(bits(graph.after[atom])), follower, depth)
        follower[atom] = meeting
        depth[atom] = 1 if meeting is None else depth[meeting] + 1
    return tuple(follower)


def _meeting(atoms: list[int], follower: list[int | None], depth: list[int]) -> int | None:
    """Where the ways to the exit from these atoms meet for the first time."""
    meeting: int | None = atoms[0]
    for other in atoms[1:]:
        climber: int | None = other
        while meeting != climber:
            if meeting is None or climber is None:
                return None
            if depth[meeting] >= depth[climber]:
                meeting = follower[meeting]
            else:
                climber = follower[climber]
    return meeting


def aggressive(graph: AtomGraph, group_cost: GroupCost) -> dict[int, str]:
    """Fuse along every edge that is legal, in topological order, whatever it costs: each group, and what stopped it.

    What an over-eager compiler does: a launch saved is always counted as a win, up to the limits of the settings. Only
    a group that cannot run at all is taken apart and grown again, this time refusing each step that breaks it.
    """
    quotient, broken = _grown(graph, group_cost, _fuse_edges)
    return {members: _stop(quotient, members, broken) for members in quotient.partition()}


def _fuse_edges(quotient: Quotient, among: int, can_run: CanRun) -> None:
    """Merge along the edges between these atoms, by their later end, then by their earlier one."""
    graph = quotient.graph
    for later in bits(among):
        for earlier in bits(graph.before[later] & among):
            merged = quotient.group(earlier) | quotient.group(later)
            if quotient.group(earlier) != merged:
                _join(quotient, merged, can_run)


def _stop(quotient: Quotient, members: int, broken: tuple[int, ...]) -> str:
    """Why the group does not go on along its first outgoing edge."""
    graph = quotient.graph
    outgoing = union(graph.after, members) & ~members
    if not outgoing:
        return "nothing reads it"
    following = next(bits(outgoing))
    merged = members | quotient.group(following)
    why = quotient.refusal(merged) or (TOO_LARGE if broken else "it was refused when the group was smaller")
    return f"stopped before {graph.name(following)}: {why}"

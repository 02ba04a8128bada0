"""Fusion of least modelled cost: dynamic programming over order ideals.

An order ideal is a set of atoms that holds with each atom everything that it waits for: what may have run so far. With
`best[{}] = 0`,

    best[J] = min over ideals I in J, J \\ I a legal group, of best[I] + cost(J \\ I)

is the least cost of running exactly J. Whatever stands between two nested ideals is convex, and taking groups off in
this order can never make two groups wait for each other, so the search ranges over all executable partitions into
legal groups and over nothing else.

Exact means: least over all partitions into legal groups of at most `exact_ops` launching ops, without recompute, and
over all mixtures of these with the (possibly larger) groups that policies pattern and aggressive propose. Where the
ideals outgrow `max_ideals`, the graph is cut at the places that everything passes; a stretch between two cuts that is
too wide is searched over the prefixes of several topological orders only, and the result says that it is not exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf

from accelmodel.fuse_greedy import GroupCost
from accelmodel.legality import AtomGraph, bits, refusal, union

# Connected sets looked at for each lowest atom, and for each ideal allowed in all, before the search says it is capped.
_SETS_PER_ATOM = 20_000
_SETS_PER_IDEAL = 20


@dataclass(frozen=True, slots=True)
class Found:
    """The partition found (sets of atoms, in an executable order), whether it is exact, and what was capped."""

    groups: tuple[int, ...]
    exact: bool
    notes: tuple[str, ...]


def optimal(graph: AtomGraph, group_cost: GroupCost, proposals: Sequence[tuple[int, ...]]) -> Found:
    """Least-cost partition; never worse than a proposal (an executable partition into legal groups) or all alone."""
    limit = min(graph.settings.exact_ops, graph.settings.max_ops)
    orders = topological_orders(graph, proposals)
    ideals, narrowed = order_ideals(graph, graph.settings.max_ideals, orders)
    groups, capped = connected_groups(graph, limit, graph.settings.max_ideals * _SETS_PER_IDEAL)
    found = {group for group in groups if not refusal(graph, group)}
    found.update(group for proposal in proposals for group in proposal)
    if narrowed or capped:
        found.update(group for order in orders for group in _intervals(graph, order, limit))
    costs = _costs(graph, sorted(found), group_cost)
    chosen = _least(graph, ideals, costs)
    notes = tuple(_notes(graph, limit, narrowed, capped, chosen))
    return Found(chosen, not (narrowed or capped), notes)


def _notes(graph: AtomGraph, limit: int, narrowed: str, capped: str, chosen: tuple[int, ...]) -> Iterable[str]:
    if narrowed:
        yield narrowed
    if capped:
        yield capped
    larger = [group for group in chosen if (group & graph.launching).bit_count() > limit]
    if larger:
        yield f"{len(larger)} groups of more than exact_ops = {limit} ops: pattern or aggressive proposes them"


# --- order ideals ---


def order_ideals(graph: AtomGraph, most: int, orders: Sequence[tuple[int, ...]]) -> tuple[dict[int, int], str]:
    """Ideals with what is ready after each, and a note where not all of them were taken ("" where they were)."""
    count = len(graph.atoms)
    ideals: dict[int, int] = {}
    narrow = 0
    cuts = [*cut_places(graph), count]
    for first, last in zip([0, *cuts], cuts, strict=False):
        room = most - len(ideals) - (count - last)  # what is left must at least hold one order of the rest
        stretch = _all_ideals(graph, first, last, room)
        if stretch is None:
            narrow += 1
            stretch = _prefixes(graph, first, last, orders)
        ideals.update(stretch)
    ideals[(1 << count) - 1] = 0
    if not narrow:
        return ideals, ""
    return ideals, (
        f"not exact: more than max_ideals = {most} order ideals; {narrow} of {len(cuts)} stretches were searched over "
        f"{len(orders)} topological orders only"
    )


def cut_places(graph: AtomGraph) -> list[int]:
    """Numbers c, ascending, such that every atom from c on waits for all atoms before c: every ideal passes here."""
    held = len(graph.atoms)
    places = []
    for atom in reversed(range(1, len(graph.atoms))):
        waits = graph.ancestors[atom]
        held = min(held, (~waits & (waits + 1)).bit_length() - 1)  # atoms 0..held-1 are all waited for
        if held >= atom:
            places.append(atom)
    return places[::-1]


def _all_ideals(graph: AtomGraph, first: int, last: int, most: int) -> dict[int, int] | None:
    """Ideals that hold all atoms before `first` and some of those before `last`; None where they are more than most."""
    inside = (1 << last) - (1 << first)
    start = (1 << first) - 1
    found = {start: _ready(graph, start)}
    waiting = deque(found)
    while waiting:
        ideal = waiting.popleft()
        for atom in bits(found[ideal] & inside):
            larger = ideal | 1 << atom
            if larger in found:
                continue
            opened = (new for new in bits(graph.after[atom]) if not graph.before[new] & ~larger)
            found[larger] = found[ideal] & ~(1 << atom) | sum(1 << new for new in opened)
            waiting.append(larger)
            if len(found) > max(most, 1):
                return None
    return found


def _prefixes(graph: AtomGraph, first: int, last: int, orders: Sequence[tuple[int, ...]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for order in orders:
        ideal = (1 << first) - 1
        for atom in (atom for atom in order if first <= atom < last):
            found[ideal] = _ready(graph, ideal)
            ideal |= 1 << atom
        found[ideal] = _ready(graph, ideal)
    return found


def _ready(graph: AtomGraph, ideal: int) -> int:
    return sum(
        1 << atom for atom in range(len(graph.atoms)) if not ideal >> atom & 1 and not graph.before[atom] & ~ideal
    )


def topological_orders(graph: AtomGraph, proposals: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Different orders that atoms can run in: as numbered, level by level, chain by chain, and group by group as each
    proposal would run."""
    count = len(graph.atoms)
    level = [0] * count
    for atom in range(count):
        level[atom] = max((level[source] + 1 for source in bits(graph.before[atom])), default=0)
    by_level = tuple(sorted(range(count), key=lambda atom: (level[atom], atom)))
    by_group = (tuple(a for group in run_order(graph, groups) for a in bits(group)) for groups in proposals)
    orders = (tuple(range(count)), by_level, _chain_by_chain(graph), *by_group)
    return tuple(dict.fromkeys(orders))


def _chain_by_chain(graph: AtomGraph) -> tuple[int, ...]:
    """Always go on with what the last atom made ready, if anything."""
    order: list[int] = []
    done = 0
    stack = list(bits(_ready(graph, 0)))[::-1]
    while stack:
        atom = stack.pop()
        order.append(atom)
        done |= 1 << atom
        stack.extend(new for new in list(bits(graph.after[atom]))[::-1] if not graph.before[new] & ~done)
    return tuple(order)


def run_order(graph: AtomGraph, groups: Iterable[int]) -> list[int]:
    """Groups of an executable partition, each after those that it waits for, by lowest atom where free to choose."""
    waiting = sorted(groups, key=lambda group: group & -group)
    order: list[int] = []
    done = 0
    while waiting:
        following = next(group for group in waiting if not union(graph.before, group) & ~group & ~done)
        order.append(following)
        done |= following
        waiting.remove(following)
    return order


# --- candidate groups ---


def connected_groups(graph: AtomGraph, limit: int, most: int) -> tuple[list[int], str]:
    """Convex sets that hang together and hold at most `limit` launching ops, and a note where some were not looked at.

    For each lowest atom, sets grow by one neighbour at a time, each connected set met once (its new neighbours are only
    those that no earlier member had). Neighbours are taken along and against the data flow and among siblings, and
    sets on the way need not be convex, so that groups joined only by a later op are found. A set whose convex hull is
    already too large is not grown further: hulls only grow.
    """
    found: list[int] = []
    capped = seen = 0
    for first in range(len(graph.atoms)):
        groups, looked_at = _grown_from(graph, first, limit, min(_SETS_PER_ATOM, most - seen))
        found.extend(groups)
        seen += looked_at
        capped += looked_at >= min(_SETS_PER_ATOM, most - seen + looked_at)
    note = f"not exact: groups that start at {capped} of {len(graph.atoms)} ops were too many to try all"
    return found, note if capped else ""


def _grown_from(graph: AtomGraph, first: int, limit: int, most: int) -> tuple[list[int], int]:
    above = -1 << (first + 1)
    start = 1 << first
    found: list[int] = []
    looked_at = 0
    near = graph.neighbours[first]
    growing = deque([(start, near & above, near | start, graph.descendants[first], graph.ancestors[first])])
    while growing and looked_at < most:
        members, offered, known, descendants, ancestors = growing.popleft()
        looked_at += 1
        if not descendants & ancestors & ~members:
            found.append(members)
        for atom in bits(offered):
            offered &= ~(1 << atom)
            larger = members | 1 << atom
            down, up = descendants | graph.descendants[atom], ancestors | graph.ancestors[atom]
            if ((larger | down & up) & graph.launching).bit_count() > limit:
                continue
            near = graph.neighbours[atom]
            growing.append((larger, offered | near & above & ~known, known | near, down, up))
    return found, looked_at


def _intervals(graph: AtomGraph, order: tuple[int, ...], limit: int) -> Iterable[int]:
    """Legal groups that are consecutive in the order (and convex for that)."""
    for start in range(len(order)):
        group = 0
        for atom in order[start:]:
            group |= 1 << atom
            if (group & graph.launching).bit_count() > limit:
                break
            if not refusal(graph, group):
                yield group


# --- dynamic programming ---


def _costs(graph: AtomGraph, groups: Iterable[int], group_cost: GroupCost) -> dict[int, float]:
    """Cost of each group that can run, and of each atom alone even where it cannot: then far more than all others
    together, so that such a group is chosen only where there is no way around it."""
    alone = [group_cost(ops) for ops in graph.atoms]
    prohibitive = 1e3 * (1.0 + sum(cost for cost in alone if not isinf(cost)))
    costs = {1 << atom: prohibitive if isinf(cost) else cost for atom, cost in enumerate(alone)}
    for group in groups:
        if group not in costs and not isinf(cost := group_cost(graph.ops(group))):
            costs[group] = cost
    return costs


def _least(graph: AtomGraph, ideals: dict[int, int], costs: dict[int, float]) -> tuple[int, ...]:
    """The partition that `best` of the full ideal stands for; at equal cost, the one with fewer groups."""
    by_first: list[list[tuple[int, int, float]]] = [[] for _ in graph.atoms]
    for group, cost in costs.items():
        by_first[(group & -group).bit_length() - 1].append((group, union(graph.before, group) & ~group, cost))
    best: dict[int, tuple[float, int]] = {0: (0.0, 0)}
    taken: dict[int, int] = {}
    for ideal in sorted(ideals, key=int.bit_count):
        if ideal not in best:
            continue  # an ideal of one order that no chain of candidate groups reaches
        spent, number = best[ideal]
        for first in bits(ideals[ideal]):  # the lowest atom of a group waits for nothing inside it: it is ready
            for group, waits, cost in by_first[first]:
                if waits & ideal != waits or group & ideal:
                    continue
                larger, total = ideal | group, (spent + cost, number + 1)
                if larger in ideals and (larger not in best or total < best[larger]):
                    best[larger], taken[larger] = total, group
    return _walk_back(taken, (1 << len(graph.atoms)) - 1)


def _walk_back(taken: dict[int, int], ideal: int) -> tuple[int, ...]:
    groups = []
    while ideal:
        groups.append(taken[ideal])
        ideal &= ~taken[ideal]
    return tuple(reversed(groups))

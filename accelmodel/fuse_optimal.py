"""Fusion of least modelled cost: dynamic programming over order ideals.

An order ideal is a set of atoms that holds with each atom everything that it waits for: what may have run so far. With
`best[{}] = 0`,

    best[J] = min over ideals I in J, J \\ I a legal group, of best[I] + cost(J \\ I)

is the least cost of running exactly J. Whatever stands between two nested ideals is convex, and taking groups off in
this order can never make two groups wait for each other, so the search ranges over all executable partitions into
legal groups and over nothing else.

Exact means: least over all partitions into legal groups of at most `exact_ops` launching ops, without recompute, and
over all mixtures of these with the (possibly larger) groups that policies pattern and aggressive propose. It is given
up, and said so, in four cases, all scaled by `max_ideals`: the ideals are more (a stretch that is too wide is then
searched over the prefixes of several topological orders only); the connected sets to look at are too many (intervals of
these orders are tried instead of all); so are the kinds of groups to compare (the largest groups are left out) or the
costs to ask (the result names its distance to the least).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from accelmodel.fuse_search import Costing, Walk, least_walk
from accelmodel.ideals import order_ideals, topological_orders
from accelmodel.legality import AtomGraph, bits, refusal

# Connected sets looked at from each lowest atom, and in all for each ideal allowed.
_SETS_PER_ATOM = 20_000
_SETS_PER_IDEAL = 20
# A group cost is a tile search, an ideal a few integers. Costs that may be asked beyond those of the proposals, and
# kinds of groups that may be compared: this many, or more where more ideals are allowed.
_COSTS, _IDEALS_PER_COST = 400, 10
_KINDS, _IDEALS_PER_KIND = 1000, 4


@dataclass(frozen=True, slots=True)
class Found:
    """The partition found (sets of atoms, in an executable order), whether it is exact, and what was capped."""

    groups: tuple[int, ...]
    exact: bool
    notes: tuple[str, ...]


def optimal(graph: AtomGraph, costing: Costing, proposals: Sequence[tuple[int, ...]]) -> Found:
    """Least-cost partition; never worse than a proposal (an executable partition into legal groups) or all alone."""
    limit, most = min(graph.settings.exact_ops, graph.settings.max_ops), graph.settings.max_ideals
    orders = topological_orders(graph, proposals)
    ideals, narrowed = order_ideals(graph, most, orders)
    groups, capped = connected_groups(graph, limit, most * _SETS_PER_IDEAL)
    legal, limit, left_out = _affordable(graph, [g for g in groups if not refusal(graph, g)], costing, limit)
    proposed = {group for proposal in proposals for group in proposal}
    at_once = proposed | {1 << atom for atom in range(len(graph.atoms))}
    found = at_once.union(legal)
    if narrowed or capped:
        found.update(group for order in orders for group in _intervals(graph, order, limit))
    walk = least_walk(graph, ideals, sorted(found), at_once, costing, max(_COSTS, most // _IDEALS_PER_COST))
    caps = tuple(filter(None, (narrowed, capped, left_out, _shortfall(graph, walk))))
    return Found(walk.groups, not caps, (*caps, *_larger(graph, walk, limit)))


def _affordable(
    graph: AtomGraph, groups: Sequence[int], costing: Costing, limit: int
) -> tuple[Sequence[int], int, str]:
    """The groups up to the size that keeps kinds of groups (those of one key) within bounds; that size; a note if it
    is below the limit. Small groups first: they say more about a plan than the many large ones that mix them."""
    allowed = max(_KINDS, graph.settings.max_ideals // _IDEALS_PER_KIND)
    by_size: dict[int, list[int]] = {}
    for group in groups:
        by_size.setdefault((group & graph.launching).bit_count(), []).append(group)
    kinds: set[Hashable] = set()
    for size in sorted(by_size):
        kinds.update(costing.key(graph.ops(group)) for group in by_size[size])
        if len(kinds) > allowed and size > 1:
            kept = [group for group in groups if (group & graph.launching).bit_count() < size]
            note = (
                f"not exact: groups of {size} ops and more were left out: with them, groups of more than "
                f"{allowed} different kinds (more with larger max_ideals) would have to be compared"
            )
            return kept, size - 1, note
    return groups, limit, ""


def _shortfall(graph: AtomGraph, walk: Walk) -> str:
    if not walk.shortfall:
        return ""
    return (
        "not exact: more group costs than max_ideals allows would be needed; the cost is at most "
        f"{walk.shortfall:.1%} above the least"
    )


def _larger(graph: AtomGraph, walk: Walk, limit: int) -> Iterable[str]:
    larger = [group for group in walk.groups if (group & graph.launching).bit_count() > limit]
    if larger:
        yield f"{len(larger)} groups of more than {limit} ops: pattern or aggressive proposes them"


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

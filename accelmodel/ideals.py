"""Order ideals of a graph of atoms: what may have run so far. A fusion search walks from one to a larger one.

An order ideal holds with each atom everything that it waits for. Chains have few, wide graphs have many. At a *cut*
every order of running the graph passes the same ideal, so ideals add up over the stretches between cuts, and a stretch
that has too many can be narrowed without touching the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from accelmodel.legality import AtomGraph, bits, union


def order_ideals(graph: AtomGraph, most: int, orders: Sequence[tuple[int, ...]]) -> tuple[dict[int, int], str]:
    """Ideals with what is ready after each, and a note where not all of them were taken ("" where they were)."""
    count = len(graph.atoms)
    ideals: dict[int, int] = {}
    narrow = 0
    cuts = [*cut_places(graph), count]
    for first, last in zip([0, *cuts], cuts, strict=False):
        known = 1 if first else 0  # the ideal at the cut belongs to the stretch before as well
        room = most + known - len(ideals) - (count - last)  # what is left must at least hold one order of the rest
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

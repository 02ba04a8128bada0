"""What may be one group, asked of bit sets.

The unit here is the *atom*: one launching op together with the views that ride with it. A view launches nothing and
moves nothing, so it never decides a boundary: it rides with its producer, else with its only consumer, else it stands
alone. Sets of atoms are Python integers, bit i for atom i; atoms are numbered in topological order.

A set of atoms may be one group where it
  * is convex: no path leaves it and comes back (else the group would wait for itself);
  * hangs together: by data flow, or as siblings that read the same activation;
  * holds at most `max_ops` launching ops and touches at most `max_external_tensors` tensors from outside;
  * holds no fallback op beside another op, and no op of `split_before` beside an op that feeds it.
One atom alone is always a group. That the groups of a plan can be ordered at all (no cycle between them) is a
property of the whole partition: see `fuse_greedy.Quotient` and the order ideals of `fuse_optimal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from accelmodel.plan import Lowered
from accelmodel.settings import FusionSettings


@dataclass(frozen=True, slots=True)
class AtomGraph:
    """Atoms and how they depend on one another. Every field below `main` is indexed by atom, or is a set of atoms,
    unless it says `storage`: those are indexed by (or are sets of) the distinct memories behind the tensors.

    atoms: op indices, ascending. main: the launching op of the atom (its last view where it has none).
    before, after: direct and, as `ancestors` and `descendants`, all that it waits for and that wait for it.
    neighbours: atoms that it hangs together with; empty for an atom that must be alone.
    fed_by_split: atoms that feed an op of `split_before` in this one. launching: atoms that launch a kernel.
    reads, makes: storages that the atom touches from outside itself, and that it writes first.
    readers: atoms that read this storage. kept: storages that are outputs of the graph.
    """

    lowered: Lowered
    settings: FusionSettings
    atoms: tuple[tuple[int, ...], ...]
    main: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]
    neighbours: tuple[int, ...]
    fed_by_split: tuple[int, ...]
    launching: int
    alone: int
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    readers: tuple[int, ...]
    kept: int

    def ops(self, members: int) -> tuple[int, ...]:
        """Ascending op indices of a set of atoms."""
        return tuple(sorted(op for atom in bits(members) for op in self.atoms[atom]))

    def kind(self, atom: int) -> str:
        return self.lowered.ops[self.main[atom]].kind

    def name(self, atom: int) -> str:
        return self.lowered.ops[self.main[atom]].name


def bits(members: int) -> Iterator[int]:
    """Positions of the bits that are set, ascending."""
    while members:
        low = members & -members
        yield low.bit_length() - 1
        members ^= low


def union(table: Sequence[int], members: int) -> int:
    """Union of the sets that `table` holds for the members."""
    result = 0
    for member in bits(members):
        result |= table[member]
    return result


def refusal(graph: AtomGraph, members: int) -> str:
    """Why these atoms may not be one group; "" where they may."""
    if members & (members - 1) == 0:
        return ""
    settings = graph.settings
    if members & graph.alone:
        return "a fallback op runs alone"
    if (members & graph.launching).bit_count() > settings.max_ops:
        return f"more than max_ops = {settings.max_ops} ops"
    if union(graph.ancestors, members) & union(graph.descendants, members) & ~members:
        return "a path leaves the group and comes back"
    if union(graph.fed_by_split, members) & members:
        return "split_before asks for a boundary here"
    if not hangs_together(graph, members):
        return "no data flows between its parts"
    if external_tensors(graph, members) > settings.max_external_tensors:
        return f"more than max_external_tensors = {settings.max_external_tensors} tensors from outside"
    return ""


def hangs_together(graph: AtomGraph, members: int) -> bool:
    """One piece, by data flow between its members or by a tensor that siblings read."""
    reached = frontier = members & -members
    while frontier:
        frontier = union(graph.neighbours, frontier) & members & ~reached
        reached |= frontier
    return reached == members


def external_tensors(graph: AtomGraph, members: int) -> int:
    """Distinct memories that the group reads from outside (weights too) or writes for outside."""
    made = union(graph.makes, members)
    read = union(graph.reads, members) & ~made
    written = sum(1 for storage in bits(made) if graph.kept >> storage & 1 or graph.readers[storage] & ~members)
    return read.bit_count() + written


# --- building the graph of atoms ---


def atom_graph(lowered: Lowered, settings: FusionSettings) -> AtomGraph:
    """Atoms of a lowered graph and their relations under these settings."""
    feeds = _feeds(lowered)
    atoms, main = _atoms(lowered, feeds, frozenset(settings.split_before))
    atom_of = {op: number for number, ops in enumerate(atoms) for op in ops}
    before = tuple(_set(atom_of[p] for op in ops for p in feeds[op]) & ~(1 << i) for i, ops in enumerate(atoms))
    after = _transposed(before)
    ancestors, descendants = _closure(before, range(len(atoms))), _closure(after, reversed(range(len(atoms))))
    kinds = [lowered.ops[op].kind for op in main]
    alone = _set(i for i, kind in enumerate(kinds) if kind == "fallback")
    storages = _storages(lowered, atoms)
    readers = _transposed(storages.reads, storages.count)
    siblings = _siblings(storages, readers, ancestors, descendants)
    return AtomGraph(
        lowered=lowered, settings=settings, atoms=atoms, main=main, before=before, after=after,
        ancestors=ancestors, descendants=descendants,
        neighbours=tuple(
            0 if alone >> i & 1 else (before[i] | after[i] | siblings[i]) & ~alone for i in range(len(atoms))
        ),
        fed_by_split=_fed_by_split(lowered, settings, feeds, atoms, atom_of),
        launching=_set(i for i, kind in enumerate(kinds) if kind != "view"),
        alone=alone, reads=storages.reads, makes=storages.makes, readers=readers, kept=storages.kept,
    )  # fmt: skip


def storage_of(lowered: Lowered, tensor: str) -> str:
    """The tensor whose memory this one ends up in, through any chain of views."""
    while (owner := lowered.storage[tensor]) != tensor:
        tensor = owner
    return tensor


def _feeds(lowered: Lowered) -> tuple[tuple[int, ...], ...]:
    """Ops that make an input of each op, ascending."""
    producers = lowered.graph.producers()
    return tuple(
        tuple(sorted({producers[name] for name in op.inputs if name in producers})) for op in lowered.graph.ops
    )


def _atoms(
    lowered: Lowered, feeds: tuple[tuple[int, ...], ...], split: frozenset[str]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Members and main op of each atom, in topological order (that of the main ops)."""
    home = list(range(len(feeds)))  # op -> the op whose atom it is in
    for op, sources in enumerate(feeds):
        homes = {home[source] for source in sources}
        rides = lowered.ops[op].kind == "view" and len(homes) == 1 and lowered.ops[op].name not in split
        if rides and lowered.ops[min(homes)].kind != "fallback":
            home[op] = min(homes)
    for op in reversed(range(len(feeds))):  # last views first, so that a chain of them moves as one
        if home[op] == op and lowered.ops[op].kind == "view":
            _join_consumer(lowered, feeds, split, home, op)
    members: dict[int, list[int]] = {}
    for op, main in enumerate(home):
        members.setdefault(main, []).append(op)
    order = sorted(members)
    return tuple(tuple(members[main]) for main in order), tuple(order)


def _join_consumer(
    lowered: Lowered, feeds: tuple[tuple[int, ...], ...], split: frozenset[str], home: list[int], view: int
) -> None:
    """Let the views of one atom ride with the only atom that reads them, where it has one and that is allowed."""
    inside = {op for op, main in enumerate(home) if main == view}
    readers = [op for op in range(len(feeds)) if op not in inside and inside & set(feeds[op])]
    homes = {home[op] for op in readers}
    if len(homes) != 1 or any(lowered.ops[op].name in split for op in readers):
        return
    target = min(homes)
    if lowered.ops[target].kind == "fallback":
        return
    for op in inside:
        home[op] = target


def _fed_by_split(
    lowered: Lowered,
    settings: FusionSettings,
    feeds: tuple[tuple[int, ...], ...],
    atoms: tuple[tuple[int, ...], ...],
    atom_of: dict[int, int],
) -> tuple[int, ...]:
    split = frozenset(settings.split_before)
    return tuple(
        _set(
            atom_of[source] for op in ops if lowered.ops[op].name in split for source in feeds[op] if source not in ops
        )
        for ops in atoms
    )


@dataclass(frozen=True, slots=True)
class _Storages:
    """What each atom reads from outside itself and makes, and which storages hold graph outputs or weights."""

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    kept: int
    weights: int
    count: int


def _storages(lowered: Lowered, atoms: tuple[tuple[int, ...], ...]) -> _Storages:
    number: dict[str, int] = {}

    def storage(tensor: str) -> int:
        return number.setdefault(storage_of(lowered, tensor), len(number))

    reads, makes = [], []
    for ops in atoms:
        made = _set(storage(w.tensor) for op in ops if lowered.ops[op].kind != "view" for w in lowered.ops[op].writes)
        read = _set(storage(r.tensor) for op in ops for r in lowered.ops[op].reads)
        reads.append(read & ~made)
        makes.append(made)
    kept = _set(storage(name) for name in lowered.graph.outputs)
    weights = _set(i for name, i in number.items() if lowered.graph.tensors[name].role == "weight")
    return _Storages(tuple(reads), tuple(makes), kept, weights, len(number))


def _siblings(
    storages: _Storages, readers: tuple[int, ...], ancestors: tuple[int, ...], descendants: tuple[int, ...]
) -> tuple[int, ...]:
    """Atoms that read the same activation and wait for neither each other. A shared weight makes no siblings: reading
    the same scale or table is no reason to run two unrelated ops together. Where one waits for the other, a convex
    group holds the path between them anyway."""
    return tuple(
        union(readers, read & ~storages.weights) & ~(ancestors[i] | descendants[i] | 1 << i)
        for i, read in enumerate(storages.reads)
    )


def _set(members: Iterable[int]) -> int:
    result = 0
    for member in members:
        result |= 1 << member
    return result


def _closure(direct: tuple[int, ...], order: Iterable[int]) -> tuple[int, ...]:
    """All that is reached through `direct`; `order` visits each atom after those that it reaches."""
    result = [0] * len(direct)
    for atom in order:
        result[atom] = direct[atom] | union(result, direct[atom])
    return tuple(result)


def _transposed(table: tuple[int, ...], width: int | None = None) -> tuple[int, ...]:
    """Columns of a table of bit sets: result[j] holds i where table[i] holds j."""
    result = [0] * (len(table) if width is None else width)
    for i, row in enumerate(table):
        for j in bits(row):
            result[j] |= 1 << i
    return tuple(result)

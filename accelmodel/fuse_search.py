"""The walk of least cost from the empty ideal to the full one, each step a group.

The cost of a group is dear (a tile search), so it is asked only where it matters. Every group starts with a lower bound
of its cost; the best walk under these values is found by dynamic programming; the groups on it are told more exactly;
and so on until a walk is best on costs alone. No other walk's bounds are lower then, so none is cheaper: the result is
exact. Where too many costs would be needed, the best walk over the groups whose costs are known is returned, with the
proven distance to the least.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf

import numpy as np
import numpy.typing as npt

from accelmodel.legality import AtomGraph, bits, union

_FLOOR_SHARE = 0.125  # what asking for a floor counts, in costs
_LAST_ROUNDS = 8

Ops = tuple[int, ...]
GroupCost = Callable[[Ops], float]
GroupKey = Callable[[Ops], Hashable]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Costing:
    """What groups cost, ns. cost: infinite where a group cannot run. floors: lower bounds of it, each dearer to ask
    and tighter than the one before. key: equal for groups that cost the same, so that one answer serves them all."""

    cost: GroupCost
    floors: tuple[GroupCost, ...] = ()
    key: GroupKey = lambda ops: ops


@dataclass(frozen=True, slots=True)
class Walk:
    """groups: sets of atoms, in order. shortfall: the most by which the cost may exceed the least, as a share of the
    least; 0 where it is the least."""

    groups: tuple[int, ...]
    shortfall: float


def least_walk(
    graph: AtomGraph,
    ideals: Mapping[int, int],
    groups: Sequence[int],
    first: Iterable[int],
    costing: Costing,
    most: int,
) -> Walk:
    """The walk of least cost; at equal cost, one with fewest groups.

    ideals: ideal -> what is ready after it. groups: candidates, every atom alone among them. first: candidates whose
    cost is asked at once and that a walk can be made of. most: how much may be asked beyond these, counted in costs
    (groups of one key count once, a floor counts a part).
    """
    steps = _steps(graph, ideals, groups)
    told = _Told(graph, groups, costing)
    told.ask(told.kinds_of(first), to_cost=True)
    allowed, last_rounds = told.spent + most, _LAST_ROUNDS
    while True:
        walk, value = _best(steps, told.values())
        unsure = told.unsure(walk)
        if not unsure:
            return Walk(tuple(groups[i] for i in walk), 0.0)
        if told.spent >= allowed:  # a few straight questions more, so that what looks best does not go unasked
            last_rounds -= 1
        if last_rounds < 0:
            break
        told.ask(unsure, to_cost=last_rounds < _LAST_ROUNDS)
    walk, found = _best(steps, told.values(costs_only=True))
    return Walk(tuple(groups[i] for i in walk), found / value - 1.0 if value > 0 else inf)


class _Told:
    """What has been told about each kind of group (the groups of one key). Local to one search.

    kind: [groups] number of the kind. sample: ops of one group of each kind. value: [kinds] what is known of its cost;
    rung: [kinds] by which floor, len(floors) where it is the cost. spent: what has been asked, counted in costs; the
    first floor of each kind is free.
    """

    def __init__(self, graph: AtomGraph, groups: Sequence[int], costing: Costing) -> None:
        numbers: dict[Hashable, int] = {}
        self.sample: list[Ops] = []
        self.single: list[bool] = []
        self.position = {group: i for i, group in enumerate(groups)}
        self.kind = np.zeros(len(groups), np.int64)
        for i, group in enumerate(groups):
            ops = graph.ops(group)
            self.kind[i] = numbers.setdefault(costing.key(ops), len(numbers))
            if len(numbers) > len(self.sample):
                self.sample.append(ops)
                self.single.append(group & (group - 1) == 0)
        self.ladder = (*costing.floors, costing.cost)
        self.value = np.zeros(len(self.sample))
        self.rung = np.full(len(self.sample), -1)
        self.spent = 0.0
        self.ask(range(len(self.sample)))

    def kinds_of(self, groups: Iterable[int]) -> list[int]:
        return sorted({int(self.kind[self.position[group]]) for group in groups})

    def ask(self, kinds: Iterable[int], to_cost: bool = False) -> None:
        """Go one rung up, or to the cost."""
        top = len(self.ladder) - 1
        for kind in kinds:
            if self.rung[kind] == top:
                continue
            self.rung[kind] = top if to_cost else self.rung[kind] + 1
            told = self.ladder[self.rung[kind]](self.sample[kind])
            self.value[kind] = max(told, self.value[kind]) if self.rung[kind] < top else told
            self.spent += 1.0 if self.rung[kind] == top else _FLOOR_SHARE if self.rung[kind] else 0.0

    def unsure(self, walk: Sequence[int]) -> list[int]:
        """Kinds on the walk whose cost is not known."""
        return sorted({int(self.kind[i]) for i in walk if self.rung[self.kind[i]] < len(self.ladder) - 1})

    def values(self, costs_only: bool = False) -> FloatArray:
        """[groups] What to walk by; with costs_only, groups whose cost is not known are out of bounds.

        An atom alone that cannot run is given far more than all others together: it is walked over only where there is
        no way around it.
        """
        value = np.where(self.rung < len(self.ladder) - 1, np.inf, self.value) if costs_only else self.value.copy()
        single = np.array(self.single, bool)
        able = single & np.isfinite(value)
        value[single & ~np.isfinite(value)] = 1e3 * (1.0 + len(self.kind) * value[able].sum())
        walked: FloatArray = value[self.kind]
        return walked


@dataclass(frozen=True, slots=True)
class _Steps:
    """All steps from one ideal to a larger one, by size of the larger one, then by it.

    source, target, group: [steps] numbers of ideals (by size) and of the candidate group. levels: for each size, its
    range of steps and, within that, where the steps to each ideal begin.
    """

    ideals: int
    source: IntArray
    target: IntArray
    group: IntArray
    levels: tuple[tuple[int, int, IntArray], ...]


def _steps(graph: AtomGraph, ideals: Mapping[int, int], groups: Sequence[int]) -> _Steps:
    by_first: list[list[tuple[int, int, int]]] = [[] for _ in graph.atoms]
    for i, group in enumerate(groups):
        by_first[(group & -group).bit_length() - 1].append((group, union(graph.before, group) & ~group, i))
    order = sorted(ideals, key=lambda ideal: (ideal.bit_count(), ideal))
    number = {ideal: i for i, ideal in enumerate(order)}
    found: list[tuple[int, int, int]] = []
    for source, ideal in enumerate(order):
        for atom in bits(ideals[ideal]):  # the lowest atom of a group waits for nothing inside it: it is ready
            for group, waits, i in by_first[atom]:
                if waits & ideal == waits and not group & ideal and (target := number.get(ideal | group)) is not None:
                    found.append((target, source, i))
    table = np.array(sorted(found), np.int64).reshape(-1, 3)
    size = np.array([ideal.bit_count() for ideal in order], np.int64)
    return _Steps(len(order), table[:, 1], table[:, 0], table[:, 2], tuple(_levels(table[:, 0], size)))


def _levels(target: IntArray, size: IntArray) -> Iterable[tuple[int, int, IntArray]]:
    begin = 0
    for _, steps in groupby(size[target].tolist()):
        end = begin + len(list(steps))
        here = target[begin:end]
        yield begin, end, np.flatnonzero(np.r_[True, here[1:] != here[:-1]])
        begin = end


def _best(steps: _Steps, value: FloatArray) -> tuple[list[int], float]:
    """Groups of the best walk under these values, and its value."""
    best, count = np.full(steps.ideals, np.inf), np.zeros(steps.ideals, np.int64)
    taken = np.full(steps.ideals, -1)
    best[0] = 0.0
    worst = np.iinfo(np.int64).max
    for begin, end, starts in steps.levels:
        source, here = steps.source[begin:end], steps.target[begin:end][starts]
        lengths = np.diff(np.r_[starts, end - begin])
        total = best[source] + value[steps.group[begin:end]]
        best[here] = np.minimum.reduceat(total, starts)
        groups = np.where(total == np.repeat(best[here], lengths), count[source] + 1, worst)
        count[here] = np.minimum.reduceat(groups, starts)
        step = np.where(groups == np.repeat(count[here], lengths), np.arange(begin, end), worst)
        taken[here] = np.minimum.reduceat(step, starts)
    walk, at = [], steps.ideals - 1
    while at:
        walk.append(int(steps.group[taken[at]]))
        at = int(steps.source[taken[at]])
    return walk[::-1], float(best[-1])

"""Independent checker of groupings: partition, order, convexity, connection, limits. See check.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from accelmodel.plan import Grouping, Lowered
from accelmodel.settings import FusionSettings


def check_grouping(lowered: Lowered, grouping: Grouping, settings: FusionSettings | None = None) -> tuple[str, ...]:
    """Every op in exactly one group, names unique, groups runnable in their order, convex, connected, fallback ops
    alone; with settings given, their limits and `split_before` too."""
    problems = list(_partition_problems(lowered, grouping))
    if problems:
        return tuple(problems)  # the questions below make sense only of a partition
    facts = _facts(lowered)
    problems += _order_problems(facts, grouping)
    for group in grouping.groups:
        inside = frozenset(group.ops)
        if len(inside) > 1:
            problems += (f"fusion: group {group.name}: {text}" for text in _group_problems(facts, inside))
        if len(inside) > 1 and settings is not None:
            problems += (f"fusion: group {group.name}: {text}" for text in _limit_problems(facts, inside, settings))
    return tuple(problems)


@dataclass(frozen=True, slots=True)
class _Facts:
    """Of each op: its name, kind, the ops that it waits for, the memories that it reads and makes (views make none).
    Of each memory: the ops that read it, whether it is a weight or leaves the graph."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    sources: tuple[frozenset[int], ...]
    reads: tuple[frozenset[str], ...]
    makes: tuple[frozenset[str], ...]
    readers: dict[str, set[int]]
    weights: frozenset[str]
    kept: frozenset[str]


def _facts(lowered: Lowered) -> _Facts:
    maker: dict[str, int] = {}
    for number, op in enumerate(lowered.graph.ops):
        maker.update(dict.fromkeys(op.outputs, number))
    reads = tuple(frozenset(_memory(lowered, access.tensor) for access in op.reads) for op in lowered.ops)
    writes = tuple(frozenset(_memory(lowered, access.tensor) for access in op.writes) for op in lowered.ops)
    readers: dict[str, set[int]] = {}
    for number, memories in enumerate(reads):
        for memory in memories:
            readers.setdefault(memory, set()).add(number)
    return _Facts(
        names=tuple(op.name for op in lowered.ops),
        kinds=tuple(op.kind for op in lowered.ops),
        sources=tuple(frozenset(maker[name] for name in op.inputs if name in maker) for op in lowered.graph.ops),
        reads=reads,
        makes=tuple(frozenset() if op.kind == "view" else w for op, w in zip(lowered.ops, writes, strict=True)),
        readers=readers,
        weights=frozenset(name for name, tensor in lowered.graph.tensors.items() if tensor.role == "weight"),
        kept=frozenset(_memory(lowered, name) for name in lowered.graph.outputs),
    )


def _memory(lowered: Lowered, tensor: str) -> str:
    while lowered.storage[tensor] != tensor:
        tensor = lowered.storage[tensor]
    return tensor


def _partition_problems(lowered: Lowered, grouping: Grouping) -> Iterator[str]:
    times = dict.fromkeys(range(len(lowered.ops)), 0)
    seen: set[str] = set()
    for group in grouping.groups:
        if group.name in seen:
            yield f"fusion: two groups are named {group.name}"
        seen.add(group.name)
        if not group.ops or list(group.ops) != sorted(set(group.ops)):
            yield f"fusion: group {group.name}: expected ascending op indices, found {group.ops}"
        for op in group.ops:
            if op not in times:
                yield f"fusion: group {group.name}: there is no op {op}"
            else:
                times[op] += 1
    for op, count in times.items():
        if count != 1:
            yield f"fusion: op {lowered.ops[op].name} is in {count} groups, expected exactly one"


def _order_problems(facts: _Facts, grouping: Grouping) -> Iterator[str]:
    """A group that runs before what it reads is made: also what a cycle between groups comes down to."""
    place = {op: number for number, group in enumerate(grouping.groups) for op in group.ops}
    for group in grouping.groups:
        late = sorted(s for op in group.ops for s in facts.sources[op] if place[s] > place[op])
        if late:
            yield f"fusion: group {group.name} runs before op {facts.names[late[0]]}, which it reads"


def _group_problems(facts: _Facts, inside: frozenset[int]) -> Iterator[str]:
    fallback = [facts.names[op] for op in sorted(inside) if facts.kinds[op] == "fallback"]
    if fallback:
        yield f"fallback op {fallback[0]} is not alone"
    returning = _returning(facts, inside)
    if returning is not None:
        yield f"not convex: a path through {facts.names[returning]} leaves the group and comes back"
    if not _connected(facts, inside):
        yield "not connected, by data flow or by an activation that its parts read"


def _returning(facts: _Facts, inside: frozenset[int]) -> int | None:
    """An op outside that waits for the group and that the group waits for."""
    waits: set[int] = set()  # ops outside that the group waits for
    first = min(inside)  # ops are in topological order: what comes before cannot wait for the group
    ahead = [s for op in sorted(inside) for s in facts.sources[op] if s not in inside]
    while ahead:
        op = ahead.pop()
        if op in waits or op < first:
            continue
        waits.add(op)
        if facts.sources[op] & inside:
            return op
        ahead.extend(facts.sources[op])
    return None


def _connected(facts: _Facts, inside: frozenset[int]) -> bool:
    links: dict[int, set[int]] = {op: set() for op in inside}
    for a, b in combinations(sorted(inside), 2):
        if a in facts.sources[b] or facts.reads[a] & facts.reads[b] - facts.weights:
            links[a].add(b)
            links[b].add(a)
    reached: set[int] = set()
    ahead = [min(inside)]
    while ahead:
        op = ahead.pop()
        if op not in reached:
            reached.add(op)
            ahead.extend(links[op])
    return reached == inside


def _limit_problems(facts: _Facts, inside: frozenset[int], settings: FusionSettings) -> Iterator[str]:
    for op in sorted(inside):
        if facts.names[op] in settings.split_before and facts.sources[op] & inside:
            yield f"holds {facts.names[op]}, which split_before names, together with an op that feeds it"
    launching = [op for op in inside if facts.kinds[op] != "view"]
    if len(launching) < 2:
        return  # the limits bind what is fused: one op with its views is always a group
    if len(launching) > settings.max_ops:
        yield f"{len(launching)} ops, the limit max_ops is {settings.max_ops}"
    crossing = len(_crossing(facts, inside))
    if crossing > settings.max_external_tensors:
        yield f"{crossing} tensors from outside, the limit max_external_tensors is {settings.max_external_tensors}"


def _crossing(facts: _Facts, inside: frozenset[int]) -> set[tuple[str, str]]:
    """Memories that cross the group's boundary, each with its direction."""
    made = {memory for op in inside for memory in facts.makes[op]}
    read = {memory for op in inside for memory in facts.reads[op]}
    handed_on = {memory for memory in made if memory in facts.kept or facts.readers.get(memory, set()) - inside}
    return {(memory, "in") for memory in read - made} | {(memory, "out") for memory in handed_on}

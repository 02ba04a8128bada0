"""Independent checkers: do a grouping, a placement, a plan and a timeline keep their promises?

They share no code with what made these, and work the plain way: sets, loops, arithmetic from the definitions. Each
returns a tuple of problems, one sentence each, empty where all is well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from accelmodel.plan import Buffer, Grouping, Lowered, Placement
from accelmodel.settings import FusionSettings

# --- grouping ---


def check_grouping(lowered: Lowered, grouping: Grouping, settings: FusionSettings | None = None) -> tuple[str, ...]:
    """Every op in exactly one group, names unique, groups runnable in their order, convex, connected, fallback ops
    alone; with settings given, their limits and `split_before` too."""
    problems = list(_partition_problems(lowered, grouping))
    if problems:
        return tuple(problems)  # the questions below make sense only of a partition
    problems += _order_problems(lowered, grouping)
    sources = _sources(lowered)
    for group in grouping.groups:
        inside = frozenset(group.ops)
        if len(inside) > 1:
            problems += (f"fusion: group {group.name}: {text}" for text in _group_problems(lowered, sources, inside))
        if len(inside) > 1 and settings is not None:
            limits = _limit_problems(lowered, sources, inside, settings)
            problems += (f"fusion: group {group.name}: {text}" for text in limits)
    return tuple(problems)


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
            times[op] = times.get(op, 0) + 1
    for op, count in times.items():
        if count != 1 and op < len(lowered.ops):
            yield f"fusion: op {lowered.ops[op].name} is in {count} groups, expected exactly one"


def _sources(lowered: Lowered) -> list[set[int]]:
    """Ops whose results each op reads."""
    maker: dict[str, int] = {}
    for number, op in enumerate(lowered.graph.ops):
        maker.update(dict.fromkeys(op.outputs, number))
    return [{maker[name] for name in op.inputs if name in maker} for op in lowered.graph.ops]


def _order_problems(lowered: Lowered, grouping: Grouping) -> Iterator[str]:
    """A group that runs before what it reads is made: also what a cycle between groups comes down to."""
    sources = _sources(lowered)
    place = {op: number for number, group in enumerate(grouping.groups) for op in group.ops}
    for group in grouping.groups:
        late = [s for op in group.ops for s in sources[op] if place[s] > place[op]]
        if late:
            yield f"fusion: group {group.name} runs before op {lowered.ops[late[0]].name}, which it reads"


def _group_problems(lowered: Lowered, sources: list[set[int]], inside: frozenset[int]) -> Iterator[str]:
    fallback = [lowered.ops[op].name for op in inside if lowered.ops[op].kind == "fallback"]
    if fallback:
        yield f"fallback op {fallback[0]} is not alone"
    returning = _returning(sources, inside)
    if returning is not None:
        yield f"not convex: a path through {lowered.ops[returning].name} leaves the group and comes back"
    if not _connected(lowered, sources, inside):
        yield "not connected, by data flow or by an activation that its parts read"


def _returning(sources: list[set[int]], inside: frozenset[int]) -> int | None:
    """An op outside that waits for the group and that the group waits for."""
    waits: set[int] = set()  # ops outside that the group waits for
    ahead = [s for op in inside for s in sources[op] if s not in inside]
    while ahead:
        op = ahead.pop()
        if op in waits:
            continue
        waits.add(op)
        if sources[op] & inside:
            return op
        ahead.extend(sources[op])
    return None


def _connected(lowered: Lowered, sources: list[set[int]], inside: frozenset[int]) -> bool:
    def read(op: int) -> set[str]:
        names = {_memory(lowered, access.tensor) for access in lowered.ops[op].reads}
        return {name for name in names if lowered.graph.tensors[name].role != "weight"}

    links: dict[int, set[int]] = {op: set() for op in inside}
    for a, b in combinations(sorted(inside), 2):
        if a in sources[b] or b in sources[a] or read(a) & read(b):
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


def _memory(lowered: Lowered, tensor: str) -> str:
    while lowered.storage[tensor] != tensor:
        tensor = lowered.storage[tensor]
    return tensor


def _limit_problems(
    lowered: Lowered, sources: list[set[int]], inside: frozenset[int], settings: FusionSettings
) -> Iterator[str]:
    for op in inside:
        if lowered.ops[op].name in settings.split_before and sources[op] & inside:
            yield f"holds {lowered.ops[op].name}, which split_before names, together with an op that feeds it"
    launching = [op for op in inside if lowered.ops[op].kind != "view"]
    if len(launching) < 2:
        return  # limits bind what is fused: one op with its views is always a group
    if len(launching) > settings.max_ops:
        yield f"{len(launching)} ops, the limit max_ops is {settings.max_ops}"
    external = len(_external(lowered, inside))
    if external > settings.max_external_tensors:
        yield f"{external} tensors from outside, the limit max_external_tensors is {settings.max_external_tensors}"


def _external(lowered: Lowered, inside: frozenset[int]) -> set[tuple[str, str]]:
    """Memories that cross the group's boundary, each with its direction."""
    made = {
        _memory(lowered, access.tensor)
        for op in inside
        if lowered.ops[op].kind != "view"
        for access in lowered.ops[op].writes
    }
    read = {_memory(lowered, access.tensor) for op in inside for access in lowered.ops[op].reads}
    outside = {
        _memory(lowered, access.tensor)
        for number, op in enumerate(lowered.ops)
        if number not in inside
        for access in op.reads
    }
    kept = outside | {_memory(lowered, name) for name in lowered.graph.outputs}
    return {(name, "in") for name in read - made} | {(name, "out") for name in made & kept}


# --- placement ---


def check_placement(placement: Placement, alignment_bytes: int = 1) -> tuple[str, ...]:
    """No two buffers in one place at one time, all aligned and below the capacity, and the figures as they must be."""
    return tuple(
        f"placement: group {placement.group}: {text}" for text in _placement_problems(placement, alignment_bytes)
    )


def _placement_problems(placement: Placement, alignment_bytes: int) -> Iterator[str]:
    for item in placement.placed:
        name, top = item.buffer.name, item.offset_bytes + item.buffer.size_bytes
        if item.offset_bytes < 0 or item.offset_bytes % alignment_bytes:
            yield f"buffer {name} at {item.offset_bytes}: expected a multiple of {alignment_bytes}, 0 or more"
        if top > placement.capacity_bytes:
            yield f"buffer {name} ends at {top}, above the capacity of {placement.capacity_bytes}"
        if item.buffer.size_bytes < 0 or item.buffer.end < item.buffer.start:
            yield f"buffer {name}: size {item.buffer.size_bytes}, lifetime {item.buffer.start} to {item.buffer.end}"
    for a, b in combinations(placement.placed, 2):
        together = max(a.buffer.start, b.buffer.start) < min(a.buffer.end, b.buffer.end)
        low = max(a.offset_bytes, b.offset_bytes)
        high = min(a.offset_bytes + a.buffer.size_bytes, b.offset_bytes + b.buffer.size_bytes)
        if together and low < high:
            yield f"buffers {a.buffer.name} and {b.buffer.name} share bytes {low} to {high} while both live"
    yield from _placement_figures(placement)


def _placement_figures(placement: Placement) -> Iterator[str]:
    tops = [item.offset_bytes + item.buffer.size_bytes for item in placement.placed]
    if placement.height_bytes != max(tops, default=0):
        yield f"height {placement.height_bytes}, but the highest buffer ends at {max(tops, default=0)}"
    kept = _peak_bytes([item.buffer for item in placement.placed])
    everything = _peak_bytes([*(item.buffer for item in placement.placed), *placement.spilled])
    if placement.lower_bound_bytes != everything:
        yield f"lower bound {placement.lower_bound_bytes}, but {everything} bytes live at once"
    if placement.height_bytes < kept:
        yield f"height {placement.height_bytes} is below the {kept} bytes that live at once"
    if placement.placement_spill_bytes < 0 or (placement.placement_spill_bytes and not placement.spilled):
        yield f"spill traffic of {placement.placement_spill_bytes} bytes with {len(placement.spilled)} buffers spilled"
    if placement.spilled and everything <= placement.capacity_bytes and not placement.placement_spill_bytes:
        yield "buffers are spilled and nothing is charged for them"


def _peak_bytes(buffers: list[Buffer]) -> int:
    """The most bytes live at one step, counted step by step."""
    steps = {b.start for b in buffers}
    return max((sum(b.size_bytes for b in buffers if b.start <= step < b.end) for step in steps), default=0)

"""What a group reads from outside, makes, and hands on.

Everything is counted by *storage*: views alias their input, so two names of the same memory are one. Steps are the
positions of the group's ops in `Group.ops`, views included; buffers count their lifetimes in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from accelmodel.plan import Group, Lowered, LoweredOp


@dataclass(frozen=True, slots=True)
class Boundary:
    """The edge of one group.

    ops: the group's lowered ops by step. made: storage -> step that makes it. external: storages read but not made
    here, in order of first read. outputs: storages made here that a later op outside reads or the graph returns.
    readers: storage -> steps of the non-view ops that read it. root: step of the op that writes the output with most
    elements, the last one among equals; -1 where the group holds views only.
    """

    lowered: Lowered
    group: Group
    ops: tuple[LoweredOp, ...]
    made: Mapping[str, int]
    external: tuple[str, ...]
    outputs: tuple[str, ...]
    readers: Mapping[str, tuple[int, ...]]
    root: int

    @property
    def fallback(self) -> bool:
        """The group runs on the host."""
        return any(op.kind == "fallback" for op in self.ops)


def boundary(lowered: Lowered, group: Group) -> Boundary:
    """Edge of `group`; pure, O(ops of the group) after the first call for a lowered graph."""
    ops = tuple(lowered.ops[i] for i in group.ops)
    made = {
        storage_of(lowered, write.tensor): step
        for step, op in enumerate(ops)
        if op.kind != "view"
        for write in op.writes
    }
    readers: dict[str, list[int]] = {}
    for step, op in enumerate(ops):
        if op.kind == "view":
            continue
        for storage in dict.fromkeys(storage_of(lowered, read.tensor) for read in op.reads):
            readers.setdefault(storage, []).append(step)
    outside = _readers_by_storage(Same(lowered))
    members = frozenset(group.ops)
    returned = {storage_of(lowered, name) for name in lowered.graph.outputs}
    outputs = tuple(s for s in made if s in returned or not outside.get(s, frozenset()) <= members)
    return Boundary(
        lowered=lowered,
        group=group,
        ops=ops,
        made=made,
        external=tuple(s for s in readers if s not in made),
        outputs=outputs,
        readers={s: tuple(steps) for s, steps in readers.items()},
        root=_root(lowered, made, outputs),
    )


def storage_of(lowered: Lowered, tensor: str) -> str:
    """The tensor whose memory this one shares, through any chain of views."""
    while (owner := lowered.storage[tensor]) != tensor:
        tensor = owner
    return tensor


def storage_bytes(lowered: Lowered, storages: tuple[str, ...]) -> int:
    """Bytes of these storages, each taken whole and once."""
    return round(sum(lowered.tensor_bytes(name) for name in storages))


def _root(lowered: Lowered, made: Mapping[str, int], outputs: tuple[str, ...]) -> int:
    """A group whose results nobody reads still has a root: its last op that makes anything."""
    ends = outputs or tuple(made)
    elements = lowered.graph.tensors
    return max(((elements[s].elements, made[s]) for s in ends), default=(0, -1))[1]


class Same:
    """A key that stands for one object, by identity, and keeps it alive."""

    __slots__ = ("value",)

    def __init__(self, value: Lowered) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


@lru_cache(maxsize=4)
def _readers_by_storage(key: Same) -> Mapping[str, frozenset[int]]:
    """Ops that read each storage, but views: they read nothing, and what reads their result reads this storage. Once
    for a lowered graph, since every group of it asks."""
    lowered = key.value
    readers: dict[str, set[int]] = {}
    for index, op in enumerate(lowered.ops):
        for read in op.reads if op.kind != "view" else ():
            readers.setdefault(storage_of(lowered, read.tensor), set()).add(index)
    return {storage: frozenset(ops) for storage, ops in readers.items()}

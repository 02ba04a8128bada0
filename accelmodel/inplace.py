"""Which results of a group are worked on in place: chains of storages that share one buffer."""

from __future__ import annotations

from dataclasses import dataclass

from accelmodel.boundary import Boundary, storage_of

_IN_PLACE = ("elementwise", "reduction")


@dataclass(frozen=True, slots=True)
class Chain:
    """Results in one buffer, first to last; each but the first overwrites the one before it.

    readers: steps of the group that read the last one.
    """

    storages: tuple[str, ...]
    readers: tuple[int, ...]


def chains(edge: Boundary) -> tuple[Chain, ...]:
    """Every storage made in the group, in exactly one chain, in order of making.

    An op overwrites what it reads where it is element-wise or reduces within rows, makes one result, reads the operand
    just where it writes the result (no window, no broadcast), and nothing else reads that operand: neither the group
    nor the outside.
    """
    following = {}
    for storage, step in edge.made.items():
        op = edge.ops[step]
        if op.kind not in _IN_PLACE or len(op.writes) != 1:
            continue
        for read in op.reads:
            source = storage_of(edge.lowered, read.tensor)
            alike = read.axes == op.writes[0].axes
            if alike and source not in following and _overwrites(edge, source, storage, step):
                following[source] = storage
                break
    heads = [s for s in edge.made if s not in set(following.values())]
    found = []
    for head in heads:
        members = [head]
        while members[-1] in following:
            members.append(following[members[-1]])
        found.append(Chain(tuple(members), edge.readers.get(members[-1], ())))
    return tuple(found)


def _overwrites(edge: Boundary, source: str, storage: str, step: int) -> bool:
    if source not in edge.made or source in edge.outputs:
        return False
    tensors = edge.lowered.graph.tensors
    return edge.readers.get(source, ()) == (step,) and tensors[source].elements == tensors[storage].elements

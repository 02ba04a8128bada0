"""What a tile touches, counted point by point: the slow and plain twin of regions.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from accelmodel.plan import Access, Group, Lowered, LoweredOp

Points = dict[str, set[int]]


def tiles(op: LoweredOp, tile: Mapping[str, int]) -> Iterator[dict[str, range]]:
    """Every tile of the op's parallel dims."""
    dims = [d for d in op.dims if d.role == "parallel"]
    starts = [range(0, d.size, tile[d.name]) for d in dims]
    for corner in product(*starts):
        yield {d.name: range(start, min(start + tile[d.name], d.size)) for d, start in zip(dims, corner, strict=True)}


def touched(lowered: Lowered, group: Group, root: int, box: Mapping[str, range]) -> tuple[Points, Points]:
    """(elements that the tile reads, elements that it makes) of each tensor, as flat indices.

    Walks back from the root's tile: an op runs every point whose parallel coordinates some needed element asks for.
    """
    needed: Points = {}
    reads: Points = {}
    makes: Points = {}
    for index in reversed(group.ops):
        op = lowered.ops[index]
        if op.kind == "view":
            target, source = op.writes[0].tensor, op.reads[0].tensor
            needed.setdefault(source, set()).update(needed.get(target, set()))
            continue
        for point in _running(lowered, op, needed, box if index == root else None):
            for access in op.writes:
                flat = _flat(lowered, access, point)
                if flat is not None:
                    makes.setdefault(access.tensor, set()).add(flat)
            for access in op.reads:
                flat = _flat(lowered, access, point)
                if flat is not None:
                    reads.setdefault(access.tensor, set()).add(flat)
                    needed.setdefault(access.tensor, set()).add(flat)
    return reads, makes


def _running(
    lowered: Lowered, op: LoweredOp, needed: Points, box: Mapping[str, range] | None
) -> Iterator[dict[str, int]]:
    parallel = [d for d in op.dims if d.role == "parallel"]
    reduced = [d for d in op.dims if d.role == "reduction"]
    if box is not None:
        corners = set(product(*(box[d.name] for d in parallel)))
    else:
        corners = set()
        for values in product(*(range(d.size) for d in op.dims)):
            point = dict(zip((d.name for d in op.dims), values, strict=True))
            if any(_flat(lowered, access, point) in needed.get(access.tensor, ()) for access in op.writes):
                corners.add(tuple(point[d.name] for d in parallel))
    for corner in corners:
        for inner in product(*(range(d.size) for d in reduced)):
            names = [d.name for d in (*parallel, *reduced)]
            yield dict(zip(names, (*corner, *inner), strict=True))


def _flat(lowered: Lowered, access: Access, point: Mapping[str, int]) -> int | None:
    """Flat index of the element that a point touches; None where it lies outside the tensor."""
    shape = lowered.graph.tensors[access.tensor].shape
    flat = 0
    for i, (axis, size) in enumerate(zip(access.axes or (), shape, strict=True)):
        position = axis.offset + sum(stride * point[name] for name, stride in axis.terms)
        if not 0 <= position < size:
            return None
        flat += position * prod(shape[i + 1 :])
    return flat

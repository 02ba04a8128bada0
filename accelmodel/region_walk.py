"""The walk behind regions.py: from the dims of some ops to the regions of every tensor of a group, and back.

Extents are arrays [2 C + 1]: C whole tiles, clipped to dims and tensors; C means over tiles and one row for the whole
iteration space, neither clipped. A region is a box, or where ops read disjoint slices of one tensor, as many boxes:
then its extent on that axis is the sum, and it starts where the first begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from accelmodel.boundary import Boundary, storage_of
from accelmodel.plan import Access, AxisMap, LoweredOp
from accelmodel.views import map_extents, map_masks, map_starts, split_extent

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far one dim or axis is touched. extent: [2 C + 1]; mask: root dims that it depends on (bit d for dim d, the
    bit after the last for a streamed reduction); start: where the whole iteration space begins on it."""

    extent: FloatArray
    mask: int
    start: float


Points = dict[str, Reach]


@dataclass(frozen=True, slots=True)
class Touch:
    """The region of one tensor that one op touches, or that a tile makes: one reach an axis."""

    tensor: str
    axes: tuple[Reach, ...]

    @property
    def mask(self) -> int:
        return _union(axis.mask for axis in self.axes)

    @property
    def masks(self) -> tuple[int, ...]:
        return tuple(axis.mask for axis in self.axes)


class Walk:
    """One propagation over a group. `backward` fills `points` (dims of each op), `reads`, `makes` and `shared`."""

    def __init__(self, edge: Boundary, count: int, stream: tuple[int, str, Reach] | None) -> None:
        self.edge, self.count, self.stream = edge, count, stream
        self.points: dict[int, Points] = {}
        self.reads: dict[int, tuple[tuple[Access, Touch], ...]] = {}
        self.makes: dict[str, Touch] = {}
        self.shared = -1
        self._demands: dict[str, list[Touch]] = {}
        self._constants: dict[float, Reach] = {}

    def backward(self, seeds: Mapping[int, Points]) -> None:
        """From the seeds' dims to everything that they need; starts afresh. Ops that nothing needs are left out."""
        self.points, self.reads, self.makes, self._demands, self.shared = {}, {}, {}, {}, -1
        for step in reversed(range(len(self.edge.ops))):
            op = self.edge.ops[step]
            if op.kind == "view":
                self._through_view(op)
            elif step in seeds or any(write.tensor in self._demands for write in op.writes):
                self._through_op(step, op, seeds.get(step))

    def forward(self, missed: Iterable[int]) -> dict[int, Points]:
        """Dims of the missed ops, from the regions known so far of what they read; a dim that no read settles stays
        whole."""
        known = {tensor: self._merged(touches) for tensor, touches in self._demands.items()}
        known.update({touch.tensor: touch for touch in self.makes.values()})
        open_steps, seeds = set(missed), {}
        for step, op in enumerate(self.edge.ops):
            if op.kind == "view" and op.reads and op.writes and op.reads[0].tensor in known:
                renamed = self._renamed(known[op.reads[0].tensor], op.writes[0].tensor)
                known.setdefault(renamed.tensor, renamed)
            if step in open_steps:
                seeds[step] = self._settled(op, known)
                known.update({write.tensor: self._touch(op, write, seeds[step]) for write in op.writes})
        return seeds

    # --- one op at a time ---

    def _through_view(self, op: LoweredOp) -> None:
        if not op.reads or not op.writes:
            return
        for touch in self._demands.get(op.writes[0].tensor, ()):
            renamed = self._renamed(touch, op.reads[0].tensor)
            self._demands.setdefault(renamed.tensor, []).append(renamed)

    def _renamed(self, touch: Touch, tensor: str) -> Touch:
        """The same memory under the name and shape of another tensor."""
        source, shape = self._shape(touch.tensor), self._shape(tensor)
        extents = map_extents([axis.extent for axis in touch.axes], source, shape, self.count)
        masks = map_masks(list(touch.masks), source, shape)
        starts = map_starts([axis.start for axis in touch.axes], source, shape)
        if not touch.axes:
            extents = [self._constant(1).extent for _ in shape]
        return Touch(tensor, tuple(map(Reach, extents, masks, starts)))

    def _through_op(self, step: int, op: LoweredOp, seed: Points | None) -> None:
        demands = [touch for write in op.writes for touch in self._demands.get(write.tensor, ())]
        for touch in demands:
            self.shared &= touch.mask
        if seed is not None:
            self.shared &= _union(reach.mask for reach in seed.values())
        points = self._op_points(step, op, seed)
        self.points[step] = points
        for write in op.writes:
            self.makes[storage_of(self.edge.lowered, write.tensor)] = self._made(op, write, points)
        self.reads[step] = tuple((access, self._touch(op, access, points)) for access in op.reads)
        for access, touch in self.reads[step]:
            self._demands.setdefault(access.tensor, []).append(touch)

    def _op_points(self, step: int, op: LoweredOp, seed: Points | None) -> Points:
        """Dims that cover the seed and every demand on what the op writes; reductions whole, but for the streamed."""
        sizes = {dim.name: max(1, dim.size) for dim in op.dims if dim.role == "parallel"}
        reaches: dict[str, list[Reach]] = {name: [reach] for name, reach in (seed or {}).items()}
        for write in op.writes:
            if write.tensor in self._demands:
                for name, reach in self._inverse(write, self._merged(self._demands[write.tensor]), sizes):
                    reaches.setdefault(name, []).append(reach)
        points: Points = {}
        for dim in op.dims:
            size = max(1, dim.size)
            if self.stream is not None and (step, dim.name) == self.stream[:2]:
                points[dim.name] = self.stream[2]
            elif dim.name not in sizes or dim.name not in reaches:
                points[dim.name] = self._constant(size)
            else:
                points[dim.name] = self._joined(reaches[dim.name], size)
        return points

    def _inverse(self, write: Access, touch: Touch, sizes: Mapping[str, int]) -> Iterator[tuple[str, Reach]]:
        """Parallel dims that produce a region of what an op writes. An axis of several dims is mixed radix."""
        for axis, reach in zip(write.axes or (), touch.axes, strict=True):
            terms = sorted((t for t in axis.terms if t[0] in sizes), key=lambda t: -abs(t[1]))
            extents = split_extent(reach.extent, tuple(sizes[name] for name, _ in terms), self.count)
            for (name, stride), extent in zip(terms, extents, strict=True):
                start = (reach.start - axis.offset) / (abs(stride) or 1) if len(terms) == 1 else 0.0
                yield name, Reach(extent, reach.mask, max(0.0, start))

    def _settled(self, op: LoweredOp, known: Mapping[str, Touch]) -> Points:
        parallel = {dim.name for dim in op.dims if dim.role == "parallel"}
        points: Points = {}
        for access in op.reads:
            if access.tensor not in known:
                continue
            for axis, reach in zip(access.axes or (), known[access.tensor].axes, strict=True):
                if len(axis.terms) == 1 and abs(axis.terms[0][1]) == 1 and reach.mask and axis.terms[0][0] in parallel:
                    _widen(points, {axis.terms[0][0]: Reach(reach.extent, reach.mask, reach.start - axis.offset)})
        return points | {d.name: self._constant(max(1, d.size)) for d in op.dims if d.name not in points}

    # --- regions of tensors ---

    def _touch(self, op: LoweredOp, access: Access, points: Points) -> Touch:
        sizes = op.dim_sizes()
        shape = self._shape(access.tensor)
        axes = (self._axis(axis, n, points, sizes) for axis, n in zip(access.axes or (), shape, strict=True))
        return Touch(access.tensor, tuple(axes))

    def _made(self, op: LoweredOp, write: Access, points: Points) -> Touch:
        """What a tile makes of one result: the image of the op's dims, or of an op with several results, where their
        demands differ, what is asked of this one; axes that the op reduces are made whole."""
        made = self._touch(op, write, points)
        asked = self._demands.get(write.tensor)
        if len(op.writes) == 1:
            return made
        if not asked:
            sizes = self._shape(write.tensor)
            return Touch(made.tensor, tuple(map(self._inside, made.axes, sizes)))
        reduced = {dim.name for dim in op.dims if dim.role == "reduction"}
        axes = zip(write.axes or (), made.axes, self._merged(asked).axes, strict=True)
        return Touch(made.tensor, tuple(m if any(n in reduced for n, _ in a.terms) else d for a, m, d in axes))

    def _inside(self, reach: Reach, size: int) -> Reach:
        """An axis of a result that nothing asked for: whole, where the op's dims fall beside it (another part of a
        split), so that it says nothing about them."""
        beside = reach.start < 0 or reach.start + float(reach.extent[-1]) > size
        return self._constant(max(1, size)) if beside else reach

    def _joined(self, reaches: Sequence[Reach], size: int) -> Reach:
        return _merged_axis(reaches, size, self.count) if len(reaches) > 1 else self._clipped(reaches[0], size)

    def _axis(self, axis: AxisMap, size: int, points: Points, sizes: Mapping[str, int]) -> Reach:
        if axis.whole:
            return self._constant(max(1, size))
        if not axis.terms:
            return self._constant(1)
        if len(axis.terms) == 1 and axis.terms[0][1] == 1:
            reach = points[axis.terms[0][0]]
            moved = Reach(reach.extent, reach.mask, reach.start + axis.offset)
            return moved if sizes[axis.terms[0][0]] <= size else self._clipped(moved, size)
        extent, mask, start = self._constant(1).extent, 0, float(axis.offset)
        for name, stride in axis.terms:
            reach = points[name]
            extent = extent + (reach.extent - 1) * abs(stride)
            mask |= reach.mask
            start += reach.start * stride - (0 if stride > 0 else float(reach.extent[-1] - 1) * abs(stride))
        return self._clipped(Reach(extent, mask, start), size)

    def _shape(self, tensor: str) -> tuple[int, ...]:
        return self.edge.lowered.graph.tensors[tensor].shape

    def _constant(self, value: float) -> Reach:
        if value not in self._constants:
            self._constants[value] = Reach(np.full(2 * self.count + 1, float(value)), 0, 0.0)
        return self._constants[value]

    def _clipped(self, reach: Reach, size: int) -> Reach:
        return clipped(reach, size, self.count)

    def _merged(self, touches: Sequence[Touch]) -> Touch:
        return merged(touches, self._shape(touches[0].tensor), self.count)


def clipped(reach: Reach, size: int, count: int) -> Reach:
    """Rows of whole tiles stay within a dim or tensor axis of this size."""
    extent = reach.extent.copy()
    np.minimum(reach.extent[:count], max(size, 1), out=extent[:count])
    return Reach(extent, reach.mask, reach.start)


def merged(touches: Sequence[Touch], shape: tuple[int, ...], count: int) -> Touch:
    """What holds several regions of one tensor."""
    if len(touches) == 1:
        return touches[0]
    columns = zip(*(touch.axes for touch in touches), strict=True)
    axes = (_merged_axis(column, size, count) for column, size in zip(columns, shape, strict=True))
    return Touch(touches[0].tensor, tuple(axes))


def _merged_axis(reaches: Sequence[Reach], size: int, count: int) -> Reach:
    """Overlapping spans: the larger extent. Disjoint ones (slices of one tensor): the sum. An axis that one region
    takes as it is and another cuts is taken whole."""
    masks = {reach.mask for reach in reaches}
    if 0 in masks and len(masks) > 1:
        return Reach(np.full(2 * count + 1, float(max(1, size))), 0, 0.0)
    spans: list[tuple[float, FloatArray]] = []  # end of the whole space, extent
    for reach in sorted(reaches, key=lambda r: r.start):
        end = reach.start + float(reach.extent[-1])
        if spans and reach.start < spans[-1][0]:
            spans[-1] = (max(end, spans[-1][0]), np.maximum(reach.extent, spans[-1][1]))
        else:
            spans.append((end, reach.extent))
    extent = reduce(np.add, (extent for _, extent in spans))
    return clipped(Reach(extent, _union(masks), min(r.start for r in reaches)), size, count)


def _widen(points: Points, more: Points) -> None:
    """The larger extent of each dim, and the dims that either depends on."""
    for name, reach in more.items():
        old = points.get(name)
        if old is None:
            points[name] = reach
        else:
            start = min(old.start, reach.start)
            points[name] = Reach(np.maximum(old.extent, reach.extent), old.mask | reach.mask, start)


def _union(masks: Iterable[int]) -> int:
    return reduce(int.__or__, masks, 0)

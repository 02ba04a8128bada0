"""The least that a group must work through: from its outputs back to the dims of every op.

An op whose result is read in part (one output of a split, a slice) need not be done in whole. What is counted here
is certain: of a tensor, a count for each axis such that the group needs at least a grid of so many positions each; of
an op, the same over its dims. Where that cannot be told it counts less, down to one, never more.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from accelmodel.access import positions_in_range
from accelmodel.boundary import Boundary
from accelmodel.plan import Access, AxisMap, Lowered, LoweredOp
from accelmodel.views import axis_blocks

Counts = Mapping[str, int]  # by dim
Grid = tuple[int, ...]  # by axis


def least_dims(edge: Boundary) -> dict[int, Counts]:
    """How much of each dim the ops need at least, by step; steps that no output needs are absent, views too."""
    shapes = edge.lowered.graph.tensors
    demands: dict[str, Grid] = {name: shapes[name].shape for name in edge.outputs}
    found: dict[int, Counts] = {}
    for step in reversed(range(len(edge.ops))):
        op = edge.ops[step]
        if op.kind == "view":
            if op.reads and op.writes and op.writes[0].tensor in demands:
                source = op.reads[0].tensor
                through = _through_view(demands[op.writes[0].tensor], op, edge.lowered)
                demands[source] = _larger(demands.get(source), through)
            continue
        asked = [(write, demands[write.tensor]) for write in op.writes if write.tensor in demands]
        if not asked:
            continue
        found[step] = counts = _dims_of(op, asked)
        for read in op.reads:
            demands[read.tensor] = _larger(demands.get(read.tensor), _read_grid(op, read, counts, edge.lowered))
    return found


def least_positions(op: LoweredOp, axis: AxisMap, axis_size: int, counts: Counts) -> int:
    """Fewest distinct positions of one axis that the op reads, with so much of each dim.

    Of an axis from which the data pick, one: all picks may agree. A point of the iteration space that is not needed
    takes at most one position away.
    """
    sizes = op.dim_sizes()
    everything = all(counts[name] == size for name, size in sizes.items())
    if axis.whole and (op.kind == "movement" or not everything):
        return min(1, axis_size)
    positions = positions_in_range(axis, sizes, axis_size)[0]
    names = {name for name, _ in axis.terms}
    missed = prod(sizes[name] for name in names) - prod(counts[name] for name in names)
    return max(0, positions - missed)


def _dims_of(op: LoweredOp, asked: list[tuple[Access, Grid]]) -> Counts:
    """Dims from what is asked of the results: reductions whole, parallel ones as the largest demand has them. The
    parts of a split lie side by side on one dim: there they add up."""
    each = [_inverse(op, write, grid) for write, grid in asked]
    whole = op.dim_sizes()
    split = [name for name, size in whole.items() if any(counts[name] != size for counts in each)]
    if op.kind == "movement" and len(op.writes) > 1 and len(split) == 1:
        return whole | {split[0]: min(whole[split[0]], sum(counts[split[0]] for counts in each))}
    return max(each, key=lambda counts: prod(counts.values()))


def _inverse(op: LoweredOp, write: Access, grid: Grid) -> dict[str, int]:
    sizes = op.dim_sizes()
    counts = {dim.name: dim.size if dim.role == "reduction" else min(1, dim.size) for dim in op.dims}
    for axis, count in zip(write.axes or (), grid, strict=True):
        names = [name for name, stride in axis.terms if stride and counts[name] < sizes[name]]
        if len(axis.terms) == 1 and names:
            counts[names[0]] = min(count, sizes[names[0]])
        elif count >= prod(sizes[name] for name, _ in axis.terms):
            counts.update({name: sizes[name] for name in names})
    return counts


def _read_grid(op: LoweredOp, read: Access, counts: Counts, lowered: Lowered) -> Grid:
    shape = lowered.graph.tensors[read.tensor].shape
    uses = [name for axis in read.axes or () for name in {name for name, _ in axis.terms}]
    grid = tuple(least_positions(op, axis, n, counts) for axis, n in zip(read.axes or (), shape, strict=True))
    return grid if len(set(uses)) == len(uses) else tuple(min(1, n) for n in grid)  # a diagonal holds no grid


def _through_view(grid: Grid, op: LoweredOp, lowered: Lowered) -> Grid:
    """The grid on the axes of the view's input. Axes that merge multiply; one that splits does so where it is whole."""
    source, shape = (lowered.graph.tensors[access.tensor].shape for access in (op.writes[0], op.reads[0]))
    if not prod(shape):
        return shape
    result = [1] * len(shape)
    for before, after in axis_blocks(source, shape):
        count = prod(grid[axis] for axis in before)
        whole = count == prod(source[axis] for axis in before)
        for axis in after:
            result[axis] = shape[axis] if whole else count if len(after) == 1 else 1
    return tuple(result)


def _larger(old: Grid | None, new: Grid) -> Grid:
    return new if old is None or prod(new) > prod(old) else old

"""External operands and results of a group: how much of them a tile moves, in blocks of what size.

An operand that one step reads is streamed: only a block of it is on chip at a time. The block is

* for a contraction that streams two operands, a panel: the tile's extent by `depth` units of the reduction (units:
  `stream_unit`);
* for a contraction whose other operand is on chip already, that panel cut to 4 x `depth` native columns as well;
* for any other op, `depth` rows of the region (a row: the innermost axis and all axes that the op reduces).

An operand that several steps read is one region for all of them and stays whole from the first to the last. A tensor
that is read under two conflicting cuts (x times its own transpose) counts as two operands. Of what a data movement
picks from an axis it cannot know (the rows of a table), it reads no more elements than it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelmodel.boundary import storage_of
from accelmodel.plan import Access, AxisMap, LoweredOp
from accelmodel.region_walk import FloatArray, Points, Touch, merged
from accelmodel.regions import IntArray, Nest, Regions, Tiles, accessed_elements, pass_elements, tile_elements
from accelmodel.target import Target
from accelmodel.views import map_extents, map_masks, map_starts

_COLUMN_BLOCKS = 4  # native blocks side by side in a streamed block: wide enough for runs of some length


@dataclass(frozen=True, slots=True)
class Operand:
    """One external operand. Arrays are [C].

    steps: that read it. mask: root dims (and the streamed reduction) on which its region depends. looped: a step
    inside the streamed loop reads it. tile_bytes: its region in one tile. pass_bytes: every distinct region fetched
    once. accessed_bytes: what of it the kernel touches at all, once. block_bytes: streamed at a time; blocks: such
    blocks in a region. run_bytes: contiguous bytes of one transfer.
    """

    tensor: str
    steps: tuple[int, ...]
    mask: int
    looped: bool
    tile_bytes: FloatArray
    pass_bytes: FloatArray
    accessed_bytes: float
    block_bytes: FloatArray
    blocks: FloatArray
    run_bytes: FloatArray


@dataclass(frozen=True, slots=True)
class Result:
    """One output. Written once, whatever the tiles overlap. Arrays are [C], as in Operand."""

    tensor: str
    step: int
    total_bytes: float
    tile_bytes: FloatArray
    block_bytes: FloatArray
    run_bytes: FloatArray


@dataclass(frozen=True, slots=True)
class _Use:
    step: int
    op: LoweredOp
    access: Access
    touch: Touch


def operands(nest: Nest, tiles: Tiles, regions: Regions, depth: IntArray, target: Target) -> tuple[Operand, ...]:
    """External operands of the group, each storage once per compatible cut. depth: [C] native blocks or rows."""
    edge = nest.edge
    uses: dict[str, list[list[_Use]]] = {name: [] for name in edge.external}
    for step in sorted(regions.reads):
        for access, touch in regions.reads[step]:
            storage = storage_of(edge.lowered, access.tensor)
            if storage in uses:
                _file(uses[storage], _Use(step, edge.ops[step], access, touch))
    return tuple(_operand(nest, tiles, regions, same, depth, target) for classes in uses.values() for same in classes)


def results(nest: Nest, tiles: Tiles, regions: Regions, depth: IntArray) -> tuple[Result, ...]:
    """Outputs of the group; each drains by blocks of `depth` rows."""
    edge = nest.edge
    found = []
    for storage in edge.outputs:
        touch, size = regions.makes[storage], edge.lowered.element_bytes[storage]
        elements = tile_elements(touch, tiles.count)
        row = touch.axes[-1].extent[: tiles.count] if touch.axes else np.ones(tiles.count)
        block = np.minimum(elements, row * depth)
        found.append(
            Result(
                tensor=storage,
                step=edge.made[storage],
                total_bytes=edge.lowered.tensor_bytes(storage),
                tile_bytes=elements * size,
                block_bytes=block * size,
                run_bytes=run_elements(_extents(touch, tiles.count), _shape(nest, touch.tensor)) * size,
            )
        )
    return tuple(found)


def run_elements(extents: Sequence[FloatArray], shape: tuple[int, ...]) -> FloatArray:
    """Contiguous elements of a box in row-major memory: the innermost axis, and the next one out as long as all axes
    inside it are whole. [C]"""
    if not extents:
        return np.ones(1)
    run, whole = np.ones_like(extents[0]), np.ones(extents[0].shape, np.bool_)
    for extent, size in zip(reversed(extents), reversed(shape), strict=True):
        run = np.where(whole, run * extent, run)
        whole &= extent >= size
    return run


def stream_unit(native: tuple[int, int, int]) -> int:
    """Reduction elements of one unit of depth: the engine's native block, but at least 16, since engines without one
    (vector lanes) are fed by vectors too."""
    return max(native[2], 16)


def reduction_block(op: LoweredOp, points: Points, count: int, depth: IntArray, unit: int) -> FloatArray:
    """Block of the reduction dims that cut their operands cleanly (a convolution's channels, not its window), out of
    their product: enough for `depth` units of the whole reduction. [C]"""
    clean, everything = clean_reduction(op, points, count)
    window = everything / clean
    return np.clip(np.ceil(depth * unit / window), 1.0, clean)


def _file(classes: list[list[_Use]], use: _Use) -> None:
    """Join the first class of uses whose cut does not conflict, else open a new one."""
    for same in classes:
        if all(_compatible(other.touch, use.touch) for other in same):
            same.append(use)
            return
    classes.append([use])


def _compatible(one: Touch, other: Touch) -> bool:
    """Both regions can be one: on every axis they are cut alike, or one of them takes it as it is."""
    if one.tensor != other.tensor:
        return one.mask == other.mask
    return all(a == b or not a or not b for a, b in zip(one.masks, other.masks, strict=True))


def _operand(nest: Nest, tiles: Tiles, regions: Regions, uses: list[_Use], depth: IntArray, target: Target) -> Operand:
    touch = _joined(nest, uses, tiles.count)
    shape, size = _shape(nest, touch.tensor), nest.edge.lowered.element_bytes[touch.tensor]
    steps = tuple(sorted({use.step for use in uses}))
    op, points = uses[0].op, regions.points[steps[0]]
    mask, elements = touch.mask, tile_elements(touch, tiles.count)
    fetched, accessed = pass_elements(touch, shape, tiles.trips), accessed_elements(touch, shape)
    if op.kind == "movement" and any(axis.whole for axis in uses[0].access.axes or ()):
        written = regions.makes[storage_of(nest.edge.lowered, op.writes[0].tensor)]
        mask = written.mask
        elements = np.minimum(elements, tile_elements(written, tiles.count))
        accessed = min(accessed, accessed_elements(written, _shape(nest, written.tensor)))
        fetched = np.minimum(fetched, accessed) if mask == touch.mask else np.full(tiles.count, accessed)
    extents = _extents(touch, tiles.count)
    block, blocks = elements, np.ones(tiles.count)
    if len(steps) == 1 and op.kind == "contraction":
        others = [
            r for r in op.reads if _reduces(op, r) and storage_of(nest.edge.lowered, r.tensor) in nest.edge.external
        ]
        native = target.engines[op.engine].native_tile
        block, blocks, extents = _panel(uses[0], points, extents, depth, native, len(others) == 1)
    elif len(steps) == 1:
        block, blocks = _row_block(uses[0], elements, extents, depth)
    picked = [axis.whole and op.kind == "movement" for axis in uses[0].access.axes or ()]
    if touch.tensor == uses[0].access.tensor:
        extents = [np.ones(tiles.count) if pick else e for e, pick in zip(extents, picked, strict=True)]
    return Operand(
        tensor=touch.tensor, steps=steps, mask=mask, looped=any(step in nest.loop for step in steps),
        tile_bytes=elements * size, pass_bytes=fetched * size, accessed_bytes=accessed * size,
        block_bytes=block * size, blocks=blocks, run_bytes=run_elements(extents, shape) * size,
    )  # fmt: skip


def _joined(nest: Nest, uses: list[_Use], count: int) -> Touch:
    """One region for all uses; names of the same memory are brought to the first one's shape."""
    first = uses[0].touch
    touches = [first]
    for use in uses[1:]:
        touch = use.touch
        if touch.tensor != first.tensor:
            source, shape = _shape(nest, touch.tensor), _shape(nest, first.tensor)
            extents = map_extents([axis.extent for axis in touch.axes], source, shape, count)
            starts = map_starts([axis.start for axis in touch.axes], source, shape)
            masks = map_masks(list(touch.masks), source, shape)
            reaches = zip(first.axes, extents, masks, starts, strict=True)
            touch = Touch(first.tensor, tuple(type(a)(e, m, s) for a, e, m, s in reaches))
        touches.append(touch)
    return merged(touches, _shape(nest, first.tensor), count)


def _row_block(
    use: _Use, elements: FloatArray, extents: list[FloatArray], depth: IntArray
) -> tuple[FloatArray, FloatArray]:
    """`depth` rows of a region: elements of the block, and blocks in the region. [C]"""
    row = np.ones(len(elements))
    axes = use.access.axes or ()
    for i, (axis, extent) in enumerate(zip(axes, extents, strict=True)):
        if i == len(axes) - 1 or axis.whole or _reduced(use.op, axis):
            row = row * extent
    block = np.minimum(elements, row * depth)
    return block, np.ceil(elements / block)


def _panel(
    use: _Use,
    points: Points,
    extents: list[FloatArray],
    depth: IntArray,
    native: tuple[int, int, int],
    alone: bool,
) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """A contraction's panel: elements of the block, blocks in the region, and the extents of the block's box. [C]

    alone: the other operand is on chip, so that this one is cut along its columns too.
    """
    op, axes, count = use.op, use.access.axes or (), len(depth)
    rest = reduction_block(op, points, count, depth, stream_unit(native))
    columns = np.full(count, np.inf) if not alone else depth * float(_COLUMN_BLOCKS * native[1])
    cut, blocks = list(extents), np.ones(count)
    for i in reversed(range(len(axes))):
        if len(axes[i].terms) != 1:
            continue
        reduced = _reduced(op, axes[i])
        left = rest if reduced else columns
        cut[i] = np.minimum(extents[i], left)
        blocks = blocks * np.ceil(extents[i] / cut[i])
        if reduced:
            rest = np.ceil(left / extents[i])
        else:
            columns = np.ceil(left / extents[i])
    block = np.ones(count)
    for extent in cut:
        block = block * extent
    return block, blocks, cut


def clean_reduction(op: LoweredOp, points: Points, count: int) -> tuple[FloatArray, FloatArray]:
    """Product of the op's clean reduction dims, and of all of them. [C]"""
    clean, everything = np.ones(count), np.ones(count)
    windows = {name for r in op.reads for axis in r.axes or () if len(axis.terms) > 1 for name, _ in axis.terms}
    for dim in op.dims:
        if dim.role == "reduction":
            everything = everything * points[dim.name].extent[:count]
            if dim.name not in windows:
                clean = clean * points[dim.name].extent[:count]
    return clean, everything


def _reduces(op: LoweredOp, access: Access) -> bool:
    return any(_reduced(op, axis) for axis in access.axes or ())


def _reduced(op: LoweredOp, axis: AxisMap) -> bool:
    """The op reduces this axis, or part of it."""
    names = {name for name, _ in axis.terms}
    return any(dim.name in names and dim.role == "reduction" for dim in op.dims)


def _extents(touch: Touch, count: int) -> list[FloatArray]:
    return [axis.extent[:count] for axis in touch.axes]


def _shape(nest: Nest, tensor: str) -> tuple[int, ...]:
    return nest.edge.lowered.graph.tensors[tensor].shape

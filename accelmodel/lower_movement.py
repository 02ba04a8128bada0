"""Ops that move elements and compute nothing, and those that only rename memory (views).

Axes, pads, shapes and other parameters are part of the kernel, not data that it reads.
"""

from __future__ import annotations

from math import prod

from accelmodel.graph import Graph, Op
from accelmodel.lower_forms import (
    SINGLE,
    WHOLE,
    Form,
    NoRule,
    along,
    broadcast,
    identity,
    known,
    parallel,
    present,
    shape_of,
    space,
    view,
    whole_number,
    whole_numbers,
)
from accelmodel.plan import Access, AxisMap


def rename(graph: Graph, op: Op) -> Form | NoRule:
    """Reshape, Flatten, Squeeze, Unsqueeze, Identity: row-major order stays."""
    return view(graph, op)


def dropout(graph: Graph, op: Op) -> Form | NoRule:
    """At inference the input itself; a mask that something reads must be made."""
    training = graph.constants.get(present(op.inputs, 2), (0,))
    if present(op.outputs, 1) or any(training):
        return NoRule("Dropout with a mask or in training mode")
    return view(graph, op)


def transpose(graph: Graph, op: Op) -> Form | NoRule:
    """A view where the axes longer than 1 keep their order."""
    shape = shape_of(graph, op.inputs[0])
    default = tuple(reversed(range(len(shape))))
    order = whole_numbers(op.attribute("perm") or default) if shape else ()
    long = [axis for axis in order if shape[axis] != 1]
    if long == sorted(long):
        return view(graph, op, "moves no data: only axes of size 1 change places")
    dims = space(shape_of(graph, op.outputs[0]))
    source = {axis: along(dim.name) for axis, dim in zip(order, dims, strict=True)}
    read = Access(op.inputs[0], tuple(source[axis] for axis in range(len(shape))))
    return Form("movement", dims, (read,), (identity(op.outputs[0], dims),))


def expand(graph: Graph, op: Op) -> Form | NoRule:
    """Copies along axes of size 1."""
    if shape_of(graph, op.inputs[0]) == shape_of(graph, op.outputs[0]):
        return view(graph, op, "nothing to expand")
    dims = space(shape_of(graph, op.outputs[0]))
    return Form("movement", dims, (broadcast(graph, op.inputs[0], dims),), (identity(op.outputs[0], dims),))


def tile(graph: Graph, op: Op) -> Form | NoRule:
    """Copies whole axes; only an axis of size 1 has a stride, a longer one that repeats is read whole."""
    before, after = shape_of(graph, op.inputs[0]), shape_of(graph, op.outputs[0])
    if before == after:
        return view(graph, op, "nothing to repeat")
    dims = space(after)
    axes = (
        along(dim.name) if old == dim.size else SINGLE if old == 1 else WHOLE
        for old, dim in zip(before, dims, strict=True)
    )  # fmt: skip
    return Form("movement", dims, (Access(op.inputs[0], tuple(axes)),), (identity(op.outputs[0], dims),))


def concat(graph: Graph, op: Op) -> Form | NoRule:
    """Dims of the output; each operand is read at output index minus its start, clipped to the operand."""
    shape = shape_of(graph, op.outputs[0])
    axis = whole_number(op, "axis", 1) % len(shape)
    if len(op.inputs) == 1:
        return view(graph, op, "one operand: nothing to join")
    dims, reads, start = space(shape), [], 0
    for name in op.inputs:
        if prod(shape_of(graph, name)):
            reads.append(Access(name, _shifted(len(shape), axis, -start)))
        start += shape_of(graph, name)[axis]
    return Form("movement", dims, tuple(reads), (identity(op.outputs[0], dims),))


def split(graph: Graph, op: Op) -> Form | NoRule:
    """Dims of the input; each output is written at input index minus its start, clipped to the output."""
    shape = shape_of(graph, op.inputs[0])
    axis = whole_number(op, "axis", 0) % len(shape)
    sizes = known(graph, op, 1, "split")
    if isinstance(sizes, NoRule):
        return sizes
    if sizes is None:  # equal parts, the last one smaller
        part = -(-shape[axis] // len(op.outputs))
        sizes = tuple(min(part, shape[axis] - part * i) for i in range(len(op.outputs)))
    dims, writes, start = space(shape), [], 0
    for name, size in zip(op.outputs, sizes, strict=True):
        if name:
            writes.append(Access(name, _shifted(len(shape), axis, -start)))
        start += size
    return Form("movement", dims, (identity(op.inputs[0], dims),), tuple(writes))


def _shifted(rank: int, axis: int, offset: int) -> tuple[AxisMap, ...]:
    return tuple(along(f"d{i}", 1, offset if i == axis else 0) for i in range(rank))


def slice_(graph: Graph, op: Op) -> Form | NoRule:
    """Input index = start + step x output index; negative steps count down."""
    shape, result = shape_of(graph, op.inputs[0]), shape_of(graph, op.outputs[0])
    starts, axes, steps = (
        known(graph, op, index, name) for index, name in ((1, "starts"), (3, "axes"), (4, "steps"))
    )  # fmt: skip
    for given in (starts, axes, steps):
        if isinstance(given, NoRule):
            return given
    assert not isinstance(starts, NoRule) and not isinstance(axes, NoRule) and not isinstance(steps, NoRule)
    begins = starts or ()
    strides = dict.fromkeys(range(len(shape)), (0, 1))
    for i, begin in enumerate(begins):
        axis = (axes[i] if axes else i) % len(shape)
        step = steps[i] if steps else 1
        first = begin + shape[axis] if begin < 0 else begin
        strides[axis] = (min(max(first, 0), shape[axis] - (step < 0)), step)
    if shape == result and all(step == 1 for _, step in strides.values()):
        return view(graph, op, "nothing is cut off")
    dims = space(result)
    read = Access(op.inputs[0], tuple(along(f"d{i}", step, begin) for i, (begin, step) in strides.items()))
    return Form("movement", dims, (read,), (identity(op.outputs[0], dims),))


def gather(graph: Graph, op: Op) -> Form | NoRule:
    """The gathered axis is anywhere in the table: whole. Bytes moved are those of the output, not of the table."""
    table, index = shape_of(graph, op.inputs[0]), shape_of(graph, op.inputs[1])
    axis = whole_number(op, "axis", 0) % len(table)
    dims = space(shape_of(graph, op.outputs[0]))
    names = [along(dim.name) for dim in dims]
    read = Access(op.inputs[0], (*names[:axis], WHOLE, *names[axis + len(index) :]))
    indices = Access(op.inputs[1], tuple(names[axis : axis + len(index)]))
    return Form("movement", dims, (read, indices), (identity(op.outputs[0], dims),))


def gather_elements(graph: Graph, op: Op) -> Form | NoRule:
    """Output and index share a shape; the gathered axis is whole, another axis too where the index cuts it short."""
    table, dims = shape_of(graph, op.inputs[0]), space(shape_of(graph, op.outputs[0]))
    axis = whole_number(op, "axis", 0) % len(table)
    read = Access(op.inputs[0], tuple(WHOLE if i == axis else along(dim.name) for i, dim in enumerate(dims)))
    return Form("movement", dims, (read, identity(op.inputs[1], dims)), (identity(op.outputs[0], dims),))


def pad(graph: Graph, op: Op) -> Form | NoRule:
    """Input index = output index - padding at the front, clipped to the input."""
    rank = len(shape_of(graph, op.inputs[0]))
    pads = known(graph, op, 1, "pads" if op.attribute("paddings") is None else "paddings")
    axes = known(graph, op, 3, "axes")
    if isinstance(pads, NoRule) or pads is None:
        return pads or NoRule("Pad without pads")
    if isinstance(axes, NoRule):
        return axes
    if not any(pads):
        return view(graph, op, "nothing to pad")
    padded = axes if axes is not None else tuple(range(rank))
    fronts = {axis % rank: pads[i] for i, axis in enumerate(padded)}
    dims = space(shape_of(graph, op.outputs[0]))
    read = Access(op.inputs[0], tuple(along(f"d{i}", 1, -fronts.get(i, 0)) for i in range(rank)))
    return Form("movement", dims, (read,), (identity(op.outputs[0], dims),))


def resize(graph: Graph, op: Op) -> Form | NoRule:
    """Resize and Upsample, nearest neighbour. A whole factor up: dims i and r of the axis, read i, write f x i + r.
    A whole factor down: read f x i + (f - 1) / 2. Any other factor or rounding: the axis is read whole."""
    before, after = shape_of(graph, op.inputs[0]), shape_of(graph, op.outputs[0])
    mode = op.attribute("mode", "nearest")
    if mode != "nearest":
        return NoRule(f"{op.op_type} with interpolation {mode!r}")
    if before == after:
        return view(graph, op, "same size")
    centre = _neighbour(graph, op)
    dims, reads, writes, notes = [], [], [], []
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        factor = new // old if old and new % old == 0 and centre is not None else 0
        if factor > 1:
            dims += [parallel(f"d{i}", old), parallel(f"r{i}", factor)]
            reads.append(along(f"d{i}"))
            writes.append(AxisMap(((f"d{i}", factor), (f"r{i}", 1))))
            continue
        dims.append(parallel(f"d{i}", new))
        writes.append(along(f"d{i}"))
        down = old // new if old == new or (new and old % new == 0 and centre is not None) else 0
        reads.append(along(f"d{i}", down, (down - 1) // 2 * (centre or 0)) if down else WHOLE)
        if not down:
            notes.append(f"axis {i} is read whole: the neighbours of {new} in {old} are no arithmetic series")
    return Form(
        "movement", tuple(dims), (Access(op.inputs[0], tuple(reads)),), (Access(op.outputs[0], tuple(writes)),), 0,
        tuple(notes),
    )  # fmt: skip


def _neighbour(graph: Graph, op: Op) -> int | None:
    """Where a neighbour lies in its cell when factors are whole: 1 its centre, 0 its first element, None neither."""
    if graph.opset < 11:
        return 0
    rounding = op.attribute("nearest_mode", "round_prefer_floor")
    modes = {("half_pixel", "round_prefer_floor"): 1, ("asymmetric", "floor"): 0}
    return modes.get((str(op.attribute("coordinate_transformation_mode", "half_pixel")), str(rounding)))


def depth_to_space(graph: Graph, op: Op) -> Form | NoRule:
    """[n, c, h, w] -> [n, c / s^2, h s, w s]; the block index leads the channel (DCR) or follows it (CRD)."""
    (n, channels, height, width), s = shape_of(graph, op.inputs[0]), whole_number(op, "blocksize", 1)
    c = channels // (s * s)
    sizes = (("n", n), ("c", c), ("i", s), ("j", s), ("h", height), ("w", width))
    column_first = op.attribute("mode", "DCR") == "DCR"
    channel = (("i", s * c), ("j", c), ("c", 1)) if column_first else (("c", s * s), ("i", s), ("j", 1))
    deep = (along("n"), AxisMap(channel), along("h"), along("w"))
    return _blocks(op, sizes, deep, _flat(s))


def space_to_depth(graph: Graph, op: Op) -> Form | NoRule:
    """[n, c, h s, w s] -> [n, s^2 c, h, w]."""
    (n, c, height, width), s = shape_of(graph, op.inputs[0]), whole_number(op, "blocksize", 1)
    sizes = (("n", n), ("c", c), ("i", s), ("j", s), ("h", height // s), ("w", width // s))
    deep = (along("n"), AxisMap((("i", s * c), ("j", c), ("c", 1))), along("h"), along("w"))
    return _blocks(op, sizes, _flat(s), deep)


def _flat(s: int) -> tuple[AxisMap, ...]:
    return (along("n"), along("c"), AxisMap((("h", s), ("i", 1))), AxisMap((("w", s), ("j", 1))))


def _blocks(
    op: Op, sizes: tuple[tuple[str, int], ...], source: tuple[AxisMap, ...], result: tuple[AxisMap, ...]
) -> Form:
    dims = tuple(parallel(name, size) for name, size in sizes)
    return Form("movement", dims, (Access(op.inputs[0], source),), (Access(op.outputs[0], result),))

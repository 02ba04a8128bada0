"""One op on one box of its iteration space: operands' blocks in, pieces of its outputs out.

What each op does follows from its lowering: dims, access maps, precision, accumulator. A wrong map gives wrong
numbers, which the comparison with the reference finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.execute_affine import Box, Operand, Region, operand, pieces
from accelmodel.execute_contract import contract
from accelmodel.execute_moves import INDEXED, MAPPED, Block, move
from accelmodel.execute_operand import lay_out
from accelmodel.execute_ops import ELEMENTWISE, quantized
from accelmodel.execute_rows import ROWS, WINDOWS, windows
from accelmodel.graph import Op
from accelmodel.plan import Lowered, LoweredOp
from accelmodel.precision import numpy_type, rounded, store

Array = npt.NDArray[Any]
CONTRACTIONS = ("MatMul", "Gemm", "Conv")
NUMERIC = frozenset({*CONTRACTIONS, *ELEMENTWISE, *ROWS, *WINDOWS, *INDEXED, *MAPPED, "QuantizeLinear"})
"""Op types that can be computed here. What is always a view needs none: it moves no data."""


@dataclass(frozen=True, slots=True)
class Step:
    """One op, ready to run. places: for each of the node's inputs the number of its read; None where the input is
    absent or a parameter. stored: element type of each write. reduced: numbers of the reduction dims. indexing: by
    output, the numbers of the dims that index it."""

    node: Op
    op: LoweredOp
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    places: tuple[int | None, ...]
    stored: tuple[str, ...]
    sizes: tuple[int, ...]
    reduced: tuple[int, ...]
    indexing: Mapping[str, frozenset[int]]


def step_of(lowered: Lowered, index: int, types: Mapping[str, str]) -> Step:
    """The op at `index`; types: how each tensor is stored."""
    node, op, graph = lowered.graph.ops[index], lowered.ops[index], lowered.graph
    writes = tuple(operand(access, op, graph) for access in op.writes)
    return Step(
        node=node, op=op, reads=tuple(operand(access, op, graph) for access in op.reads), writes=writes,
        indexing={w.tensor: frozenset(d for axis in w.axes or () for d, _ in axis.terms) for w in writes},
        places=tuple(_places(node, op)),
        stored=tuple(types[access.tensor] for access in op.writes), sizes=tuple(dim.size for dim in op.dims),
        reduced=tuple(i for i, dim in enumerate(op.dims) if dim.role == "reduction"),
    )  # fmt: skip


def _places(node: Op, op: LoweredOp) -> list[int | None]:
    """Reads are the node's inputs in order, less what is absent or a parameter of the kernel."""
    places: list[int | None] = []
    reads = [access.tensor for access in op.reads]
    at = 0
    for name in node.inputs:
        found = bool(name) and name in reads[at:]
        places.append(reads.index(name, at) if found else None)
        at = reads.index(name, at) + 1 if found else at
    return places


def unsupported(lowered: Lowered, index: int) -> str | None:
    """Why the op at `index` has no numerics here; None where it has."""
    node, op = lowered.graph.ops[index], lowered.ops[index]
    named = f"op {node.name!r} ({node.op_type})"
    if op.kind == "view":
        return None
    if node.domain or node.op_type not in NUMERIC:
        return f"{named} has no numeric rule"
    whole = any(axis.whole for access in op.reads for axis in access.axes or ())
    if whole and node.op_type not in INDEXED:
        return f"{named} reads an axis whole, by a rule that is not described"
    if node.op_type in WINDOWS and len([name for name in node.outputs if name]) > 1:
        return f"{named} returns the indices of its maxima"
    if node.op_type == "Pad" and node.attribute("mode", "constant") != "constant":
        return f"{named} pads with mode {node.attribute('mode')!r}"
    if any(read.tensor not in node.inputs for read in op.reads):
        return f"{named} reads a tensor that is no input of it"
    return None


def compute(step: Step, blocks: Sequence[Block], box: Box, k_tile: int, fill: float) -> list[tuple[str, Region, Array]]:
    """(tensor, region, values as stored) of everything that the box makes. blocks: of each read, as stored."""
    values = _values(step, blocks, box, k_tile, fill)
    made = []
    for write, stored in zip(step.writes, step.stored, strict=True):
        value = values[step.node.outputs.index(write.tensor)]
        extents = _extents(step, write, value, box)
        full = value if value.shape == extents else np.broadcast_to(value, extents)
        for region, part in pieces(full, box, write):
            made.append((write.tensor, region, store(part, stored)))
    return made


def _extents(step: Step, write: Operand, value: Array, box: Box) -> tuple[int, ...]:
    """Every dim that indexes the output in full, the others at size 1 (or as they are)."""
    indexing = step.indexing[write.tensor]
    return tuple([end - begin if i in indexing else value.shape[i] for i, (begin, end) in enumerate(box)])


def _values(step: Step, blocks: Sequence[Block], box: Box, k_tile: int, fill: float) -> tuple[Array, ...]:
    """Results over the dims of the op, one for each output."""
    node, op = step.node, step.op
    if node.op_type in CONTRACTIONS:
        return (contract(node, op, step.reads, blocks, box, k_tile),)
    if node.op_type in INDEXED or node.op_type in MAPPED:
        return (move(node.op_type, step.reads, blocks, box, fill),) * len(node.outputs)
    if node.op_type in WINDOWS:
        return _rounded(op, _windows(step, blocks, box))
    operands = [_operand(step, place, blocks, box) for place in step.places]
    if node.op_type == "QuantizeLinear":
        return (_quantize(step, operands),)
    if node.op_type in ELEMENTWISE:
        return (ELEMENTWISE[node.op_type](node, *operands),)
    given = [each for each, place in zip(operands, step.places, strict=True) if place is not None]
    return _rounded(op, ROWS[node.op_type](node, step.reduced, *given))


def _rounded(op: LoweredOp, values: tuple[Array, ...]) -> tuple[Array, ...]:
    """Results of a reduction as its accumulator holds them."""
    return tuple(rounded(value, op.accumulator) for value in values)


def _operand(step: Step, place: int | None, blocks: Sequence[Block], box: Box) -> Array | None:
    if place is None:
        return None
    return lay_out(step.reads[place], blocks[place], box, step.op.precision, 0)


def _quantize(step: Step, operands: Sequence[Array | None]) -> Array:
    x, scale = operands[:2]
    assert x is not None and scale is not None
    kind = numpy_type(step.stored[0])
    lowest, highest = (np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else (-np.inf, np.inf)
    return quantized(step.node, x, scale, operands[2] if len(operands) > 2 else None, lowest, highest)


def _windows(step: Step, blocks: Sequence[Block], box: Box) -> tuple[Array, ...]:
    kind, working = blocks[0][1].dtype, step.op.precision
    least = np.iinfo(kind).min if kind.kind in "iu" else -np.inf
    fill = least if step.node.op_type == "MaxPool" else 0
    laid_out = lay_out(step.reads[0], blocks[0], box, working, fill)
    counted = _counted(step, box) if step.node.op_type == "AveragePool" else None
    centre = lay_out(_centre(step), blocks[0], box, working, 0) if step.node.op_type == "LRN" else None
    return windows(step.node, step.reduced, laid_out, counted, centre)


def _centre(step: Step) -> Operand:
    """The operand of LRN without its window: the output's own axes, since both have one shape."""
    return Operand(step.reads[0].tensor, step.reads[0].shape, step.writes[0].axes)


def _counted(step: Step, box: Box) -> Array:
    """1 over the dims of the op where an index counts for the mean, 0 in padding (which counts if the op says so)."""
    read = step.reads[0]
    assert read.axes is not None
    padded = bool(step.node.attribute("count_include_pad", 0))
    pads = step.node.attribute("pads")
    behind = pads[len(pads) // 2 :] if isinstance(pads, tuple) and padded else (0,) * (len(read.axes) - 2)
    ends = [int(end) for end in behind]
    counted = np.ones((1,) * len(box), dtype=np.float32)
    for axis, end in zip(read.axes[2:], ends, strict=True):
        index = np.full((1,) * len(box), axis.offset)
        for dim, stride in axis.terms:
            index = index + stride * np.arange(*box[dim]).reshape([-1 if i == dim else 1 for i in range(len(box))])
        front = axis.offset if padded else 0
        counted = counted * ((index >= front) & (index < axis.size + end))
    return counted

"""What the lowering rules return, and the few builders that they share. The conventions are in lower.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from accelmodel.graph import Graph, Op
from accelmodel.plan import Access, AxisMap, Dim


@dataclass(frozen=True, slots=True)
class Form:
    """The shape of the work of one op: its iteration space, what it touches, and how many flops it takes.

    flops: of the whole op, 2 x multiply-accumulates. notes: what a reader of the worksheet should know."""

    kind: str
    dims: tuple[Dim, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    flops: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoRule:
    """Why no kernel can be described for an op."""

    reason: str


Rule = Callable[[Graph, Op], Form | NoRule]

SINGLE = AxisMap(())  # index 0: an axis of size 1, or one that a reduction left
WHOLE = AxisMap((), whole=True)


def along(dim: str, stride: int = 1, offset: int = 0) -> AxisMap:
    """An axis indexed by one dim."""
    return AxisMap(((dim, stride),), offset)


def parallel(name: str, size: int) -> Dim:
    return Dim(name, size, "parallel")


def reduction(name: str, size: int) -> Dim:
    return Dim(name, size, "reduction")


def space(shape: Sequence[int], reduced: Iterable[int] = ()) -> tuple[Dim, ...]:
    """One dim an axis, `d0` first; the axes in `reduced` are reduction dims."""
    inner = frozenset(reduced)
    return tuple(Dim(f"d{i}", size, "reduction" if i in inner else "parallel") for i, size in enumerate(shape))


def identity(tensor: str, dims: Sequence[Dim]) -> Access:
    """Each axis indexed by its own dim."""
    return Access(tensor, tuple(along(dim.name) for dim in dims))


def broadcast(graph: Graph, tensor: str, dims: Sequence[Dim], first: int | None = None) -> Access:
    """Axes aligned with the last dims (or with those from `first` on); an axis of size 1 under a longer dim is read at
    index 0. One rule for element-wise operands, scales and biases."""
    shape = graph.tensors[tensor].shape
    start = len(dims) - len(shape) if first is None else first
    under = dims[start : start + len(shape)]
    axes = (along(dim.name) if size == dim.size else SINGLE for size, dim in zip(shape, under, strict=True))
    return Access(tensor, tuple(axes))


def read_whole(graph: Graph, tensor: str) -> Access:
    return Access(tensor, (WHOLE,) * len(graph.tensors[tensor].shape))


def view(graph: Graph, op: Op, *notes: str) -> Form:
    """The output is the input's memory under another shape: no launch, no bytes."""
    dims = space(graph.tensors[op.outputs[0]].shape)
    return Form("view", dims, (Access(op.inputs[0], None),), (identity(op.outputs[0], dims),), 0, notes)


def shape_of(graph: Graph, tensor: str) -> tuple[int, ...]:
    return graph.tensors[tensor].shape


def elements(shape: Iterable[int]) -> int:
    return prod(shape)


def present(names: Sequence[str], index: int) -> str:
    """The operand at `index`, or "" where the op leaves it out."""
    return names[index] if index < len(names) else ""


def known(graph: Graph, op: Op, index: int, attribute: str) -> tuple[int, ...] | NoRule | None:
    """Whole numbers that an op takes as an attribute in old opsets and as an input in new ones; None where absent."""
    value = op.attribute(attribute)
    if value is not None:
        return whole_numbers(value)
    name = present(op.inputs, index)
    if not name:
        return None
    if name not in graph.constants:
        return NoRule(f"{attribute} of {op.op_type} are known only at run time")
    return graph.constants[name]


def whole_numbers(value: object) -> tuple[int, ...]:
    """An attribute of one or several whole numbers as a tuple."""
    items = value if isinstance(value, tuple) else (value,)
    return tuple(int(item) for item in items)


def whole_number(op: Op, attribute: str, default: int) -> int:
    value = op.attribute(attribute)
    return default if value is None else whole_numbers(value)[0]

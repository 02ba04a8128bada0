"""What planning has already worked out, so that repeated layers and hybrids cost nothing.

Two groups of one structure (the same ops on the same shapes, wired alike, the same tensors outside) cost the same, in
whatever layer or model they stand. A memo is an explicit value: whoever compiles several plans passes the same one in.
It changes no result, only when it is worked out, and it forgets everything when it holds `most` entries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from accelmodel.plan import Lowered, LoweredOp

T = TypeVar("T")
Ops = tuple[int, ...]


@dataclass(slots=True)
class Memo:
    """Results by key, and small numbers for large values that keys are made of."""

    most: int = 500_000
    results: dict[Hashable, object] = field(default_factory=dict)
    numbers: dict[Hashable, int] = field(default_factory=dict)
    structures: list[Structure] = field(default_factory=list)

    def once(self, key: Hashable, work_out: Callable[[], T]) -> T:
        """The result under this key, worked out the first time."""
        try:
            return cast(T, self.results[key])
        except KeyError:
            pass
        result = work_out()
        if len(self.results) >= self.most:
            self.results.clear()
        self.results[key] = result
        return result

    def number(self, value: Hashable) -> int:
        """The same small number for equal values."""
        return self.numbers.setdefault(value, len(self.numbers))

    def structure(self, lowered: Lowered) -> Structure:
        """The structure of this lowering; equal lowerings share one."""
        for known in self.structures:
            if known.lowered is lowered or known.lowered == lowered:
                return known
        known = _structure(lowered, self, len(self.structures))
        self.structures.append(known)
        return known


@dataclass(frozen=True, slots=True)
class Structure:
    """A lowering seen without its names.

    number: of this structure in its memo. For each op: `kinds` numbers what it is by itself (type, dims, access maps,
    precision, shapes and element sizes of its tensors); `reads` and `writes` name tensors by (tensor, storage) number.
    For each tensor and each storage: the ops that read it, as a set of bits (of a storage, those that are no views),
    and whether it is an output of the graph.
    """

    lowered: Lowered
    number: int
    kinds: tuple[int, ...]
    reads: tuple[tuple[tuple[int, int], ...], ...]
    writes: tuple[tuple[tuple[int, int], ...], ...]
    readers: tuple[int, ...]
    kept: tuple[bool, ...]

    def key(self, ops: Ops) -> Hashable:
        """Equal for two groups exactly where they are built alike: the same ops in the same order, wired alike, and
        the same of their results read outside."""
        local: dict[int, int] = {}
        inside = 0
        for op in ops:
            inside |= 1 << op
        parts: list[int] = []
        for op in ops:
            parts.append(self.kinds[op])
            for tensor, storage in self.reads[op]:
                parts.append(local.setdefault(tensor, len(local)))
                parts.append(local.setdefault(storage, len(local)))
            for tensor, storage in self.writes[op]:
                parts.append(local.setdefault(tensor, len(local)))
                parts.append(local.setdefault(storage, len(local)))
                parts.append(self.kept[tensor] or self.readers[tensor] & ~inside != 0)
                parts.append(self.kept[storage] or self.readers[storage] & ~inside != 0)
        return tuple(parts)


def _structure(lowered: Lowered, memo: Memo, number: int) -> Structure:
    names: dict[tuple[str, str], int] = {}

    def at(role: str, name: str) -> int:
        return names.setdefault((role, name), len(names))

    def numbers(tensors: Iterable[str]) -> tuple[tuple[int, int], ...]:
        return tuple((at("tensor", name), at("storage", _owner(lowered, name))) for name in tensors)

    reads = tuple(numbers(access.tensor for access in op.reads) for op in lowered.ops)
    writes = tuple(numbers(access.tensor for access in op.writes) for op in lowered.ops)
    outputs = {number for pair in numbers(lowered.graph.outputs) for number in pair}
    readers = [0] * len(names)
    for op, pairs in enumerate(reads):
        for tensor, storage in pairs:
            readers[tensor] |= 1 << op
            readers[storage] |= (lowered.ops[op].kind != "view") << op
    return Structure(
        lowered=lowered,
        number=number,
        kinds=tuple(memo.number(_signature(lowered, i, op)) for i, op in enumerate(lowered.ops)),
        reads=reads,
        writes=writes,
        readers=tuple(readers),
        kept=tuple(number in outputs for number in range(len(names))),
    )


def _owner(lowered: Lowered, tensor: str) -> str:
    while (owner := lowered.storage[tensor]) != tensor:
        tensor = owner
    return tensor


def _signature(lowered: Lowered, number: int, op: LoweredOp) -> Hashable:
    """All of an op but its names."""
    tensors = lowered.graph.tensors
    touched = tuple(
        (access.axes, tensors[access.tensor].shape, tensors[access.tensor].dtype, lowered.element_bytes[access.tensor],
         tensors[access.tensor].role == "weight")
        for access in (*op.reads, *op.writes)
    )  # fmt: skip
    return (
        op.op_type, op.kind, op.engine, op.dims, len(op.reads), touched, op.flops, op.precision, op.accumulator,
        op.kernel, op.launches, lowered.graph.ops[number].attributes,
    )  # fmt: skip

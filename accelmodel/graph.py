"""Vocabulary of a model: tensors, ops and the graph they form, as in ONNX after shape inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from accelmodel.errors import InputError

# Bytes of one element as stored, by element type. int4 packs two elements in a byte.
ELEMENT_BYTES: Mapping[str, float] = {
    "float64": 8.0, "float32": 4.0, "float16": 2.0, "bfloat16": 2.0,
    "float8_e4m3fn": 1.0, "float8_e5m2": 1.0,
    "int64": 8.0, "int32": 4.0, "int16": 2.0, "int8": 1.0, "int4": 0.5,
    "uint64": 8.0, "uint32": 4.0, "uint16": 2.0, "uint8": 1.0, "uint4": 0.5,
    "bool": 1.0,
}  # fmt: skip

AttributeValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array. `role` is `input`, `output`, `weight` (known before the run) or `activation`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> float:
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Op:
    """One node. `inputs` holds "" where an optional input is absent. `name` is unique in its graph."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[tuple[str, AttributeValue], ...] = ()

    def attribute(self, key: str, default: AttributeValue | None = None) -> AttributeValue | None:
        for name, value in self.attributes:
            if name == key:
                return value
        return default


@dataclass(frozen=True, slots=True)
class Graph:
    """A model with every shape bound: ops in topological order, each tensor produced once.

    `constants` holds the values of small integer tensors that shape later lowering (axes, slices, pads).
    `opset` is the version of the default ONNX domain.
    """

    name: str
    ops: tuple[Op, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int
    constants: Mapping[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        produced = set(self.inputs) | {t.name for t in self.tensors.values() if t.role == "weight"}
        seen: set[str] = set()
        for op in self.ops:
            _require(op.name not in seen, op.name, "a unique op name", "it twice")
            seen.add(op.name)
            for name in filter(None, op.inputs):
                _require(name in produced, op.name, f"input {name!r} made by an earlier op", "none that makes it")
            for name in filter(None, op.outputs):
                _require(name in self.tensors, op.name, f"a shape for output {name!r}", "no shape")
                _require(name not in produced, op.name, f"output {name!r} made once", "it made twice")
                produced.add(name)
        for name in self.outputs:
            _require(name in produced, self.name, f"output {name!r} made by an op", "none that makes it")

    def producers(self) -> dict[str, int]:
        """Index of the op that makes each tensor; graph inputs and weights are absent."""
        return {name: i for i, op in enumerate(self.ops) for name in op.outputs if name}

    def consumers(self) -> dict[str, tuple[int, ...]]:
        """Indices of the ops that read each tensor, in order, each op once."""
        readers: dict[str, list[int]] = {}
        for i, op in enumerate(self.ops):
            for name in dict.fromkeys(filter(None, op.inputs)):
                readers.setdefault(name, []).append(i)
        return {name: tuple(ops) for name, ops in readers.items()}


def _require(holds: bool, where: str, expected: str, found: str) -> None:
    if not holds:
        raise InputError(
            stage="ingress", where=f"op or graph {where!r}", expected=expected, found=found,
            remedy="Export the model again, or repair it so that each tensor is made exactly once before it is read.",
        )  # fmt: skip

"""Small lowered graphs written as text, for tests of fusion: only kinds and edges matter there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from accelmodel.graph import Graph, Op, Tensor
from accelmodel.plan import Access, AxisMap, Dim, Lowered, LoweredOp

LETTERS = {
    "c": "contraction", "e": "elementwise", "r": "reduction", "m": "movement", "v": "view", "f": "fallback",
}  # fmt: skip
ENGINES = {"contraction": "matrix", "movement": "data", "fallback": "host"}


def lowered(ops: Mapping[str, str], outputs: Sequence[str] = (), weights: Sequence[str] = (), size: int = 8) -> Lowered:
    """`{"a": "c x w", "b": "e a"}`: op `a` is a contraction that reads `x` and `w`, `b` is element-wise and reads `a`.

    Every op writes one tensor of its own name, shape (size,). Names that no op makes are inputs, or weights where they
    are listed. What nothing reads is an output, beside those listed.
    """
    kinds = {name: LETTERS[text.split()[0]] for name, text in ops.items()}
    reads = {name: tuple(text.split()[1:]) for name, text in ops.items()}
    everything = dict.fromkeys([*ops, *(r for names in reads.values() for r in names)])
    read = {r for names in reads.values() for r in names}
    inputs = tuple(name for name in everything if name not in ops and name not in weights)
    ends = tuple(name for name in ops if name not in read or name in outputs)
    roles = {**dict.fromkeys(inputs, "input"), **dict.fromkeys(weights, "weight"), **dict.fromkeys(ends, "output")}
    graph = Graph(
        name="small",
        ops=tuple(Op(name, kinds[name].title(), "", reads[name], (name,)) for name in ops),
        tensors={name: Tensor(name, (size,), "float32", roles.get(name, "activation")) for name in everything},
        inputs=inputs, outputs=ends, opset=17, constants={},
    )  # fmt: skip
    storage = {name: name for name in everything}
    for name in ops:
        if kinds[name] == "view":
            storage[name] = storage[reads[name][0]]
    return Lowered(
        graph=graph,
        ops=tuple(_op(name, kinds[name], reads[name], size) for name in ops),
        element_bytes=dict.fromkeys(everything, 4.0),
        storage=storage,
    )


def _op(name: str, kind: str, reads: tuple[str, ...], size: int) -> LoweredOp:
    axes = None if kind == "view" else (AxisMap((("i", 1),)),)
    return LoweredOp(
        name=name, op_type=kind.title(), kind=kind, engine=ENGINES.get(kind, "vector"),
        dims=(Dim("i", size, "parallel"),),
        reads=tuple(Access(r, axes) for r in dict.fromkeys(reads)), writes=(Access(name, axes),),
        flops=0 if kind in ("view", "movement") else size, precision="float32", accumulator="float32",
        kernel="" if kind in ("view", "fallback") else kind, launches=0 if kind == "view" else 1,
        fallback_reason="no kernel" if kind == "fallback" else None,
    )  # fmt: skip


def random_lowered(random: Random, count: int, kinds: str = "cer", width: int = 3) -> Lowered:
    """A random graph of `count` ops; each reads one or two of the last `width` values, or the input."""
    ops: dict[str, str] = {}
    for number in range(count):
        values = ["x", *list(ops)[-width:]]
        read = random.sample(values, min(len(values), random.choice((1, 1, 2))))
        kind = random.choice(kinds)
        ops[f"n{number}"] = " ".join((kind, *(read[:1] if kind == "v" else read)))
    return lowered(ops)

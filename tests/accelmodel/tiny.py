"""Tiny lowered graphs, built by hand: one iteration space after another, no importer and no lowering rule involved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from accelmodel.graph import ELEMENT_BYTES, Graph, Op, Tensor
from accelmodel.plan import Access, AxisMap, Dim, Group, Lowered, LoweredOp
from accelmodel.target import Engine, Memory, Target

RATES = {"float32": 1.0, "float16": 1.0, "int8": 1.0, "int32": 1.0}


def machine(
    *,
    cores: int = 1,
    native: tuple[int, int, int] = (16, 16, 16),
    macs_per_ns: float = 256.0,
    sram_bytes: int = 128 * 1024,
    accumulator_bytes: int = 1,
    dram_bytes_per_ns: float = 1.0,
    core_dram_bytes_per_ns: float = 1e6,
    l2_bytes: int = 0,
    half_transfer_bytes: float = 0.0,
    launch_ns: float = 100.0,
    barrier_ns: float = 10.0,
    lanes: int = 16,
    sram_bytes_per_ns: float = 1e6,
    dram_capacity_bytes: int = 1 << 40,
) -> Target:
    """A machine of round figures: the engines at full efficiency, every precision at the same rate."""
    matrix = dict.fromkeys(RATES, 2.0 * macs_per_ns)
    vector = dict.fromkeys(RATES, float(lanes))
    return Target(
        name="machine", kind="npu", cores=cores,
        engines={
            "matrix": Engine("matrix", matrix, native, 1.0),
            "vector": Engine("vector", vector, (1, lanes, 1), 1.0),
            "data": Engine("data", {}, (1, lanes, 1), 1.0),
        },
        sram=Memory("sram", "core", sram_bytes, sram_bytes_per_ns, 1, 0.0),
        l2=Memory("l2", "device", l2_bytes, 100.0, 1, 0.0) if l2_bytes else None,
        dram=Memory("dram", "device", dram_capacity_bytes, dram_bytes_per_ns, 1, half_transfer_bytes),
        accumulator_bytes=accumulator_bytes, core_dram_bytes_per_ns=core_dram_bytes_per_ns, host_launch_ns=launch_ns,
        graph_launch_ns=launch_ns / 10, barrier_ns=barrier_ns, fallback_launch_ns=1000.0, host_flops_per_ns=2.0,
        host_bytes_per_ns=4.0, sources={},
    )  # fmt: skip


def axes(text: str) -> tuple[AxisMap, ...]:
    """`"m k"`: axis 0 is m, axis 1 is k. `2*y+k-1`: a window; `.`: broadcast; `*`: whole."""
    return tuple(_axis(word) for word in text.split())


def _axis(word: str) -> AxisMap:
    if word in (".", "*"):
        return AxisMap((), whole=word == "*")
    terms, offset = [], 0
    for part in word.replace("-", "+-").split("+"):
        name = part.lstrip("-").rpartition("*")[2]
        if name.isdigit():
            offset += int(part)
        elif part:
            stride = part.rpartition("*")[0]
            terms.append((name, int(stride) if stride else 1))
    return AxisMap(tuple(terms), offset)


def op(
    name: str,
    kind: str,
    sizes: Mapping[str, int],
    reads: Mapping[str, str],
    writes: Mapping[str, str],
    *,
    reduced: str = "",
    flops: int | None = None,
    precision: str = "int8",
    accumulator: str = "int8",
    launches: int = 1,
) -> LoweredOp:
    """One op; `reduced` names its reduction dims. Contractions count 2 flops a point, views and movement none."""
    per_point = {"contraction": 2, "view": 0, "movement": 0}.get(kind, 1)
    view = kind == "view"
    return LoweredOp(
        name=name, op_type=kind.title(), kind=kind,
        engine={"contraction": "matrix", "movement": "data", "view": "data", "fallback": "host"}.get(kind, "vector"),
        dims=tuple(Dim(d, n, "reduction" if d in reduced.split() else "parallel") for d, n in sizes.items()),
        reads=tuple(Access(tensor, None if view else axes(text)) for tensor, text in reads.items()),
        writes=tuple(Access(tensor, axes(text)) for tensor, text in writes.items()),
        flops=per_point * prod(sizes.values()) if flops is None else flops, precision=precision,
        accumulator=accumulator, kernel="" if kind in ("view", "fallback") else kind,
        launches=0 if view else launches, fallback_reason="no kernel" if kind == "fallback" else None,
    )  # fmt: skip


def world(
    ops: Sequence[LoweredOp],
    shapes: Mapping[str, Sequence[int]],
    *,
    weights: Sequence[str] = (),
    outputs: Sequence[str] = (),
    dtype: str = "int8",
) -> Lowered:
    """A lowered graph of these ops. Tensors that no op makes are inputs or weights; what nothing reads is an output."""
    made = [access.tensor for o in ops for access in o.writes]
    read = {access.tensor for o in ops for access in o.reads}
    ends = tuple(outputs) or tuple(name for name in made if name not in read)
    roles = {name: "input" for name in shapes if name not in made}
    roles |= dict.fromkeys(weights, "weight") | dict.fromkeys(ends, "output")
    graph = Graph(
        name="tiny",
        ops=tuple(
            Op(o.name, o.op_type, "", tuple(a.tensor for a in o.reads), tuple(a.tensor for a in o.writes)) for o in ops
        ),
        tensors={name: Tensor(name, tuple(s), dtype, roles.get(name, "activation")) for name, s in shapes.items()},
        inputs=tuple(name for name in shapes if roles.get(name) == "input"), outputs=ends, opset=17, constants={},
    )  # fmt: skip
    storage = {name: name for name in shapes}
    for o in ops:
        if o.kind == "view":
            storage[o.writes[0].tensor] = storage[o.reads[0].tensor]
    return Lowered(graph, tuple(ops), dict.fromkeys(shapes, ELEMENT_BYTES[dtype]), storage)


def with_ops(lowered: Lowered, ops: Sequence[LoweredOp]) -> Lowered:
    return replace(lowered, ops=tuple(ops))


def replace_reads(lowered_op: LoweredOp, reads: Sequence[Access]) -> LoweredOp:
    return replace(lowered_op, reads=tuple(reads))


def everything(lowered: Lowered) -> Group:
    """All ops as one group."""
    return Group("all", tuple(range(len(lowered.ops))))


def alone(index: int) -> Group:
    return Group(f"op{index}", (index,))


# --- small graphs ---


def gemm(m: int, n: int, k: int, *, dtype: str = "int8", accumulator: str = "int8") -> Lowered:
    """c[m, n] = a[m, k] b[k, n]"""
    product = _product("gemm", "a", "b", "c", m, n, k, dtype, accumulator)
    return world([product], {"a": (m, k), "b": (k, n), "c": (m, n)}, weights=["b"], dtype=dtype)


def gemm_bias_relu(m: int, n: int, k: int, *, dtype: str = "int8", accumulator: str = "int8") -> Lowered:
    ops = [
        _product("gemm", "a", "b", "c", m, n, k, dtype, accumulator),
        op("bias", "elementwise", {"m": m, "n": n}, {"c": "m n", "v": "n"}, {"d": "m n"}, precision=dtype),
        op("relu", "elementwise", {"m": m, "n": n}, {"d": "m n"}, {"e": "m n"}, precision=dtype),
    ]
    shapes = {"a": (m, k), "b": (k, n), "v": (n,), "c": (m, n), "d": (m, n), "e": (m, n)}
    return world(ops, shapes, weights=["b", "v"], dtype=dtype)


def two_gemms(
    m: int, k: int, h: int, n: int, *, gelu: bool = False, dtype: str = "int8", accumulator: str = "int8"
) -> Lowered:
    """y[m, n] = f(x[m, k] w[k, h]) v[h, n], f element-wise or nothing."""
    ops = [
        _product("first", "x", "w", "t", m, h, k, dtype, accumulator),
        *([op("gelu", "elementwise", {"i": m, "j": h}, {"t": "i j"}, {"u": "i j"}, precision=dtype)] if gelu else []),
        _product("second", "u" if gelu else "t", "v", "y", m, n, h, dtype, accumulator),
    ]
    shapes = {"x": (m, k), "w": (k, h), "t": (m, h), "v": (h, n), "y": (m, n)} | ({"u": (m, h)} if gelu else {})
    return world(ops, shapes, weights=["w", "v"], dtype=dtype)


def _product(
    name: str, left: str, right: str, out: str, m: int, n: int, k: int, dtype: str, accumulator: str
) -> LoweredOp:
    return op(
        name, "contraction", {"m": m, "n": n, "k": k}, {left: "m k", right: "k n"}, {out: "m n"}, reduced="k",
        precision=dtype, accumulator=accumulator,
    )  # fmt: skip


def convolution(
    name: str, image: str, weight: str, out: str, channels: int, features: int, size: int, kernel: int = 3
) -> LoweredOp:
    """Same-size convolution of one [channels, size, size] image, odd kernel."""
    pad = kernel // 2
    sizes = {"f": features, "y": size, "x": size, "c": channels, "i": kernel, "j": kernel}
    window = f"c y+i-{pad} x+j-{pad}" if pad else "c y+i x+j"
    return op(
        name, "contraction", sizes, {image: window, weight: "f c i j"}, {out: "f y x"}, reduced="c i j",
    )  # fmt: skip


def two_convolutions(channels: int, size: int) -> Lowered:
    """Two 3x3 convolutions of [channels, size, size]: the second needs a halo of the first."""
    ops = [
        convolution("conv1", "x", "w1", "t", channels, channels, size),
        convolution("conv2", "t", "w2", "y", channels, channels, size),
    ]
    image, weight = (channels, size, size), (channels, channels, 3, 3)
    return world(ops, {"x": image, "w1": weight, "t": image, "w2": weight, "y": image}, weights=["w1", "w2"])


def chain(length: int, m: int, n: int) -> Lowered:
    """`length` element-wise ops on [m, n]."""
    ops = [op(f"e{i}", "elementwise", {"m": m, "n": n}, {f"t{i}": "m n"}, {f"t{i + 1}": "m n"}) for i in range(length)]
    return world(ops, {f"t{i}": (m, n) for i in range(length + 1)})


def softmax(m: int, n: int) -> Lowered:
    """Softmax over the rows of [m, n]."""
    rows = op("softmax", "reduction", {"m": m, "n": n}, {"x": "m n"}, {"y": "m n"}, reduced="n")
    return world([rows], {"x": (m, n), "y": (m, n)})


def diamond(m: int, n: int) -> Lowered:
    """a feeds b and c, which d joins."""
    sizes = {"m": m, "n": n}
    ops = [
        op("a", "elementwise", sizes, {"x": "m n"}, {"p": "m n"}),
        op("b", "elementwise", sizes, {"p": "m n"}, {"q": "m n"}),
        op("c", "elementwise", sizes, {"p": "m n"}, {"r": "m n"}),
        op("d", "elementwise", sizes, {"q": "m n", "r": "m n"}, {"y": "m n"}),
    ]
    return world(ops, dict.fromkeys("xpqry", (m, n)))


def attention(heads: int, rows: int, columns: int, width: int) -> Lowered:
    """softmax(q k') v for each head."""
    scores = {"h": heads, "m": rows, "n": columns}
    ops = [
        op("scores", "contraction", {**scores, "d": width}, {"q": "h m d", "k": "h n d"}, {"s": "h m n"}, reduced="d"),
        op("softmax", "reduction", scores, {"s": "h m n"}, {"p": "h m n"}, reduced="n"),
        op(
            "mix", "contraction", {"h": heads, "m": rows, "e": width, "n": columns},
            {"p": "h m n", "v": "h n e"}, {"o": "h m e"}, reduced="n",
        ),
    ]  # fmt: skip
    long, square = (heads, columns, width), (heads, rows, columns)
    return world(
        ops, {"q": (heads, rows, width), "k": long, "s": square, "p": square, "v": long, "o": (heads, rows, width)}
    )

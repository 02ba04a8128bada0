"""Lower bounds of one group that no plan of it can beat: DRAM bytes and latency.

DRAM: every external input is read at least once and every output written once. Of an input only what is accessed
counts: what the group's outputs need (demand.py), the positions that the strides reach, and of an axis from which the
data pick (the rows of a table) a single one, since all picks may agree. For one contraction the I/O bound of
`contraction_io_bytes` is taken where it is larger.

Latency, without launches and barriers: the slowest of each engine at its peak on all cores with unpadded flops, and
the DRAM bound at the DRAM's peak. An op on the host pays its round trip, its link and its arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod, sqrt

from accelmodel.boundary import Boundary, boundary, storage_bytes, storage_of
from accelmodel.contraction import contracted
from accelmodel.cost_terms import fallback_ns
from accelmodel.demand import Counts, least_dims, least_positions
from accelmodel.estimate import engine_rate
from accelmodel.graph import ELEMENT_BYTES
from accelmodel.plan import Access, Bound, Group, Lowered, LoweredOp
from accelmodel.target import Target


def bound(lowered: Lowered, group: Group, target: Target) -> Bound:
    """Bounds of one group on one target, whatever its tiles, loop order, placement and number of cores."""
    edge = boundary(lowered, group)
    if edge.root < 0:
        return Bound(0, 0.0)
    if edge.fallback:
        moved = storage_bytes(lowered, edge.external) + storage_bytes(lowered, edge.outputs)
        return Bound(moved, fallback_ns(sum(op.flops for op in edge.ops), moved, target))
    needed = least_dims(edge)
    dram_bytes = max(_once_bytes(edge, needed), _io_bytes(edge, target))
    engines_ns = _engines_ns(edge, target, needed)
    return Bound(dram_bytes, max(engines_ns, dram_bytes / target.dram.bandwidth_bytes_per_ns))


def contraction_io_bytes(
    macs: int, results: int, widths: tuple[float, float, float], result_bytes: float, on_chip_bytes: float
) -> float:
    """Least DRAM traffic of a matrix product: 2 MNK sqrt(bA bB bC) / sqrt(S) - 2 S - MN max(0, bC - bO).

    macs: MNK, over all batches. results: MN, over all batches. widths: bytes of an element of A, of B and of a partial
    sum of C. result_bytes: bO, bytes of a finished result as it is written. on_chip_bytes: S, all memory on chip.

    Proof (after Irony, Toledo and Tiskin 2004, with weights). Count the crossing of a finished result as bC bytes: the
    true traffic is less by at most MN max(0, bC - bO). Cut the run into phases that each move exactly 2 S bytes, but
    for the last. A phase can use the a, b and c elements of A, B and C that are on chip when it begins or arrive in
    it, or that leave it (partial sums, finished results): bA a + bB b + bC c <= S + 2 S. By Loomis and Whitney it does
    at most sqrt(a b c) multiply-accumulates (over several batches too: sqrt(a b c) is superadditive), which under that
    constraint is largest where all three terms are S: S^1.5 / sqrt(bA bB bC). So there are at least
    MNK sqrt(bA bB bC) / S^1.5 phases, all but the last of which move 2 S bytes.
    """
    traffic = 2.0 * macs * sqrt(prod(widths)) / sqrt(on_chip_bytes)
    return traffic - 2.0 * on_chip_bytes - results * max(0.0, widths[2] - result_bytes)


def on_chip_bytes(target: Target) -> int:
    """All memory that is not DRAM: SRAM and accumulators of every core, and the L2."""
    cache = target.l2.capacity_bytes if target.l2 else 0
    return target.cores * (target.sram.capacity_bytes + target.accumulator_bytes) + cache


def _once_bytes(edge: Boundary, needed: Mapping[int, Counts]) -> int:
    """External inputs once, as far as they are accessed, and outputs once; by storage."""
    accessed: dict[str, float] = {}
    for step, counts in needed.items():
        op = edge.ops[step]
        for read in op.reads:
            storage = storage_of(edge.lowered, read.tensor)
            if storage in edge.external:
                size = accessed_elements(op, read, edge.lowered, counts) * edge.lowered.element_bytes[read.tensor]
                accessed[storage] = max(accessed.get(storage, 0.0), size)
    # Each storage is charged in whole bytes by a plan, so each is rounded by itself.
    return sum(int(size) for size in accessed.values()) + storage_bytes(edge.lowered, edge.outputs)


def accessed_elements(op: LoweredOp, read: Access, lowered: Lowered, needed: Counts) -> int:
    """Fewest distinct elements of an operand that the op can do with. needed: how much of each dim it works through."""
    shape = lowered.graph.tensors[read.tensor].shape
    axes = tuple(zip(read.axes or (), shape, strict=True))
    counts = [least_positions(op, axis, size, needed) for axis, size in axes]
    uses = Counter(name for axis in read.axes or () for name in {name for name, _ in axis.terms})
    if any(times > 1 for times in uses.values()):
        return max(counts, default=1)  # a diagonal: axes are not free of each other
    return prod(counts)


def _io_bytes(edge: Boundary, target: Target) -> int:
    """The I/O bound of a group whose only work is one matrix product, with element-wise ops on its results; else 0."""
    launching = [op for op in edge.ops if op.kind != "view"]
    first, rest = launching[0], launching[1:]
    if first.kind != "contraction" or not _is_matrix_product(first, edge):
        return 0
    results = prod(edge.lowered.graph.tensors[first.writes[0].tensor].shape)
    shapes = [prod(edge.lowered.graph.tensors[write.tensor].shape) for op in rest for write in op.writes]
    if not edge.outputs or any(op.kind != "elementwise" for op in rest) or any(shape != results for shape in shapes):
        return 0
    left, right = contracted(first)
    assert left is not None and right is not None
    sizes = edge.lowered.element_bytes
    widths = (sizes[left.tensor], sizes[right.tensor], ELEMENT_BYTES[first.accumulator])
    narrowest = min(sizes[name] for name in edge.outputs)
    macs = prod(dim.size for dim in first.dims)
    return max(0, int(contraction_io_bytes(macs, results, widths, narrowest, on_chip_bytes(target))))


def _is_matrix_product(op: LoweredOp, edge: Boundary) -> bool:
    """Two external operands of different memory, every axis indexed by one dim of its own: no window, no slice."""
    operands = contracted(op)
    storages = set()
    for access in operands:
        if access is None or access.axes is None:
            return False
        storages.add(storage_of(edge.lowered, access.tensor))
        terms = [axis.terms for axis in access.axes if axis.terms]
        if any(axis.whole for axis in access.axes) or any(len(t) > 1 or abs(t[0][1]) != 1 for t in terms):
            return False
        if len({t[0][0] for t in terms}) != len(terms):
            return False
    return len(storages) == 2 and storages <= set(edge.external) and len(op.writes) == 1


def _engines_ns(edge: Boundary, target: Target, needed: Mapping[int, Counts]) -> float:
    """The busiest engine, at its peak, on all cores, with the share of each op that is needed."""
    busy: dict[str, float] = {}
    for step, counts in needed.items():
        op = edge.ops[step]
        if op.flops:
            peak, _ = engine_rate(op, target)
            share = prod(counts.values()) / max(1, prod(dim.size for dim in op.dims))
            busy[op.engine] = busy.get(op.engine, 0.0) + op.flops * share / (peak * target.cores)
    return max(busy.values(), default=0.0)

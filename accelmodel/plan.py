"""Vocabulary of the stages' results: lowered ops, groups, tile plans, kernels, placements, the plan.

Every stage is `verb(input, settings) -> output` over these frozen values. Units are in the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from accelmodel.graph import Graph

KINDS = ("contraction", "elementwise", "reduction", "movement", "view", "fallback")
BOTTLENECKS = ("launch", "compute", "dram", "sram", "spill", "sync", "queue", "imbalance", "fallback")


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of an iteration space. `role`: `parallel` or `reduction`."""

    name: str
    size: int
    role: str


@dataclass(frozen=True, slots=True)
class AxisMap:
    """Index of one tensor axis: sum of stride x dim, plus offset. Convolution: h = 2*oh + 1*kh - 3.

    No terms: a broadcast axis (extent 1) or one that is read whole (`whole=True`, e.g. the gathered axis of a table).
    """

    terms: tuple[tuple[str, int], ...]
    offset: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """How an op touches one tensor. `axes` has one map a tensor axis, in order; None for a view, whose regions
    follow from the two shapes in row-major order (split and merge of axes)."""

    tensor: str
    axes: tuple[AxisMap, ...] | None


@dataclass(frozen=True, slots=True)
class LoweredOp:
    """One op with its iteration space.

    kind: one of KINDS. engine: matrix, vector, data or host. flops: of the whole op, unpadded (2 x MACs).
    precision: type the engine works in. accumulator: type it accumulates in.
    launches: launches when it runs alone (views 0). kernel: name of the kernel that covers it, "" for views and
    fallback.
    fallback_reason: why no kernel covers it, None where one does. notes: what lowering decided, for the worksheet.
    """

    name: str
    op_type: str
    kind: str
    engine: str
    dims: tuple[Dim, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    flops: int
    precision: str
    accumulator: str
    kernel: str
    launches: int
    fallback_reason: str | None = None
    notes: tuple[str, ...] = ()

    def dim_sizes(self) -> dict[str, int]:
        return {dim.name: dim.size for dim in self.dims}


@dataclass(frozen=True, slots=True)
class Lowered:
    """The lowered graph. `ops[i]` lowers `graph.ops[i]` (same order and names; nothing is dropped).

    element_bytes: bytes of one stored element, by tensor, at the side's precision.
    storage: tensor -> the tensor whose memory it shares (views alias their input; others map to themselves).
    """

    graph: Graph
    ops: tuple[LoweredOp, ...]
    element_bytes: Mapping[str, float]
    storage: Mapping[str, str]

    def tensor_bytes(self, name: str) -> float:
        return prod(self.graph.tensors[name].shape) * self.element_bytes[name]


@dataclass(frozen=True, slots=True)
class Group:
    """Ops fused into one kernel: ascending indices into Lowered.ops. `reason`: why these were put together."""

    name: str
    ops: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grouping:
    """A partition of all ops into groups, in an executable order. `exact`: least modelled cost is proven.

    `notes` say what was capped or not tried."""

    policy: str
    groups: tuple[Group, ...]
    exact: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """On-chip space that a kernel needs. Half-open lifetime [start, end) counted in steps (ops) of the kernel.

    role: `stream` (external operand, by blocks), `operand` (external, whole region), `intermediate`, `output`,
    `accumulator`."""

    name: str
    tensor: str
    role: str
    size_bytes: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TilePlan:
    """How one group is worked through. All sizes refer to the parallel dims of the root op (`root`, an index into
    Lowered.ops), outermost loop first in `loop_order`.

    tile: (dim, size). trips: (dim, number of tiles). k_tile: block of a contraction's first reduction dim that is
    worked on at once, of the last contraction where there are several (0 = no contraction). tiles: product of trips.
    waves: ceil(tiles / cores). cores: cores that get work.
    buffers: per core, before placement and before any spill; accumulators only with their excess over the accumulator
    space. peak_bytes: the most that is live at one step. spill_bytes: DRAM bytes, written and read again over the
    whole kernel, of what exceeds the capacity. notes: what the search decided and why.
    stream_depth: what one transfer of a streamed operand brings in: native blocks of the reduction for a contraction,
    rows of the region for other ops. cores_allowed: cores that the kernel could have used (0 = `cores`).
    """

    root: int
    tile: tuple[tuple[str, int], ...]
    loop_order: tuple[str, ...]
    trips: tuple[tuple[str, int], ...]
    k_tile: int
    tiles: int
    waves: int
    cores: int
    double_buffer: bool
    buffers: tuple[Buffer, ...]
    peak_bytes: int
    capacity_bytes: int
    spill_bytes: int
    candidates_tried: int
    notes: tuple[str, ...] = ()
    stream_depth: int = 1
    cores_allowed: int = 0


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Cost of one kernel run alone on the machine, each term by a named function of cost.py.

    Bytes are totals of the kernel. dram bytes cross the DRAM boundary and include spill and halo. l2_bytes: moved
    between L2 and cores (0 without L2). requested_bytes: see cost.requested_bytes.
    sram_ns: time to move operands, intermediates and results through the cores' SRAM, beside the engines.
    busy_ns = time from start to end without launch and barrier; launch_ns counts every launch;
    barrier_ns counts every barrier; total_ns = busy + barrier + launch as if no launch were hidden.
    """

    flops: int
    padded_flops: int
    dram_read_bytes: int
    dram_write_bytes: int
    spill_bytes: int
    halo_bytes: int
    l2_bytes: int
    requested_bytes: int
    compute_ns: float
    dram_ns: float
    l2_ns: float
    fallback_ns: float
    launches: int
    launch_ns: float
    barriers: int
    barrier_ns: float
    busy_ns: float
    total_ns: float
    bottleneck: str
    sram_ns: float = 0.0

    @property
    def dram_bytes(self) -> int:
        return self.dram_read_bytes + self.dram_write_bytes


@dataclass(frozen=True, slots=True)
class Bound:
    """Provable lower bounds of one group: DRAM bytes and latency (ns, without launch)."""

    dram_bytes: int
    latency_ns: float


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No tile of this group can run: what it asks for, what there is, and what is missing.

    memory: what falls short, `sram` or `dram`."""

    group: str
    demand_bytes: int
    capacity_bytes: int
    shortfall_bytes: int
    reason: str
    memory: str = "sram"


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    buffer: Buffer
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Offsets of one kernel's buffers in a core's SRAM. height_bytes: the top of the highest one.

    spilled: buffers that found no place and live in DRAM by rule (they cost `placement_spill_bytes`, written and
    read once a tile, over the whole kernel). lower_bound_bytes: peak of live bytes. method: which order won."""

    group: str
    placed: tuple[PlacedBuffer, ...]
    spilled: tuple[Buffer, ...]
    height_bytes: int
    capacity_bytes: int
    lower_bound_bytes: int
    placement_spill_bytes: int
    method: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """One group, ready to run: the worksheet has one row for each."""

    group: Group
    tile_plan: TilePlan | None  # None: views only, or a fallback op, which no tile describes
    placement: Placement | None
    cost: KernelCost
    bound: Bound


@dataclass(frozen=True, slots=True)
class Plan:
    """Groups, tile plans and placements of one workload on one target: the worksheet is its table.

    `workload` names model, bucket and batch. infeasible: groups that no tile can hold (a plan with any cannot run)."""

    workload: str
    target: str
    lowered: Lowered
    grouping: Grouping
    kernels: tuple[Kernel, ...]
    infeasible: tuple[Infeasible, ...]
    cores: int

    @property
    def launch_ns(self) -> float:
        return sum(kernel.cost.launch_ns for kernel in self.kernels)

    @property
    def dram_bytes(self) -> int:
        return sum(kernel.cost.dram_bytes for kernel in self.kernels)

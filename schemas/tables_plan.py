"""Tables of a plan: ops, the fusion and tile-plan worksheet, buffers, primary metrics, the bandwidth lens."""

from __future__ import annotations

from typing import get_args

import polars as pl

from schemas.candidate import SIDES
from schemas.columns import BYTES, NANOSECONDS, flag, integer, number, rule, table, text
from schemas.decision import Bottleneck
from schemas.policy import Evidence
from schemas.zones import ZONES

OP_KINDS = ("contraction", "elementwise", "reduction", "movement", "view", "fallback")
ENGINES = ("matrix", "vector", "data", "host")
BUFFER_ROLES = ("stream", "operand", "intermediate", "output", "accumulator")
FUSION_POLICIES = ("none", "pattern", "optimal", "aggressive")
BOTTLENECKS: tuple[str, ...] = get_args(Bottleneck)

PLAN_KEYS = {
    "side": text("Which of the two releases the row is about.", one_of=SIDES),
    "workload": text("Name of the workload."),
    "bucket": text("Name of the shape bucket; `fallback` where no bucket covers the shapes."),
    "batch": integer("Requests in the batch that the plan is made for.", "requests", low=1),
}

OPS = table(
    "ops",
    "Every op of a lowered graph, in execution order: nothing is dropped.",
    {
        **PLAN_KEYS,
        "position": integer("Place of the op in the graph, from 0.", "index"),
        "op": text("Name of the op, as in the model."),
        "op_type": text("ONNX op type."),
        "kind": text("What sort of work it is; `fallback` where no kernel covers it.", one_of=OP_KINDS),
        "engine": text("The engine it runs on.", one_of=ENGINES),
        "precision": text("Element type that the engine works in."),
        "accumulator": text("Element type that it accumulates in."),
        "dims": text("Iteration space: name, size and role (parallel or reduction) of each dim."),
        "group": text("Name of the group, and so of the kernel, that the op belongs to."),
        "flops": integer("Arithmetic of the whole op, unpadded; a multiply-accumulate counts 2.", "flops"),
        "read_bytes": integer("Each operand once.", BYTES),
        "write_bytes": integer("Each result once.", BYTES),
        "requested_bytes": integer("Operands and results at the engine's native tile, re-reads included.", BYTES),
        "fallback_reason": text("Why no kernel covers the op; null where one does.", nullable=True),
        "notes": text("What lowering decided; empty where nothing is to be said."),
    },
    [
        rule(
            ["kind", "fallback_reason"],
            "a reason exactly where the kind is fallback",
            (pl.col("kind") == "fallback") == pl.col("fallback_reason").is_not_null(),
        )
    ],
)

KERNELS = table(
    "kernels",
    "The fusion and tile-plan worksheet: one row for each kernel of a plan, in execution order.",
    {
        **PLAN_KEYS,
        "position": integer("Place of the kernel in the plan, from 0.", "index"),
        "group": text("Name of the group and of its kernel."),
        "ops": text("Names of its ops in order, parted by `, `."),
        "op_count": integer("Ops in the group.", "ops", low=1),
        "reason": text("Why these ops share one kernel."),
        "policy": text("Fusion policy that made the group.", one_of=FUSION_POLICIES),
        "exact": flag("Whether the grouping is proven to have the least modelled cost."),
        "tile": text("Tile size by dim; empty where no tile describes the kernel (views, fallback)."),
        "loop_order": text("Loops over tiles, outermost first."),
        "k_tile": integer("Block of the reduction that is streamed; 0 where none is.", "elements"),
        "tiles": integer("Tiles that the kernel works through.", "tiles"),
        "waves": integer("Rounds in which the cores work through the tiles.", "waves"),
        "cores": integer("Cores that get work.", "cores"),
        "double_buffer": flag("Whether transfers overlap compute."),
        "launches": integer("Launches of the kernel; views need none.", "launches"),
        "flops": integer("Arithmetic, unpadded; a multiply-accumulate counts 2.", "flops"),
        "padded_flops": integer("Arithmetic that the engine does on padded tiles.", "flops"),
        "dram_read_bytes": integer("Read across the DRAM boundary, spill and halo included.", BYTES),
        "dram_write_bytes": integer("Written across the DRAM boundary, spill included.", BYTES),
        "dram_bytes": integer("All bytes across the DRAM boundary.", BYTES),
        "spill_bytes": integer("DRAM traffic of what exceeds the on-chip space, placement spill included.", BYTES),
        "placement_spill_bytes": integer("The part of the spill of buffers that found no place.", BYTES),
        "halo_bytes": integer("Read again because neighbouring tiles overlap.", BYTES),
        "l2_bytes": integer("Moved between the shared cache and the cores; 0 without such a cache.", BYTES),
        "requested_bytes": integer("Sum of the requested bytes of its ops.", BYTES),
        "peak_bytes": integer("Most on-chip bytes live at one step, per core.", BYTES),
        "capacity_bytes": integer("On-chip bytes there are, per core.", BYTES),
        "compute_ns": number("Engine time.", NANOSECONDS),
        "dram_ns": number("DRAM transfer time, alone on the machine.", NANOSECONDS),
        "l2_ns": number("Shared-cache transfer time.", NANOSECONDS),
        "fallback_ns": number("Time on the host of ops without a kernel.", NANOSECONDS),
        "barrier_ns": number("Fixed cost of its barriers.", NANOSECONDS),
        "launch_ns": number("Host time of all its launches, hidden or not.", NANOSECONDS),
        "exposed_launch_ns": number("Launch time that the device waits for.", NANOSECONDS),
        "busy_ns": number("From start to end, without launch and barrier.", NANOSECONDS),
        "total_ns": number("Busy, barrier and launch time, as if no launch were hidden.", NANOSECONDS),
        "unfused_ns": number("The same ops as one kernel each, total.", NANOSECONDS),
        "unfused_bottleneck": text("Bottleneck class of the same ops as one kernel each.", one_of=BOTTLENECKS),
        "bottleneck": text("Bottleneck class of the kernel.", one_of=BOTTLENECKS),
        "bound_dram_bytes": integer("Provable lower bound on its DRAM traffic.", BYTES),
        "bound_latency_ns": number("Provable lower bound on its latency, without launch.", NANOSECONDS),
        "dram_over_bound": number("DRAM bytes over their bound; null where the bound is 0.", "ratio", nullable=True),
        "latency_over_bound": number("Busy time over its bound; null where the bound is 0.", "ratio", nullable=True),
        "measured_ns": number("Time measured in a profile; null where none was.", NANOSECONDS, nullable=True),
    },
    [
        rule(
            ["dram_bytes", "dram_read_bytes", "dram_write_bytes"],
            "dram_bytes = dram_read_bytes + dram_write_bytes",
            pl.col("dram_bytes") == pl.col("dram_read_bytes") + pl.col("dram_write_bytes"),
        ),
        rule(
            ["placement_spill_bytes", "spill_bytes", "dram_bytes"],
            "placement_spill_bytes <= spill_bytes <= dram_bytes",
            (pl.col("placement_spill_bytes") <= pl.col("spill_bytes"))
            & (pl.col("spill_bytes") <= pl.col("dram_bytes")),
        ),
        rule(["flops", "padded_flops"], "flops <= padded_flops", pl.col("flops") <= pl.col("padded_flops")),
        rule(
            ["exposed_launch_ns", "launch_ns"],
            "exposed_launch_ns <= launch_ns",
            pl.col("exposed_launch_ns") <= pl.col("launch_ns") * (1 + 1e-9) + 1e-3,
        ),
    ],
)

BUFFERS = table(
    "buffers",
    "On-chip buffers of each kernel, per core: lifetime and place.",
    {
        **PLAN_KEYS,
        "group": text("Name of the group and of its kernel."),
        "buffer": text("Name of the buffer."),
        "tensor": text("Tensor that it holds a region of."),
        "role": text("What the buffer is for.", one_of=BUFFER_ROLES),
        "size_bytes": integer("Size.", BYTES),
        "offset_bytes": integer("Place in the memory; null where it was spilled.", BYTES, nullable=True),
        "start_step": integer("First step (op of the kernel) at which it is live.", "step"),
        "end_step": integer("First step at which it is no longer live.", "step"),
        "spilled": flag("Whether it found no place and lives in DRAM by rule."),
    },
    [
        rule(["start_step", "end_step"], "end_step after start_step", pl.col("end_step") > pl.col("start_step")),
        rule(
            ["spilled", "offset_bytes"],
            "an offset exactly where the buffer is not spilled",
            pl.col("spilled") == pl.col("offset_bytes").is_null(),
        ),
    ],
)

METRICS = table(
    "metrics",
    "Primary metrics of each plan; weights make them ratios of traffic-weighted sums.",
    {
        **PLAN_KEYS,
        "weight": number("Share of the traffic that this plan serves.", "share", high=1.0),
        "evidence": text("What kind of evidence the row rests on.", one_of=get_args(Evidence)),
        "launches": integer("Launches of one run of the plan.", "launches"),
        "launch_ns": number("Host time of all launches, hidden or not.", NANOSECONDS),
        "exposed_launch_ns": number("Launch time that the device waits for.", NANOSECONDS),
        "reference_launch_ns": number(
            "Launch time of the reference: the comparator's lowering, launch mode and shapes, unfused.", NANOSECONDS
        ),
        "launch_overhead_reduction": number(
            "1 - launch_ns / reference_launch_ns; null where it is missing.", "ratio", low=None, high=1.0, nullable=True
        ),
        "dram_bytes": integer("All bytes across the DRAM boundary.", BYTES),
        "requested_bytes": integer("Requested bytes of the comparator's unfused lowering at this side's sizes.", BYTES),
        "on_chip_reuse_ratio": number(
            "1 - dram_bytes / requested_bytes; null where it is missing.", "ratio", low=None, high=1.0, nullable=True
        ),
        "spill_bytes": integer("DRAM traffic of what exceeds the on-chip space.", BYTES),
        "working_set_ratio": number("Largest working set of a kernel over the on-chip capacity.", "ratio"),
        "fallback_op_share": number("Share of the ops (views left out) that no kernel covers.", "share", high=1.0),
        "total_ns": number("One run of the plan alone on the machine, launches counted in full.", NANOSECONDS),
    },
)

SWEEP = table(
    "sweep",
    "The bandwidth lens: each fusion policy's working-set pressure, from none to aggressive.",
    {
        **PLAN_KEYS,
        "policy": text("Fusion policy of the row.", one_of=FUSION_POLICIES),
        "launches": integer("Launches of one run of the plan.", "launches"),
        "launch_ns": number("Host time of all launches, hidden or not.", NANOSECONDS),
        "dram_bytes": integer("All bytes across the DRAM boundary.", BYTES),
        "spill_bytes": integer("DRAM traffic of what exceeds the on-chip space.", BYTES),
        "peak_bytes": integer("Largest working set of a kernel, per core.", BYTES),
        "capacity_bytes": integer("On-chip bytes there are, per core.", BYTES),
        "working_set_ratio": number("peak_bytes / capacity_bytes.", "ratio"),
        "dram_demand_ratio": number("DRAM rate that the busy kernels of all cores ask for, over the peak.", "ratio"),
        "busy_ns": number("Kernels' time without launch and barrier.", NANOSECONDS),
        "total_ns": number("One run of the plan alone on the machine, launches counted in full.", NANOSECONDS),
        "zone": text("Zone of the bandwidth lens.", one_of=ZONES),
    },
)

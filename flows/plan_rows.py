"""Rows of the plan tables (ops, kernels, buffers, timeline) from a plan. Pure: values in, rows out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelmodel.cost import requested_bytes
from accelmodel.plan import Kernel, KernelCost, Lowered, LoweredOp, Plan
from accelmodel.target import Target
from accelmodel.timeline import Timeline

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class PlanKeys:
    """What names a plan in every table."""

    side: str
    workload: str
    bucket: str
    batch: int

    def row(self) -> Row:
        return {"side": self.side, "workload": self.workload, "bucket": self.bucket, "batch": self.batch}


def op_rows(keys: PlanKeys, plan: Plan, target: Target) -> Iterator[Row]:
    """Every op in order, with the group that it is in."""
    groups = {op: group.name for group in plan.grouping.groups for op in group.ops}
    for position, op in enumerate(plan.lowered.ops):
        yield {
            **keys.row(), "position": position, "op": op.name, "op_type": op.op_type, "kind": op.kind,
            "engine": op.engine, "precision": op.precision, "accumulator": op.accumulator, "dims": _dims(op),
            "group": groups[position], "flops": op.flops,
            "read_bytes": _bytes(plan.lowered, [access.tensor for access in op.reads]),
            "write_bytes": _bytes(plan.lowered, [access.tensor for access in op.writes]),
            "requested_bytes": requested_bytes(op, plan.lowered, target),
            "fallback_reason": op.fallback_reason, "notes": "; ".join(op.notes),
        }  # fmt: skip


def kernel_rows(
    keys: PlanKeys,
    plan: Plan,
    target: Target,
    exposed_ns: Sequence[float],
    alone: Mapping[str, Sequence[KernelCost]],
    measured_ns: Mapping[str, float],
) -> Iterator[Row]:
    """The worksheet. exposed_ns: of each kernel, in order. alone: group -> costs of its ops as one kernel each.
    measured_ns: group -> time in a profile."""
    for position, (kernel, exposed) in enumerate(zip(plan.kernels, exposed_ns, strict=True)):
        name = kernel.group.name
        unfused = alone[name] or (kernel.cost,)
        ops = [plan.lowered.ops[op] for op in kernel.group.ops]
        slowest = max(unfused, key=lambda cost: cost.total_ns)
        yield {
            **keys.row(), "position": position, "group": name,
            "ops": ", ".join(op.name for op in ops), "op_count": len(ops),
            "reason": kernel.group.reason, "policy": plan.grouping.policy, "exact": plan.grouping.exact,
            **_tile_columns(kernel, target), **_cost_columns(kernel),
            "requested_bytes": sum(requested_bytes(op, plan.lowered, target) for op in ops),
            "exposed_launch_ns": exposed, "unfused_ns": sum(cost.total_ns for cost in unfused),
            "unfused_bottleneck": slowest.bottleneck, **_bound_columns(kernel), "measured_ns": measured_ns.get(name),
        }  # fmt: skip


def buffer_rows(keys: PlanKeys, plan: Plan) -> Iterator[Row]:
    """Every buffer of every kernel, placed or spilled."""
    for kernel in plan.kernels:
        if kernel.placement is None:
            continue
        placed = [(item.buffer, item.offset_bytes) for item in kernel.placement.placed]
        spilled = [(buffer, None) for buffer in kernel.placement.spilled]
        for buffer, offset in [*placed, *spilled]:
            yield {
                **keys.row(), "group": kernel.group.name, "buffer": buffer.name, "tensor": buffer.tensor,
                "role": buffer.role, "size_bytes": buffer.size_bytes, "offset_bytes": offset,
                "start_step": buffer.start, "end_step": buffer.end, "spilled": offset is None,
            }  # fmt: skip


def timeline_rows(keys: PlanKeys, timeline: Timeline) -> Iterator[Row]:
    """What runs when, for one run of a plan alone on the machine."""
    for event in timeline.events:
        yield {
            **keys.row(), "lane": event.lane, "name": event.name, "kind": event.kind, "group": event.group,
            "start_ps": event.start_ps, "end_ps": event.end_ps, "dram_bytes": event.dram_bytes,
        }  # fmt: skip


def _dims(op: LoweredOp) -> str:
    return ", ".join(f"{dim.name}={dim.size} {dim.role}" for dim in op.dims)


def _bytes(lowered: Lowered, tensors: Sequence[str]) -> int:
    return round(sum(lowered.tensor_bytes(name) for name in tensors if name))


def _tile_columns(kernel: Kernel, target: Target) -> Row:
    tile = kernel.tile_plan
    if tile is None:
        return {
            "tile": "", "loop_order": "", "k_tile": 0, "tiles": 0, "waves": 0, "cores": 0, "double_buffer": False,
            "peak_bytes": 0, "capacity_bytes": target.sram.capacity_bytes,
        }  # fmt: skip
    return {
        "tile": ", ".join(f"{dim}={size}" for dim, size in tile.tile), "loop_order": ", ".join(tile.loop_order),
        "k_tile": tile.k_tile, "tiles": tile.tiles, "waves": tile.waves, "cores": tile.cores,
        "double_buffer": tile.double_buffer, "peak_bytes": tile.peak_bytes, "capacity_bytes": tile.capacity_bytes,
    }  # fmt: skip


def _cost_columns(kernel: Kernel) -> Row:
    cost = kernel.cost
    spill_bytes = kernel.placement.placement_spill_bytes if kernel.placement else 0
    names = (
        "launches", "flops", "padded_flops", "dram_read_bytes", "dram_write_bytes", "dram_bytes", "spill_bytes",
        "halo_bytes", "l2_bytes", "compute_ns", "dram_ns", "l2_ns", "fallback_ns", "barrier_ns", "launch_ns", "busy_ns",
        "total_ns", "bottleneck",
    )  # fmt: skip
    return {**{name: getattr(cost, name) for name in names}, "placement_spill_bytes": spill_bytes}


def _bound_columns(kernel: Kernel) -> Row:
    bound, cost = kernel.bound, kernel.cost
    return {
        "bound_dram_bytes": bound.dram_bytes, "bound_latency_ns": bound.latency_ns,
        "dram_over_bound": cost.dram_bytes / bound.dram_bytes if bound.dram_bytes else None,
        "latency_over_bound": cost.busy_ns / bound.latency_ns if bound.latency_ns else None,
    }  # fmt: skip

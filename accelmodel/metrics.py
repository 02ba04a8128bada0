"""The primary metrics of a plan, as the release gate defines them, and what the bandwidth lens looks at.

launch overhead reduction = 1 - launch time of the plan / launch time of the reference. on-chip reuse ratio = 1 - DRAM
bytes / requested bytes. The reference is the same for both sides: the policy `none` plan of the comparator's lowering,
launch mode and shapes (compile.reference_plan makes it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelmodel.cost import requested_bytes
from accelmodel.plan import Lowered, Plan
from accelmodel.target import Target


@dataclass(frozen=True, slots=True)
class PrimaryMetrics:
    """Of one plan: times in ns of one run alone on the machine, bytes of one run.

    launch_ns counts every launch; exposed_launch_ns is what the device waits for. The two ratios are None where the
    reference has no launch time, or nothing is requested. working_set_ratio: largest peak of a kernel over the
    on-chip capacity. fallback_op_share: of the ops that are not views. total_ns counts launches in full.
    """

    launches: int
    launch_ns: float
    exposed_launch_ns: float
    reference_launch_ns: float
    launch_overhead_reduction: float | None
    dram_bytes: int
    requested_bytes: int
    on_chip_reuse_ratio: float | None
    spill_bytes: int
    working_set_ratio: float
    fallback_op_share: float
    total_ns: float


def primary_metrics(plan: Plan, reference: Plan, target: Target, exposed_launch_ns: float) -> PrimaryMetrics:
    """Metrics of `plan`; `reference` is the comparator's policy `none` plan of the same workload and shapes.

    exposed_launch_ns: of one run alone on the machine, as the timeline finds it.
    """
    requested = requested_by(reference.lowered, plan.lowered, target)
    return PrimaryMetrics(
        launches=sum(kernel.cost.launches for kernel in plan.kernels),
        launch_ns=plan.launch_ns,
        exposed_launch_ns=exposed_launch_ns,
        reference_launch_ns=reference.launch_ns,
        launch_overhead_reduction=_reduction(plan.launch_ns, reference.launch_ns),
        dram_bytes=plan.dram_bytes,
        requested_bytes=requested,
        on_chip_reuse_ratio=_reduction(plan.dram_bytes, requested),
        spill_bytes=sum(kernel.cost.spill_bytes for kernel in plan.kernels),
        working_set_ratio=working_set_ratio(plan, target),
        fallback_op_share=_fallback_share(plan.lowered),
        total_ns=sum(kernel.cost.total_ns for kernel in plan.kernels),
    )


def overall(metrics: Sequence[PrimaryMetrics], weights: Sequence[float]) -> tuple[float | None, float | None]:
    """Launch overhead reduction and on-chip reuse ratio over several workloads: ratios of weighted sums."""

    def total(name: str) -> float:
        return float(sum(weight * getattr(item, name) for item, weight in zip(metrics, weights, strict=True)))

    launches = _reduction(total("launch_ns"), total("reference_launch_ns"))
    return launches, _reduction(total("dram_bytes"), total("requested_bytes"))


def requested_by(reference: Lowered, side: Lowered, target: Target) -> int:
    """Bytes that the reference's ops ask for one by one, with the side's element sizes for the tensors that it has."""
    sizes = {name: side.element_bytes.get(name, size) for name, size in reference.element_bytes.items()}
    sized = replace(reference, element_bytes=sizes)
    return sum(requested_bytes(op, sized, target) for op in sized.ops)


def peak_bytes(plan: Plan) -> int:
    """Largest working set of a kernel, bytes per core, before anything is spilled."""
    return max((kernel.tile_plan.peak_bytes for kernel in plan.kernels if kernel.tile_plan), default=0)


def working_set_ratio(plan: Plan, target: Target) -> float:
    return peak_bytes(plan) / target.sram.capacity_bytes


def dram_demand_ratio(plan: Plan, target: Target) -> float:
    """DRAM rate that running kernels ask for when every slot of the device runs the plan, over the peak."""
    busy_ns = sum(kernel.cost.busy_ns for kernel in plan.kernels)
    if busy_ns == 0:
        return 0.0
    slots = target.cores // plan.cores
    return plan.dram_bytes / busy_ns * slots / target.dram.bandwidth_bytes_per_ns


def _fallback_share(lowered: Lowered) -> float:
    launching = [op for op in lowered.ops if op.kind != "view"]
    return sum(op.kind == "fallback" for op in launching) / max(1, len(launching))


def _reduction(value: float, reference: float) -> float | None:
    return 1.0 - value / reference if reference > 0 else None

"""The bandwidth lens: the same side under each fusion policy, from no fusion to all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from accelmodel.compile import compile_plan
from accelmodel.graph import Graph
from accelmodel.memo import Memo
from accelmodel.metrics import dram_demand_ratio, peak_bytes, working_set_ratio
from accelmodel.plan import Plan
from accelmodel.settings import FusionSettings, Settings
from accelmodel.target import Target

SWEEP_POLICIES = ("none", "pattern", "optimal", "aggressive")
SWEEP_EXACT_OPS = 4


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One policy of the bandwidth lens: one run of the plan, alone on the machine. Bytes, ns, ratios."""

    policy: str
    groups: int
    infeasible: int
    launches: int
    launch_ns: float
    dram_bytes: int
    spill_bytes: int
    peak_bytes: int
    capacity_bytes: int
    working_set_ratio: float
    dram_demand_ratio: float
    busy_ns: float
    total_ns: float


def fusion_sweep(
    graph: Graph, target: Target, settings: Settings, workload: str, memo: Memo | None = None
) -> tuple[SweepRow, ...]:
    """The side's settings under each policy in turn, from no fusion to all of it: too little and too much.

    The side's own policy is planned as the side plans it. Elsewhere `optimal` is exact over smaller groups (at most
    SWEEP_EXACT_OPS): the sweep shows a course, and the last percent of one of its points is not worth a minute.
    """
    memo = memo or Memo()
    plans = (
        compile_plan(graph, target, replace(settings, fusion=_fusion(settings.fusion, policy)), workload, memo)
        for policy in SWEEP_POLICIES
    )
    return tuple(_sweep_row(plan, target) for plan in plans)


def _fusion(own: FusionSettings, policy: str) -> FusionSettings:
    exact_ops = own.exact_ops if policy == own.policy else min(own.exact_ops, SWEEP_EXACT_OPS)
    return replace(own, policy=policy, exact_ops=exact_ops)


def _sweep_row(plan: Plan, target: Target) -> SweepRow:
    costs = [kernel.cost for kernel in plan.kernels]
    return SweepRow(
        policy=plan.grouping.policy,
        groups=len(plan.grouping.groups),
        infeasible=len(plan.infeasible),
        launches=sum(cost.launches for cost in costs),
        launch_ns=plan.launch_ns,
        dram_bytes=plan.dram_bytes,
        spill_bytes=sum(cost.spill_bytes for cost in costs),
        peak_bytes=peak_bytes(plan),
        capacity_bytes=target.sram.capacity_bytes,
        working_set_ratio=working_set_ratio(plan, target),
        dram_demand_ratio=dram_demand_ratio(plan, target),
        busy_ns=sum(cost.busy_ns for cost in costs),
        total_ns=sum(cost.total_ns for cost in costs),
    )

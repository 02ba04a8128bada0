"""Who owns a finding, and what to do first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flows.judge.checks import CheckResult
from flows.judge.facts import FACTS
from schemas.decision import Bottleneck
from schemas.policy import Check, Policy, Role, Stage

# First action by mechanism: the cheapest thing that tells more or mends it.
FIRST_ACTIONS: Final[Mapping[Stage, str]] = {
    "ingress": "Compare the bucket rule and the admission limit of both sides; add the shapes that no bucket covers.",
    "lowering": "Compare kernels, precisions and fallback ops of both sides in the table of ops.",
    "fusion": "Move the fusion boundary of the offending groups (settings.fusion.split_before) and run again.",
    "tiling": "Compare the tile plans of the groups whose DRAM bytes or padded flops grew; restore those tiles.",
    "placement": "Compare the placement of the kernels with spilled buffers; lower reserve_bytes or change the order.",
    "execution": "Compare launch mode, barriers and clock of both sides; profile the kernels that grew.",
    "scheduling": "Restore the comparator's batching and core policy, then change one of them at a time.",
    "assembly": "Check how results are split back to their requests; restore the order of arrival.",
}
# Where the bottleneck class says more than the mechanism alone.
SHARPER_ACTIONS: Final[Mapping[tuple[Stage, Bottleneck], str]] = {
    (
        "fusion",
        "spill",
    ): "Split the groups that spill (see the worksheet) with settings.fusion.split_before, run again.",
    ("fusion", "dram"): "Split the groups with the highest DRAM demand (worksheet) with settings.fusion.split_before.",
    ("fusion", "launch"): "Fuse more: compare the launches of each group with the comparator's in the worksheet.",
    ("tiling", "spill"): "Choose smaller tiles for the groups that spill: compare peak_bytes with capacity_bytes.",
    ("execution", "launch"): "Restore the comparator's launch mode.",
    ("execution", "sync"): "Remove the barriers that the comparator does not have.",
    ("scheduling", "imbalance"): "Restore the comparator's core policy.",
}
WITHOUT_MECHANISM: Final = "Find the stage: compare the sides' settings and drivers, and add replications."


def owner_of(policy: Policy, check: Check, mechanism: Stage | None) -> tuple[Role, str]:
    """Role and holder of a finding: the check's own owner, else the mechanism's, else that of the metric's home stage.

    A role that the policy names nobody for stands for itself.
    """
    role = check.owner or policy.ownership[mechanism or FACTS[check.metric].home]
    return role, holder(policy, role)


def holder(policy: Policy, role: Role) -> str:
    """Who holds a role; the role itself where the policy names nobody."""
    return policy.owners.get(role) or role


def give_missing(result: CheckResult) -> str:
    """What to do for a check without a value: mend the cause where it is known."""
    if not result.cause:
        return "Give the evidence that is missing, and run again."
    return (
        f"Mend what keeps the outputs from being run ({result.cause}): replace the op, or waive check "
        f"{result.check.id} with a reason and a date; then run again."
    )


def action_for(result: CheckResult, mechanism: Stage | None, bottleneck: Bottleneck | None) -> str:
    """The first action: what the policy says, else the sharpest that status, mechanism and bottleneck class allow."""
    if result.check.action:
        return result.check.action
    if result.status == "missing":
        return give_missing(result)
    if result.status == "undecided":
        further = result.further
        return (
            f"Add about {further} replications, and run again." if further else "Lengthen the traffic, and run again."
        )
    if mechanism is None:
        return WITHOUT_MECHANISM
    if bottleneck is not None and (mechanism, bottleneck) in SHARPER_ACTIONS:
        return SHARPER_ACTIONS[mechanism, bottleneck]
    return FIRST_ACTIONS[mechanism]

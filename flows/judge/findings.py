"""Findings: every check that did not pass and every mismatch of the lock, each with mechanism, owner, action, proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flows.judge import words
from flows.judge.checks import CheckResult
from flows.judge.facts import STAGES
from flows.judge.isolation import Isolation, Mechanism
from flows.judge.lock import Mismatch
from flows.judge.ownership import action_for, holder, owner_of
from schemas.anchors import anchor
from schemas.decision import Bottleneck, Finding
from schemas.policy import Policy

_SEVERITIES = ("blocking", "warning")
_STATUSES = ("fail", "missing", "undecided", "waived", "pass")


def lock_findings(mismatches: Iterable[Mismatch], policy: Policy) -> tuple[Finding, ...]:
    """Mismatches as findings of stage `ingress`."""
    role = policy.ownership["ingress"]
    return tuple(
        Finding(
            id=f"lock/{item.field}", check=f"lock-{item.kind}", scope="overall", status="fail",
            severity="blocking" if item.blocking else "warning", mechanism="ingress", isolation="lock",
            bottleneck=None, owner_role=role, owner=holder(policy, role), summary=item.text, action=item.action,
            proof=anchor("lock", item.field),
        )
        for item in mismatches
    )  # fmt: skip


def check_findings(
    results: Sequence[CheckResult],
    isolation: Isolation,
    bottlenecks: Mapping[tuple[str, str], Bottleneck | None],
    policy: Policy,
) -> tuple[Finding, ...]:
    """One finding for each result that is not `pass`: blocking before warning, failures first, then in stage order."""
    made = [_finding(result, isolation, bottlenecks, policy) for result in results if result.status != "pass"]
    return tuple(sorted(made, key=_order))


def _finding(
    result: CheckResult,
    isolation: Isolation,
    bottlenecks: Mapping[tuple[str, str], Bottleneck | None],
    policy: Policy,
) -> Finding:
    check, scope = result.key
    mechanism = isolation.of(check, scope)
    stage = None if mechanism is None else mechanism.stage
    bottleneck = bottlenecks.get(result.key)
    role, owner = owner_of(policy, result.check, stage)
    return Finding(
        id=f"{check}/{scope}", check=check, scope=scope, status=result.status, severity=result.check.severity,
        mechanism=stage, isolation="not isolated" if mechanism is None else mechanism.isolation,
        bottleneck=bottleneck, owner_role=role, owner=owner, summary=_summary(result, mechanism),
        action=action_for(result, stage, bottleneck),
        proof=anchor("checks", check, scope) if mechanism is None else mechanism.proof,
    )  # fmt: skip


def _summary(result: CheckResult, mechanism: Mechanism | None) -> str:
    text = f"{words.metric_name(result.check.metric)}, {result.scope}: {result.message}."
    if mechanism is None:
        return text
    more = f" Interaction: {mechanism.interaction}." if mechanism.interaction else ""
    return f"{text} {mechanism.reason[0].upper()}{mechanism.reason[1:]}.{more}"


def _order(finding: Finding) -> tuple[int, int, int]:
    place = len(STAGES) if finding.mechanism is None else STAGES.index(finding.mechanism)
    return _SEVERITIES.index(finding.severity), _STATUSES.index(finding.status), place

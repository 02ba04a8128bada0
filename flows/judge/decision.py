"""The decision: GO, HOLD or NO_GO, with reasons, findings, owners and the next action. It never defaults to good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from flows.judge import words
from flows.judge.checks import CheckResult
from flows.judge.findings import check_findings, lock_findings
from flows.judge.isolation import Isolation, first_stage
from flows.judge.lock import Mismatch
from flows.judge.ownership import give_missing
from flows.judge.stability import Instability
from schemas.decision import Bottleneck, Decision, Drill, Finding, RollbackCriterion, Verdict
from schemas.policy import Evidence, Policy, Stage, Waiver

EXIT_CODES: Mapping[Verdict, Literal[0, 1, 2]] = {"GO": 0, "NO_GO": 1, "HOLD": 2}
LONGEST_WAIVER_DAYS = 366


@dataclass(frozen=True, slots=True)
class Case:
    """Everything a verdict rests on.

    results: before waivers. bottlenecks: by (check, scope). drill: None where no criterion could be made.
    planned_only: the candidate's plan is our planner's and no profile exists; model_only_accepted: the candidate file
    says `model_only: true`. warnings: what the figures carry with them, for the report.
    """

    run_id: str
    candidate_name: str
    policy: Policy
    results: tuple[CheckResult, ...]
    mismatches: tuple[Mismatch, ...]
    instabilities: tuple[Instability, ...]
    isolation: Isolation
    bottlenecks: Mapping[tuple[str, str], Bottleneck | None]
    criteria: tuple[RollbackCriterion, ...]
    drill: Drill | None
    evidence: tuple[Evidence, ...]
    changed_stages: tuple[Stage, ...]
    planned_only: bool
    model_only_accepted: bool
    today: date
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run is not GO, and what would resolve it. cost: rank of that action, the cheapest first."""

    verdict: Literal["HOLD", "NO_GO"]
    text: str
    action: str
    cost: int


# Ranks of actions by what they cost: a line in a file, a longer replay, another run, a change of the candidate.
EDIT, REPLAY, RERUN, MEASURE, CHANGE = range(5)


def decide(case: Case) -> Decision:
    """The verdict of a run.

    A blocking mismatch of the lock gives HOLD and outranks everything. Then proven harm, a broken limit or a broken
    correctness check gives NO_GO. Then whatever keeps the gate from knowing gives HOLD. What is left is GO.
    """
    results = final_results(case)
    applied = waived(case.results, case.policy, case.today)[1]
    reasons = _lock_reasons(case) or [*_harm_reasons(results), *_hold_reasons(case, results)]
    verdict = _verdict(case, reasons)
    findings = (*lock_findings(case.mismatches, case.policy),
                *check_findings(results, case.isolation, case.bottlenecks, case.policy))  # fmt: skip
    first = _first_mechanism(case, results)
    first_finding = _first_finding(findings, first)
    return Decision(
        run_id=case.run_id,
        candidate_name=case.candidate_name,
        verdict=verdict,
        exit_code=EXIT_CODES[verdict],
        reasons=_reason_texts(verdict, reasons, results),
        next_action=_next_action(verdict, reasons, first_finding, case.criteria),
        model_only=case.planned_only,
        evidence=case.evidence,
        changed_stages=case.changed_stages,
        first_failing_mechanism=first,
        first_finding=None if first_finding is None else first_finding.id,
        findings=findings,
        rollback=case.criteria,
        drill=case.drill,
        waivers_applied=tuple(
            f"{item.check}: {item.reason} ({item.signed_by}, until {item.until})" for item in applied
        ),
        warnings=(*case.warnings, *_warnings(case, verdict)),
    )


def final_results(case: Case) -> tuple[CheckResult, ...]:
    """The results as they count: after waivers, and without failures against an unstable comparator."""
    return _without_unstable(waived(case.results, case.policy, case.today)[0], case.instabilities)


def waived(
    results: Iterable[CheckResult], policy: Policy, today: date
) -> tuple[tuple[CheckResult, ...], tuple[Waiver, ...]]:
    """The results with those of validly waived checks set to `waived`, and the waivers that were needed."""
    valid = {item.check: item for item in policy.waivers if waiver_problem(item, today) is None}
    used: dict[str, Waiver] = {}
    changed = []
    for result in results:
        waiver = valid.get(result.check.id)
        if waiver is not None and result.status != "pass":
            used[waiver.check] = waiver
            text = f"waived by {waiver.signed_by} until {waiver.until} ({waiver.reason}); was {result.status}: "
            result = replace(result, status="waived", message=text + result.message)
        changed.append(result)
    return tuple(changed), tuple(used.values())


def waiver_problem(waiver: Waiver, today: date) -> str | None:
    """Why a waiver does not count; None where it does. One that practically never ends is no dated exception."""
    if waiver.until < today:
        return f"the waiver of {waiver.check} expired on {waiver.until}"
    if (waiver.until - today).days > LONGEST_WAIVER_DAYS:
        return f"the waiver of {waiver.check} runs until {waiver.until}, more than {LONGEST_WAIVER_DAYS} days ahead"
    if not waiver.reason.strip() or not waiver.signed_by.strip():
        return f"the waiver of {waiver.check} has no reason or no signature"
    return None


def _without_unstable(results: Sequence[CheckResult], instabilities: Iterable[Instability]) -> tuple[CheckResult, ...]:
    """A failure against a comparator that fails against itself proves nothing."""
    unstable = {item.check: item.text for item in instabilities}
    return tuple(
        replace(result, status="undecided", message=f"{result.message}; but {unstable[result.check.id]}")
        if result.status == "fail" and result.check.id in unstable and result.check.margin is not None
        else result
        for result in results
    )


def _lock_reasons(case: Case) -> list[Reason]:
    return [
        Reason("HOLD", f"The sides must not be compared: {item.text}.", item.action, MEASURE)
        for item in case.mismatches
        if item.blocking
    ]


def _harm_reasons(results: Iterable[CheckResult]) -> list[Reason]:
    return [
        Reason("NO_GO", f"{_name(result)} fails: {result.message}.", "", CHANGE)
        for result in results
        if result.blocking and result.status == "fail"
    ]


def _hold_reasons(case: Case, results: Sequence[CheckResult]) -> list[Reason]:
    return [*_unknown_reasons(results), *_trust_reasons(case), *_rehearsal_reasons(case)]


def _unknown_reasons(results: Sequence[CheckResult]) -> list[Reason]:
    """Blocking checks that say nothing."""
    reasons = []
    if not any(result.blocking and result.status in ("pass", "fail") for result in results):
        reasons.append(Reason("HOLD", "No blocking check came to a result.", "Give the policy blocking checks.", EDIT))
    for result in results:
        if result.blocking and result.status == "missing":
            action = f"Give the evidence that {_name(result)} needs: {result.message}."
            action = give_missing(result) if result.cause else action
            reasons.append(Reason("HOLD", f"{_name(result)} is missing: {result.message}.", action, RERUN))
        if result.blocking and result.status == "undecided":
            further = result.further
            more = f"Add about {further} replications to policy.replications." if further else _unknown_action(result)
            reasons.append(Reason("HOLD", f"{_name(result)} is undecided: {result.message}.", more, REPLAY))
    return reasons


def _unknown_action(result: CheckResult) -> str:
    return f"Lengthen the traffic or add replications until {_name(result)} can be decided."


def _trust_reasons(case: Case) -> list[Reason]:
    """What keeps the evidence from being believed as it stands."""
    reasons = [
        Reason("HOLD", f"The comparator is unstable in {item.check}: {item.text}.",
               "Add replications, or run the comparator again under quiet conditions.", REPLAY)
        for item in case.instabilities
    ]  # fmt: skip
    for waiver in case.policy.waivers:
        problem = waiver_problem(waiver, case.today)
        if problem is not None:
            action = f"Renew the waiver of {waiver.check} with a date within a year, or remove it."
            reasons.append(Reason("HOLD", f"{problem[0].upper()}{problem[1:]}.", action, EDIT))
    if case.planned_only and not case.model_only_accepted:
        text = "MODEL-ONLY: the candidate's plan is the planner's own and no profile was measured."
        action = "Say `model_only: true` in the candidate file to accept that, or give a measured profile."
        reasons.append(Reason("HOLD", text, action, EDIT))
    if not case.evidence:
        reasons.append(Reason("HOLD", "No evidence of any kind is behind this run.", "Run the gate again.", RERUN))
    return reasons


def _rehearsal_reasons(case: Case) -> list[Reason]:
    if case.drill is None:
        text = "No rollback was rehearsed: no criterion could be made from the replay."
        action = "Lower policy.rollback.min_samples, or lengthen the traffic, so that its windows fill."
        return [Reason("HOLD", text, action, EDIT)]
    if not case.drill.passed:
        action = "Lower policy.rollback.tolerance or min_samples until the drill fires and recovers."
        return [Reason("HOLD", f"The rollback drill failed: {case.drill.text}", action, EDIT)]
    return []


def _verdict(case: Case, reasons: Sequence[Reason]) -> Verdict:
    if any(item.blocking for item in case.mismatches):
        return "HOLD"
    if any(reason.verdict == "NO_GO" for reason in reasons):
        return "NO_GO"
    return "HOLD" if reasons else "GO"


def _reason_texts(verdict: Verdict, reasons: Sequence[Reason], results: Sequence[CheckResult]) -> tuple[str, ...]:
    """Reasons of the verdict first, the others after them: what else is known is not hidden."""
    if verdict == "GO":
        passed = sum(result.blocking and result.status == "pass" for result in results)
        waived_count = sum(result.blocking and result.status == "waived" for result in results)
        more = f", {waived_count} waived" if waived_count else ""
        return (f"Every blocking check passes: {passed} of {passed + waived_count}{more}.",)
    own = [reason.text for reason in reasons if reason.verdict == verdict]
    return (*own, *(reason.text for reason in reasons if reason.verdict != verdict))


def _next_action(
    verdict: Verdict, reasons: Sequence[Reason], first: Finding | None, criteria: Sequence[RollbackCriterion]
) -> str:
    if verdict == "GO":
        return f"Release, and watch {', '.join(map(_watched, criteria))}."
    if verdict == "NO_GO":
        return first.action if first is not None else "Mend the checks that fail."
    own = [reason for reason in reasons if reason.verdict == "HOLD"]
    return min(own, key=lambda reason: reason.cost).action if own else "Run the gate again."


def _watched(criterion: RollbackCriterion) -> str:
    """`latency p99 (roll back above 41.4 ms: rollback-latency-p99)`."""
    threshold = words.values(criterion.metric, criterion.threshold)[0]
    return f"{words.metric_name(criterion.metric)} (roll back above {threshold}: {criterion.id})"


def _first_mechanism(case: Case, results: Sequence[CheckResult]) -> Stage | None:
    """`ingress` where the lock is broken; else the smallest mechanism of a blocking check that stands as failed."""
    if any(item.blocking for item in case.mismatches):
        return "ingress"
    standing = {result.key for result in results if result.status == "fail"}
    return first_stage(item for item in case.isolation.mechanisms if (item.check, item.scope) in standing)


def _first_finding(findings: Sequence[Finding], mechanism: Stage | None) -> Finding | None:
    """The blocking failure of the first failing mechanism; else the first that blocks; else none."""
    blocking = [finding for finding in findings if finding.severity == "blocking" and finding.status != "waived"]
    failed = [finding for finding in blocking if finding.status == "fail"] or blocking
    same = [finding for finding in failed if finding.mechanism == mechanism and mechanism is not None]
    return next(iter(same or failed), None)


def _warnings(case: Case, verdict: Verdict) -> tuple[str, ...]:
    found = [f"{item.text[0].upper()}{item.text[1:]}. {item.action}" for item in case.mismatches if not item.blocking]
    if case.planned_only:
        found.append("MODEL-ONLY: no measured profile is behind this verdict.")
    if verdict == "NO_GO" and case.drill is not None and not case.drill.passed:
        found.append(f"The rollback drill failed: {case.drill.text}")
    return tuple(found)


def _name(result: CheckResult) -> str:
    return result.check.id if result.scope == "overall" else f"{result.check.id} ({result.scope})"

"""Results of the judgement as rows of the tables `checks` and `history`. (Isolation makes those of `mechanisms`.)"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flows.judge.checks import CheckResult
from flows.judge.facts import FACTS, MetricValues
from flows.judge.isolation import Isolation
from flows.judge.ownership import owner_of
from schemas.decision import Decision, Run
from schemas.policy import Policy

Row = dict[str, object]


def check_rows(results: Sequence[CheckResult], isolation: Isolation, policy: Policy) -> list[Row]:
    """Rows of `checks`, in the order of the policy. A finding's owner is its mechanism's; else the metric's."""
    return [_check_row(result, isolation, policy) for result in results]


def history_rows(run: Run, decision: Decision, comparator: MetricValues, candidate: MetricValues) -> list[Row]:
    """Rows of `history`: the mean of every metric that has a value, for both sides."""
    sides = {"comparator": comparator, "candidate": candidate}
    return [
        {
            "run_id": run.run_id,
            "created": run.created,
            "candidate_name": run.candidate_name,
            "verdict": decision.verdict,
            "first_failing_mechanism": decision.first_failing_mechanism,
            "metric": metric,
            "scope": scope,
            "side": side,
            "value": float(np.mean(values)),
        }
        for side, of_side in sides.items()
        for (metric, scope), values in sorted(of_side.items())
        if metric in FACTS and len(values) and bool(np.all(np.isfinite(values)))
    ]


def _check_row(result: CheckResult, isolation: Isolation, policy: Policy) -> Row:
    check, facts = result.check, result.facts
    mechanism = isolation.of(*result.key)
    role, owner = owner_of(policy, check, None if mechanism is None else mechanism.stage)
    return {
        "check": check.id,
        "metric": check.metric,
        "scope": result.scope,
        "unit": facts.unit,
        "evidence": facts.evidence,
        "severity": check.severity,
        "direction": facts.direction,
        "comparator_value": result.comparator_value,
        "candidate_value": result.candidate_value,
        "change": result.change,
        "interval_low": result.interval_low,
        "interval_high": result.interval_high,
        "margin": check.margin,
        "limit": check.limit,
        "p_harm": result.p_harm,
        "samples": result.samples,
        "status": result.status,
        "owner_role": role,
        "owner": owner,
        "message": result.message,
    }

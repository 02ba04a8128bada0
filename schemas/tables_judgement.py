"""Tables of the judgement: the validation matrix, the mechanism table, the history of all runs."""

from __future__ import annotations

from typing import get_args

import polars as pl

from schemas.candidate import SIDES
from schemas.columns import flag, instant, integer, number, rule, table, text
from schemas.decision import Status, Verdict
from schemas.policy import Evidence, Metric, Role, Stage

STAGES: tuple[str, ...] = get_args(Stage)
STATUSES: tuple[str, ...] = get_args(Status)
METRICS: tuple[str, ...] = get_args(Metric)
DIRECTIONS = ("lower_is_better", "higher_is_better")
EXPERIMENTS = ("prefix", "suffix", "single", "cure")

_INTERVAL = rule(
    ["interval_low", "interval_high"],
    "interval_low <= interval_high",
    pl.col("interval_low") <= pl.col("interval_high"),
)

CHECKS = table(
    "checks",
    "The validation matrix: one row for each check and scope.",
    {
        "check": text("Id of the check in the policy."),
        "metric": text("Metric that it is about.", one_of=METRICS),
        "scope": text("`overall`, or the name of a workload."),
        "unit": text("Unit of the values."),
        "evidence": text("Kind of evidence that the values rest on.", one_of=get_args(Evidence)),
        "severity": text("Whether a failure blocks the release.", one_of=("blocking", "warning")),
        "direction": text("Which way is better.", one_of=DIRECTIONS),
        "comparator_value": number("Comparator's value; null where missing.", "row's unit", low=None, nullable=True),
        "candidate_value": number("Candidate's value; null where missing.", "row's unit", low=None, nullable=True),
        "change": number(
            "Worsening against the comparator, as a share of its value (of 1 - r near 1); negative is better.",
            "share", low=None, nullable=True,
        ),
        "interval_low": number("Lower end of the change's interval.", "share", low=None, nullable=True),
        "interval_high": number("Upper end of the change's interval.", "share", low=None, nullable=True),
        "margin": number("Largest worsening that is allowed; null for an absolute check.", "share", nullable=True),
        "limit": number("Absolute limit; null for a relative check.", "row's unit", low=None, nullable=True),
        "p_harm": number(
            "Probability of so much worsening were the true one at the margin; null where the value is exact.",
            "probability", high=1.0, nullable=True,
        ),
        "samples": integer("Samples that the candidate's value rests on.", "samples"),
        "status": text("Result.", one_of=STATUSES),
        "owner_role": text("Role that owns a finding of this check.", one_of=get_args(Role)),
        "owner": text("Who holds that role; the role itself where the policy names nobody."),
        "message": text("The result in words."),
    },
    [
        _INTERVAL,
        rule(
            ["margin", "limit"],
            "exactly one of margin and limit",
            pl.col("margin").is_null() != pl.col("limit").is_null(),
        ),
        rule(
            ["status", "candidate_value"],
            "a candidate_value where the status is pass",
            (pl.col("status") != "pass") | pl.col("candidate_value").is_not_null(),
        ),
    ],
)  # fmt: skip

MECHANISMS = table(
    "mechanisms",
    "Hybrids of the two sides, re-run on the same seeds and arrivals: which stage makes a check fail, which cures it.",
    {
        "check": text("Id of the check in the policy."),
        "scope": text("`overall`, or the name of a workload."),
        "experiment": text(
            "prefix: stages up to this one from the candidate. suffix: stages up to this one from the comparator. "
            "single: only this one from the candidate. cure: only this one from the comparator.",
            one_of=EXPERIMENTS,
        ),
        "stage": text("The stage that the experiment turns on.", one_of=STAGES),
        "from_candidate": text("Stages taken from the candidate, parted by `, `; empty is the comparator itself."),
        "changed": flag("Whether the two sides differ in this stage; where not, the row repeats the one before."),
        "comparator_value": number("Comparator's value; null where missing.", "metric's unit", low=None, nullable=True),
        "value": number("The hybrid's value; null where missing.", "metric's unit", low=None, nullable=True),
        "change": number("Worsening against the comparator, as in checks.", "share", low=None, nullable=True),
        "interval_low": number("Lower end of the change's interval.", "share", low=None, nullable=True),
        "interval_high": number("Upper end of the change's interval.", "share", low=None, nullable=True),
        "status": text("Whether the hybrid passes the check.", one_of=("pass", "fail", "undecided", "missing")),
        "first": flag("Whether this is the check's first failing prefix."),
        "proves": flag("Whether the row belongs to the pair that proves the mechanism."),
    },
    [
        _INTERVAL,
        rule(
            ["first", "experiment", "status"],
            "first only on a prefix that fails",
            ~pl.col("first") | ((pl.col("experiment") == "prefix") & (pl.col("status") == "fail")),
        ),
    ],
)

HISTORY = table(
    "history",
    "Metrics of every run, appended: for owners and trends, not for the verdict.",
    {
        "run_id": text("Id of the run."),
        "created": instant("When the run was made."),
        "candidate_name": text("Name of the candidate."),
        "verdict": text("Verdict of the run.", one_of=get_args(Verdict)),
        "first_failing_mechanism": text("First failing mechanism; null where there is none.", nullable=True),
        "metric": text("Metric of the row.", one_of=METRICS),
        "scope": text("`overall`, or the name of a workload."),
        "side": text("Which of the two releases the value is of.", one_of=SIDES),
        "value": number("Mean over replications.", "metric's unit", low=None),
    },
)

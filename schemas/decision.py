"""The decision and the lock: what a run concluded, and what it rested on."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from schemas.base import Document, Text
from schemas.candidate import Conditions, Tags
from schemas.policy import Evidence, Role, Stage
from schemas.settings import StageSettings

Verdict = Literal["GO", "HOLD", "NO_GO"]
Status = Literal["pass", "fail", "undecided", "missing", "waived"]
Driver = Literal[
    "queueing", "imbalance", "batching", "launch", "compute", "memory", "contention", "sync", "noise", "throttle",
    "fallback",
]  # fmt: skip
Bottleneck = Literal["launch", "compute", "dram", "sram", "spill", "sync", "queue", "imbalance", "fallback"]


class InputDigest(Document):
    """One input file of a run."""

    role: Text
    """What the file is to the run: `candidate`, `target`, `model:NAME`, `traffic`, `profile:SIDE:NAME`."""
    path: Text
    sha256: Text
    bytes: int


class ArtifactDigest(Document):
    """One file that a run wrote."""

    name: Text
    path: Text
    """Relative to the run folder."""
    sha256: Text
    bytes: int
    rows: int | None = None


class SideLock(Document):
    name: Text
    tags: Tags
    conditions: Conditions
    settings: StageSettings
    evidence: tuple[Evidence, ...]


class Run(Document):
    """`run.json`: the evidence lock. Complete before any result is believed."""

    schema_version: Literal["tilegate/run/v1"] = "tilegate/run/v1"
    run_id: Text
    candidate_name: Text
    created: datetime
    versions: dict[str, str]
    """tilegate and the libraries that results depend on."""
    code_digest: Text
    target: Text
    target_digest: Text
    traffic: Text
    seeds: tuple[int, ...]
    comparator: SideLock
    candidate: SideLock
    declared_changes: tuple[str, ...]
    inputs: tuple[InputDigest, ...]
    artifacts: tuple[ArtifactDigest, ...]
    command: Text
    """The command that reproduces the run."""


class Finding(Document):
    """One check that did not pass, or one mismatch of the lock."""

    id: Text
    check: Text
    scope: Text
    status: Status
    severity: Literal["blocking", "warning"]
    mechanism: Stage | None
    """The stage that caused it; none where it is not isolated."""
    isolation: Literal["isolated", "classified, not isolated", "not isolated", "lock"]
    bottleneck: Bottleneck | None
    owner_role: Role
    owner: Text
    summary: Text
    action: Text
    proof: Text
    """Anchor of the one proving artifact: `artifact#row`."""


class RollbackCriterion(Document):
    """A measurable condition to roll back."""

    id: Text
    metric: Text
    threshold: float
    unit: Text
    window_s: float
    min_samples: int
    text: Text


class Drill(Document):
    """Rollback drill, a replay in which the candidate's worst finding appears: does the criterion fire, and does the
    comparator recover?"""

    passed: bool
    criterion: Text
    detection_s: float | None
    recovered: bool
    text: Text


class Decision(Document):
    """`decision.json`: the verdict and everything the first screen says."""

    schema_version: Literal["tilegate/decision/v1"] = "tilegate/decision/v1"
    run_id: Text
    candidate_name: Text
    verdict: Verdict
    exit_code: Literal[0, 1, 2]
    reasons: tuple[Text, ...]
    next_action: Text
    """The cheapest action that would resolve a HOLD, or the first action of a NO_GO."""
    model_only: bool
    evidence: tuple[Evidence, ...]
    changed_stages: tuple[Stage, ...]
    first_failing_mechanism: Stage | None
    first_finding: Text | None
    findings: tuple[Finding, ...]
    rollback: tuple[RollbackCriterion, ...]
    drill: Drill | None
    waivers_applied: tuple[Text, ...]
    warnings: tuple[Text, ...]

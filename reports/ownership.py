"""Ownership layers: who holds each layer, and which findings are due from whom."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, get_args

from reports import words
from reports.anchors import proof_cell, row_id
from reports.blocks import Block, Cell, Column, Note, Row, Section, Table, Tone
from reports.evidence import Evidence
from reports.matrix import STATUS_TONES, owner_cell
from schemas.decision import Finding
from schemas.policy import Role

_TITLE = "Ownership layers and findings due"
_LEAD = "Each mechanism has one owner role. A finding is closed by its owner, with the action that stands beside it."
_LAYERS: Final[dict[str, str]] = {
    "ml_compiler_engineer": "graph, lowering and fusion decisions",
    "kernel_performance_owner": "tiles, kernels and their bottlenecks",
    "runtime_systems_engineer": "admission, queues, batches and results",
    "memory_hierarchy_owner": "on-chip space, spill and bandwidth",
}


def section(evidence: Evidence, ids: Collection[str]) -> Section:
    """ids: anchors that the page has, so that proofs link only to what is there."""
    findings = evidence.decision.findings
    due: Block = Note("No finding is due.", "good")
    if findings:
        due = Table("Findings", _COLUMNS, tuple(_finding_row(item, ids) for item in findings))
    blocks: tuple[Block, ...] = (due, _roles(evidence))
    waived = evidence.decision.waivers_applied
    if waived:
        blocks = (*blocks, *(Note(f"Waiver applied: {text}", "warn") for text in waived))
    return Section("ownership", _TITLE, _LEAD, blocks)


_COLUMNS = (
    Column("Finding"),
    Column("Status"),
    Column("Mechanism"),
    Column("Bottleneck"),
    Column("Owner"),
    Column("What happened", wide=True),
    Column("Action", wide=True),
    Column("Proof", wide=True),
)


def _finding_row(item: Finding, ids: Collection[str]) -> Row:
    cells = (
        Cell(item.check, sub=item.scope),
        Cell(item.status, sub=words.severity_words(item.severity), tone=STATUS_TONES[item.status], badge=True),
        Cell(item.mechanism or "not isolated", sub=item.isolation, tone="" if item.mechanism else "warn"),
        Cell(item.bottleneck or "not classified", tone="" if item.bottleneck else "muted"),
        owner_cell(item.owner, item.owner_role),
        Cell(item.summary),
        Cell(item.action or "missing: no action given", tone="" if item.action else "warn"),
        proof_cell(item.proof, ids),
    )
    return Row(finding_id(item.id), cells, mark="bad" if item.severity == "blocking" and item.status == "fail" else "")


def finding_id(finding: str) -> str:
    return row_id("finding", finding)


def _roles(evidence: Evidence) -> Table:
    policy = evidence.candidate.policy
    rows = []
    for role in get_args(Role):
        stages = [stage for stage in words.STAGES if policy.ownership[stage] == role]  # type: ignore[index]
        due = [item for item in evidence.decision.findings if item.owner_role == role]
        tone: Tone = "bad" if any(item.severity == "blocking" for item in due) else "warn" if due else "muted"
        holder = policy.owners.get(role)
        cells = (
            Cell(words.spaced(role), sub=_LAYERS[role]),
            Cell(holder or "missing: the policy names nobody", tone="" if holder else "warn"),
            Cell(words.listed(stages)),
            Cell(words.count(len(due), "finding"), sub=", ".join(item.id for item in due), tone=tone),
        )
        rows.append(Row(row_id("owner", role), cells))
    columns = (Column("Layer"), Column("Holder"), Column("Mechanisms"), Column("Findings due"))
    return Table("The four layers", columns, tuple(rows))

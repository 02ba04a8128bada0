"""Swap table: hybrids of the two sides on the same seeds and arrivals, and the pair that proves a mechanism."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from reports import words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Column, Fold, Missing, Note, Row, Section, Table
from reports.evidence import Evidence
from reports.matrix import STATUS_TONES, change_cell
from schemas.metric_words import metric_texts, metric_words

_TITLE = "Which mechanism failed first"
_LEAD = (
    "Each row re-runs the traffic, same seeds and arrivals, with some stages of one side and the rest of the other. "
    "The first stage whose prefix fails, where the prefix before it passes, is the mechanism: those two rows prove it."
)
EXPERIMENTS: Final[dict[str, str]] = {
    "prefix": "stages up to this one from the candidate, later ones from the comparator",
    "suffix": "stages up to this one from the comparator, later ones from the candidate",
    "single": "only this stage from the candidate",
    "cure": "only this stage from the comparator",
}


def section(evidence: Evidence) -> Section:
    mechanisms = evidence.table("mechanisms")
    if mechanisms is None:
        return Section("swaps", _TITLE, _LEAD, (_absent(evidence),))
    rows = mechanisms.to_dicts()
    tried = list(dict.fromkeys((row["check"], row["scope"]) for row in rows))
    by_check = {key: [row for row in rows if (row["check"], row["scope"]) == key] for key in tried}
    blocking = {item.id for item in evidence.candidate.policy.checks if item.severity == "blocking"}
    ordered = sorted(tried, key=lambda key: (key[0] not in blocking, _first_stage(by_check[key])))
    folds = tuple(_check(evidence, key, by_check[key], first=index == 0) for index, key in enumerate(ordered))
    return Section("swaps", _TITLE, _LEAD, folds)


def _absent(evidence: Evidence) -> Block:
    failed = any(item.status == "fail" and item.severity == "blocking" for item in evidence.decision.findings)
    if failed:
        return Missing(f"{evidence.missing('mechanisms')}. A blocking check failed, but its mechanism is not isolated.")
    return Note("No blocking check failed, so there was no mechanism to isolate and no hybrid was run.")


def _first_stage(rows: list[dict[str, Any]]) -> int:
    """Place of the first failing prefix in stage order; checks without one come last."""
    return min((words.STAGES.index(row["stage"]) for row in rows if row["first"]), default=len(words.STAGES))


def _check(evidence: Evidence, key: tuple[str, str], rows: list[dict[str, Any]], *, first: bool) -> Fold:
    check, scope = key
    metric = next((item.metric for item in evidence.candidate.policy.checks if item.id == check), "")
    label = metric_words(metric).label if metric else check
    differing = evidence.decision.changed_stages
    kinds = [kind for kind in EXPERIMENTS if any(row["experiment"] == kind for row in rows)]
    tables = {
        kind: _table(kind, metric, [row for row in rows if row["experiment"] == kind], differing) for kind in kinds
    }
    others = [kind for kind in kinds if kind != "prefix"]
    blocks: list[Block] = [Note(conclusion(rows))]
    if "prefix" in tables:
        blocks.append(tables["prefix"])
    if others:
        blocks.append(
            Fold(f"Swaps the other way round: {words.listed(others)}", tuple(tables[kind] for kind in others))
        )
    stage = next((row["stage"] for row in rows if row["first"]), "not isolated")
    return Fold(f"{check}, {scope}: {stage} ({label})", tuple(blocks), open=first)


def conclusion(rows: list[dict[str, Any]]) -> str:
    """What the swaps of one check say, in words, the cure included."""
    prefixes = [row for row in rows if row["experiment"] == "prefix"]
    first = next((row for row in prefixes if row["first"]), None)
    if first is None:
        return "No prefix that fails after one that passes: the mechanism is not isolated."
    stage = first["stage"]
    before = "the comparator itself" if _is_first_stage(stage) else f"the prefix up to {_stage_before(stage)}"
    text = f"{stage}: {before} passes, the prefix up to {stage} fails."
    single = next((row for row in rows if row["experiment"] == "single" and row["stage"] == stage), None)
    cure = next((row for row in rows if row["experiment"] == "cure" and row["stage"] == stage), None)
    if single is not None:
        text += f" {stage.capitalize()} alone on the comparator: {single['status']}."
    if cure is not None:
        text += f" Candidate with only {stage} taken back: {cure['status']}."
    if (single is not None and single["status"] == "pass") or (cure is not None and cure["status"] == "fail"):
        text += " The two disagree: this is an interaction between stages, not one stage alone."
    return text


def _is_first_stage(stage: str) -> bool:
    return words.STAGES.index(stage) == 0


def _stage_before(stage: str) -> str:
    return words.STAGES[words.STAGES.index(stage) - 1]


def _table(kind: str, metric: str, rows: list[dict[str, Any]], differing: Collection[str]) -> Table:
    columns = (
        Column("Stage"),
        Column("Result"),
        Column("Comparator", numeric=True),
        Column("Hybrid", numeric=True),
        Column("Worsening", numeric=True),
        Column("From the candidate", hint="Of the stages in which the sides differ."),
        Column("What it says", wide=True),
    )
    return Table(f"{kind}: {EXPERIMENTS[kind]}", columns, tuple(_row(metric, row, differing) for row in rows))


def _row(metric: str, row: dict[str, Any], differing: Collection[str]) -> Row:
    comparator, value = metric_texts(metric, row["comparator_value"], row["value"])
    matters = row["changed"] or row["proves"]
    taken = [stage for stage in row["from_candidate"].split(", ") if stage in differing]
    cells = (
        Cell(row["stage"]),
        Cell(row["status"], tone=STATUS_TONES[row["status"]] if matters else "muted", badge=True),
        Cell(comparator, tone="warn" if comparator == words.MISSING else ""),
        Cell(value, tone="warn" if value == words.MISSING else ""),
        change_cell(metric, row["comparator_value"], row["value"], row),
        Cell(words.listed(taken, nothing="nothing"), tone="" if matters else "muted"),
        Cell(_says(row), tone="" if matters else "muted"),
    )
    anchor = row_id("mechanisms", row["check"], row["scope"], row["experiment"], row["stage"])
    return Row(anchor, cells, "note" if row["proves"] else "")


def _same_as(row: dict[str, Any]) -> str:
    """What a hybrid is equal to where its stage does not differ."""
    if row["experiment"] in ("prefix", "suffix") and not _is_first_stage(row["stage"]):
        return "repeats the row before"
    return "the comparator itself" if row["experiment"] in ("prefix", "single") else "the candidate itself"


def _says(row: dict[str, Any]) -> str:
    parts = []
    if row["first"]:
        parts.append("first failing prefix")
    if row["proves"]:
        parts.append("one of the proving pair")
    if not row["changed"]:
        parts.append(f"same settings on both sides: {_same_as(row)}")
    return "; ".join(parts) or "both sides differ here"

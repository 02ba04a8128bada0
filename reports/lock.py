"""Evidence lock: what the run rested on, both sides beside each other, differences marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from reports import words
from reports.anchors import row_id
from reports.blocks import Block, Cell, Column, Facts, Fold, Note, Row, Section, Table
from reports.evidence import Evidence
from schemas.anchors import anchor
from schemas.candidate import Conditions, Tags
from schemas.decision import ArtifactDigest, InputDigest

_TITLE = "Evidence lock"
_LEAD = (
    "Two sides compare only where tags and conditions agree, except for software tags that the candidate declares as "
    "changed. Differences are marked."
)
_UNITS = {"clock_mhz": "MHz", "temperature_c": "°C", "power_w": "W"}
_SIDES = (Column("Comparator"), Column("Candidate"), Column("Agreement"))


def section(evidence: Evidence) -> Section:
    run = evidence.run
    settings = tuple(_setting_rows(evidence))
    differ = tuple(row for row in settings if row.mark)
    same = tuple(row for row in settings if not row.mark)
    columns = (Column("Setting"), *_SIDES)
    tables: tuple[Block, ...] = (
        Table("Tags", (Column("Tag"), *_SIDES), tuple(_tag_rows(evidence))),
        Table("Conditions and kinds of evidence", (Column("Condition"), *_SIDES), tuple(_condition_rows(evidence))),
        Table("Settings that differ, by stage", columns, differ) if differ else Note("All settings are the same."),
        Fold(f"Settings that are the same ({words.number(len(same))})", (Table("Settings, by stage", columns, same),)),
    )
    return Section(
        "lock",
        _TITLE,
        _LEAD,
        (
            Facts(_facts(evidence)),
            *tables,
            Fold(f"Inputs, digests ({words.count(len(run.inputs), 'file')})", (_inputs(run.inputs),)),
            Fold(f"Artifacts, digests ({words.count(len(run.artifacts), 'file')})", (_artifacts(run.artifacts),)),
            Fold("Versions of the libraries that results depend on", (_versions(run.versions),)),
        ),
    )  # fmt: skip


def _facts(evidence: Evidence) -> tuple[tuple[str, Cell], ...]:
    run = evidence.run
    return (
        ("Run", Cell(run.run_id, code=True)),
        ("Made", Cell(run.created.strftime("%Y-%m-%d %H:%M:%S %Z").strip())),
        ("Target", Cell(run.target, sub=f"sha256 {run.target_digest}")),
        ("Traffic", Cell(run.traffic)),
        ("Seeds", Cell(", ".join(map(str, run.seeds)) or words.MISSING)),
        ("Code digest", Cell(run.code_digest, code=True)),
        ("Declared changes", Cell(words.listed(run.declared_changes))),
    )


_Mark = Literal["", "bad", "note"]


def _agreement(same: bool, wrong: bool, accepted: str) -> tuple[Cell, _Mark]:
    """What a row says of its two values, and its mark. accepted: why a difference that is not wrong is none."""
    if same:
        return Cell("same", tone="muted"), ""
    if wrong:
        return Cell("differs", tone="bad", badge=True), "bad"
    return Cell(accepted, tone="warn", badge=True), "note"


def _mismatched(evidence: Evidence, field: str) -> bool:
    """Whether the judgement found this field of the lock to make the comparison invalid."""
    return any(item.proof == anchor("lock", field) for item in evidence.decision.findings)


def _tag_rows(evidence: Evidence) -> Iterable[Row]:
    run = evidence.run
    for tag in Tags.model_fields:
        before, after = getattr(run.comparator.tags, tag), getattr(run.candidate.tags, tag)
        agreement, mark = _agreement(before == after, tag not in run.declared_changes, "declared change")
        yield Row(row_id("lock", f"tags.{tag}"), (Cell(tag), Cell(before), Cell(after), agreement), mark)


def _condition_rows(evidence: Evidence) -> Iterable[Row]:
    run = evidence.run
    for name in Conditions.model_fields:
        field = f"conditions.{name}"
        before, after = getattr(run.comparator.conditions, name), getattr(run.candidate.conditions, name)
        agreement, mark = _agreement(before == after, _mismatched(evidence, field), "within tolerance")
        label = words.spaced(name.rsplit("_", 1)[0]) if name in _UNITS else name
        cells = (Cell(label), *(Cell(_condition(name, value)) for value in (before, after)), agreement)
        yield Row(row_id("lock", field), cells, mark)
    kinds = [words.listed(side.evidence, nothing=words.MISSING) for side in (run.comparator, run.candidate)]
    agreement, mark = _agreement(kinds[0] == kinds[1], _mismatched(evidence, "evidence"), "accepted")
    yield Row(row_id("lock", "evidence"), (Cell("kinds of evidence"), *map(Cell, kinds), agreement), mark)


def _condition(name: str, value: float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return words.Scale(_UNITS[name], 1.0).with_unit(value)


def _setting_rows(evidence: Evidence) -> Iterable[Row]:
    """Every setting of every stage; a difference here is what the candidate means to change, so it is no fault."""
    run = evidence.run
    for stage in words.STAGES:
        before, after = getattr(run.comparator.settings, stage), getattr(run.candidate.settings, stage)
        for field in type(before).model_fields:
            values = (getattr(before, field), getattr(after, field))
            differs = values[0] != values[1]
            cells = (
                Cell(f"{stage}.{field}"),
                *(Cell(_setting(value)) for value in values),
                Cell("changed", tone="warn", badge=True) if differs else Cell("same", tone="muted"),
            )
            yield Row(row_id("lock", f"settings.{stage}.{field}"), cells, "note" if differs else "")


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return words.listed(str(item) for item in value)
    if isinstance(value, int | float):
        return words.number(value)
    return str(value)


def _inputs(inputs: tuple[InputDigest, ...]) -> Table:
    columns = (Column("Input"), Column("Path", wide=True), Column("Size", numeric=True), Column("sha256", wide=True))
    rows = tuple(
        Row(
            row_id("input", item.role, item.path),
            (Cell(item.role), Cell(item.path), Cell(words.bytes_text(item.bytes)), Cell(item.sha256, code=True)),
        )
        for item in inputs
    )
    return Table("Inputs", columns, rows)


def _artifacts(artifacts: tuple[ArtifactDigest, ...]) -> Table:
    columns = (Column("Artifact"), Column("Path"), Column("Rows", numeric=True), Column("Size", numeric=True),
               Column("sha256", wide=True))  # fmt: skip
    rows = tuple(
        Row(
            row_id("artifact", item.name),
            (
                Cell(item.name),
                Cell(item.path),
                Cell("no table" if item.rows is None else words.number(item.rows)),
                Cell(words.bytes_text(item.bytes)),
                Cell(item.sha256, code=True),
            ),
        )
        for item in artifacts
    )
    return Table("Artifacts", columns, rows)


def _versions(versions: dict[str, str]) -> Table:
    rows = tuple(
        Row(row_id("version", name), (Cell(name), Cell(version))) for name, version in sorted(versions.items())
    )
    return Table("Versions", (Column("Library"), Column("Version")), rows)

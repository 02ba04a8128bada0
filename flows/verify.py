"""Is a run still what it was: digests and schemas of all that it wrote, digests of all that it read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flows.digest import file_digest
from flows.history import DAMAGED, HISTORY, history_path, read_history
from flows.store import DECISION_DOCUMENT, RUN_DOCUMENT, Store, StoreError, read_document, read_table
from schemas.decision import ArtifactDigest, Decision, InputDigest, Run
from schemas.errors import DocumentError


@dataclass(frozen=True, slots=True)
class Checked:
    """One file of a run. problem: what is wrong with it, none where it is as it was. part: `input`, `artifact`, or
    `store` for what all runs share."""

    part: str
    name: str
    path: str
    problem: str | None


def verify_run(folder: Path) -> tuple[Checked, ...]:
    """Every file of the run, checked. StoreError where run.json itself cannot be read."""
    run = read_document(folder / RUN_DOCUMENT, Run)
    unfinished = () if run.artifacts else (Checked("artifact", "run", RUN_DOCUMENT, "the run did not finish"),)
    artifacts = tuple(_artifact(folder, artifact) for artifact in run.artifacts)
    inputs = tuple(_input(entry) for entry in run.inputs)
    return (*unfinished, *artifacts, *inputs, *_shared(Store(folder.parent)))


def _shared(store: Store) -> Iterator[Checked]:
    """The history, where it is damaged, and each damaged one that a run moved aside."""
    try:
        read_history(store)
    except StoreError as error:
        yield Checked("store", HISTORY, str(history_path(store)), str(error))
    for aside in sorted(store.root.glob(f"{HISTORY}.parquet{DAMAGED}*")):
        lost = "could not be read and was moved aside; rows of earlier runs are lost. Delete it once that is known"
        yield Checked("store", HISTORY, str(aside), lost)


def _artifact(folder: Path, artifact: ArtifactDigest) -> Checked:
    path = folder / artifact.path
    problem = _changed(path, artifact.sha256)
    if problem is None and path.suffix == ".parquet":
        problem = _table_problem(path, artifact)
    if problem is None and path.name == DECISION_DOCUMENT:
        problem = _decision_problem(path)
    return Checked("artifact", artifact.name, artifact.path, problem)


def _input(entry: InputDigest) -> Checked:
    return Checked("input", entry.role, entry.path, _changed(Path(entry.path), entry.sha256))


def _changed(path: Path, digest: str) -> str | None:
    try:
        found = file_digest(path)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return None if found == digest else f"changed: sha256 was {digest[:12]}…, is {found[:12]}…"


def _table_problem(path: Path, artifact: ArtifactDigest) -> str | None:
    from schemas.tables import validate

    try:
        frame = validate(artifact.name, read_table(path))
    except (StoreError, DocumentError) as error:
        return f"breaks its schema: {str(error).splitlines()[0]}"
    if artifact.rows != frame.height:
        return f"holds {frame.height} rows, {artifact.rows} were written"
    return None


def _decision_problem(path: Path) -> str | None:
    try:
        read_document(path, Decision)
    except (StoreError, DocumentError) as error:
        return f"breaks its schema: {str(error).splitlines()[0]}"
    return None

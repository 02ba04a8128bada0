"""`tilegate report` and `tilegate verify`: a run that is done, looked at again."""

from __future__ import annotations

import json
from pathlib import Path

from flows.store import (
    CANDIDATE_COPY,
    DECISION_DOCUMENT,
    REPORT,
    RUN_DOCUMENT,
    Store,
    StoreError,
    read_document,
    read_table,
    write_document,
    write_text,
)
from flows.verify import Checked, verify_run
from schemas.candidate import Candidate
from schemas.decision import Decision, Run
from schemas.documents import parse

INVALID = 3


def render_again(name: str, store: Path | None) -> int:
    """Render report.html from the run's own files, and put its new digest into run.json."""
    import reports
    from flows.history import read_history
    from reports.evidence import Evidence
    from schemas.tables import TABLES

    folder = Store.at(store).find_run(name)
    place = Store(folder.parent)  # a run that was named by its path may lie in another store
    run = read_document(folder / RUN_DOCUMENT, Run)
    _refuse_changed(folder, verify_run(folder))
    paths = {artifact.name: folder / artifact.path for artifact in run.artifacts if artifact.name in TABLES}
    others = tuple(artifact for artifact in run.artifacts if artifact.path != REPORT)
    evidence = Evidence(
        run=run.model_copy(update={"artifacts": tuple(item for item in others if item.path != "vsa.json")}),
        decision=read_document(folder / DECISION_DOCUMENT, Decision),
        candidate=parse(Candidate, json.loads((folder / CANDIDATE_COPY).read_bytes()), CANDIDATE_COPY),
        tables={**{key: read_table(path) for key, path in paths.items()}, "history": read_history(place)},
    )
    with place.lock(folder.name):
        page = write_text(folder, REPORT, reports.render(evidence))
        write_document(folder, RUN_DOCUMENT, run.model_copy(update={"artifacts": (*others, page)}))
    print(folder / REPORT)
    return 0


def verify_again(name: str, store: Path | None, *, as_json: bool) -> int:
    """Check every file of a run; exit code 0 where all are as they were."""
    folder = Store.at(store).find_run(name)
    checked = verify_run(folder)
    wrong = [item for item in checked if item.problem is not None]
    if as_json:
        rows = [{"part": item.part, "name": item.name, "path": item.path, "problem": item.problem} for item in checked]
        print(json.dumps({"run_id": folder.name, "sound": not wrong, "files": rows}))
        return INVALID if wrong else 0
    for item in wrong:
        print(f"{item.part} {item.name}: {item.path}: {item.problem}")
    if wrong:
        print(f"{folder.name}: {len(wrong)} of {len(checked)} files are not what they were. Run the candidate again.")
        return INVALID
    print(f"{folder.name}: {len(checked)} files are as they were, and every table keeps its schema.")
    return 0


def _refuse_changed(folder: Path, checked: tuple[Checked, ...]) -> None:
    """A page is only made from evidence that is what the run wrote."""
    for item in checked:
        if item.part == "artifact" and item.path != REPORT and item.problem is not None:
            raise StoreError(f"{folder / item.path}: {item.problem}. Run the candidate again to write it anew.")

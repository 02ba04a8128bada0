"""The report: one page from the run's documents and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reports
from flows.digest import PACKAGES
from flows.stages import Context, Payload, stage_task
from flows.store import Store
from flows.values import Ref, get_frame, put_text
from reports.evidence import Evidence
from schemas.candidate import Candidate
from schemas.decision import Decision, Run
from schemas.documents import parse


@stage_task("report", packages=PACKAGES)
def report(
    context: Context,
    run: dict[str, Any],
    decision: dict[str, Any],
    candidate: dict[str, Any],
    tables: dict[str, Ref],
) -> Payload:
    store = Store(Path(context["store"]))
    evidence = Evidence(
        run=parse(Run, run, "run.json"),
        decision=parse(Decision, decision, "decision.json"),
        candidate=parse(Candidate, candidate, "candidate"),
        tables={name: get_frame(store, ref) for name, ref in tables.items()},
    )
    return {"stage": "report", "values": {"page": put_text(store, reports.render(evidence), "html")}, "facts": {}}

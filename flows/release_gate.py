"""The release gate: the stages in order, from a candidate file to a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.states import Completed

from flows.closing import close_run, tell_prefect
from flows.gate import Gate
from flows.inputs import load_candidate
from flows.runners import task_runner
from flows.store import Store
from flows.tasks.assembly import assembly
from flows.tasks.execution import execution
from flows.tasks.fusion import fusion
from flows.tasks.ingress import ingress, profiles_of
from flows.tasks.judge import judge
from flows.tasks.lens import lens
from flows.tasks.lowering import lowering
from flows.tasks.placement import placement
from flows.tasks.quality import quality
from flows.tasks.report import report
from flows.tasks.scheduling import scheduling
from flows.tasks.tiling import tiling
from flows.tasks.trials import trials


@flow(
    name="release-gate", flow_run_name="{candidate}", task_runner=task_runner(),
    persist_result=False, log_prints=False,
)  # fmt: skip
def release_gate(candidate: str, store: str | None = None) -> Any:
    """Take a candidate file through every stage; gives what `tilegate run --json` prints.

    candidate: path of the file. store: folder of the evidence store; else $TILEGATE_STORE, else ./runs.
    """
    gate = Gate(load_candidate(Path(candidate)), Store.at(store))
    with gate.locked():
        opened = gate.one(ingress, digest=gate.loaded.digest)
        run = gate.write_lock()
        works = gate.works(opened)
        lowered = gate.each(lowering, work=works)
        fused = gate.each(fusion, work=works, lowered=lowered)
        tiled = gate.each(tiling, work=works, lowered=lowered, fused=fused)
        placed = gate.each(placement, work=works, fused=fused, tiled=tiled)
        executed = gate.each(execution, work=works, lowered=lowered, fused=fused, tiled=tiled, placed=placed)
        checked = gate.each(quality, work=works, **gate.numeric(opened, works))
        served = gate.each(scheduling, work=gate.services(opened, works, executed))
        assembled = gate.one(
            assembly, works=works, executed=executed, checked=checked, served=served[:2], profiles=profiles_of(opened)
        )
        swept = gate.each(lens, work=works, **gate.busiest(works, assembled))
        tried = gate.each(trials, **gate.tried(opened, works, executed))
        judged = gate.one(judge, dossier=gate.dossier(run, opened, works, checked, served, assembled))
        closed = close_run(gate, run, assembled, {"sweep": swept, "trials": tried}, judged, report)
    tell_prefect(closed)
    return Completed(name=closed.decision.verdict, message=closed.sentence, data=closed.summary)

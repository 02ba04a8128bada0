"""The end of a run: its files in their places, its page, its place in the history, its word to Prefect."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from prefect.artifacts import create_link_artifact, create_table_artifact
from prefect.tasks import Task

from flows.gate import Gate
from flows.history import append_history
from flows.judge.vsa import verification_summary
from flows.stages import Payload
from flows.store import CANDIDATE_COPY, DECISION_DOCUMENT, REPORT, RUN_DOCUMENT, write_document, write_text
from flows.tasks.judge import read_decision
from flows.values import Ref, get_frame, put_frame
from schemas.decision import Decision, Run

SHOWN = ("check", "scope", "status", "severity", "comparator_value", "candidate_value", "change", "owner", "message")


@dataclass(frozen=True, slots=True)
class Closed:
    """A run that is done. checks: the validation matrix."""

    run: Run
    decision: Decision
    folder: Path
    checks: pl.DataFrame
    seconds: dict[str, float]

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        stage = self.decision.first_failing_mechanism
        return f"{self.decision.verdict}{f', first failing mechanism {stage}' if stage else ''}"

    @property
    def summary(self) -> dict[str, Any]:
        """What a program wants to know of a run."""
        return summary_of(self.run, self.decision, self.folder, self.seconds)


def close_run(
    gate: Gate,
    run: Run,
    assembled: Payload,
    parts: Mapping[str, list[Payload]],
    judged: Payload,
    report: Task[..., Payload],
) -> Closed:
    """Write everything that the run leaves behind; run.json, complete with digests, is the last. parts: tables that
    come in parts, by name."""
    begun = time.perf_counter()
    store, decision = gate.store, read_decision(gate.store, judged)
    joined = {name: _joined(gate, name, payloads) for name, payloads in parts.items()}
    tables = {**assembled["values"], **joined, **_tables(judged)}
    history = append_history(store, get_frame(store, judged["values"]["history"]))
    candidate = gate.loaded.document.model_dump(mode="json", by_alias=True)
    artifacts = (
        *gate.publish({f"{name}.parquet": ref for name, ref in tables.items()}),
        write_document(gate.folder, DECISION_DOCUMENT, decision),
        write_text(gate.folder, CANDIDATE_COPY, json.dumps(candidate, indent=2) + "\n"),
        *gate.publish({"junit.xml": judged["values"]["junit"]}),
    )
    evidence = run.model_copy(update={"artifacts": artifacts})
    page = gate.one(
        report, run=evidence.model_dump(mode="json"), decision=decision.model_dump(mode="json"), candidate=candidate,
        tables={**tables, "history": put_frame(store, "history", history)},
    )  # fmt: skip
    pages = gate.publish({REPORT: page["values"]["page"]})
    summary = write_text(gate.folder, "vsa.json", _verification_summary(evidence, decision, candidate["policy"]))
    finished = run.model_copy(update={"artifacts": (*artifacts, *pages, summary)})
    write_document(gate.folder, RUN_DOCUMENT, finished)
    closing = time.perf_counter() - begun - gate.seconds["report"]
    return Closed(
        finished, decision, gate.folder, get_frame(store, tables["checks"]), {**gate.seconds, "closing": closing}
    )


def summary_of(run: Run, decision: Decision, folder: Path, seconds: dict[str, float]) -> dict[str, Any]:
    """Verdict, first failing mechanism, proof, owner, next action, and where everything is."""
    first = next((finding for finding in decision.findings if finding.id == decision.first_finding), None)
    return {
        "run_id": run.run_id, "candidate": run.candidate_name, "verdict": decision.verdict,
        "exit_code": decision.exit_code, "model_only": decision.model_only, "evidence": list(decision.evidence),
        "first_failing_mechanism": decision.first_failing_mechanism,
        "bottleneck": first.bottleneck if first else None, "finding": first.summary if first else None,
        "proof": first.proof if first else None, "owner": first.owner if first else None,
        "owner_role": first.owner_role if first else None, "reasons": list(decision.reasons),
        "next_action": decision.next_action, "warnings": list(decision.warnings), "folder": str(folder),
        "report": str(folder / REPORT), "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }  # fmt: skip


def tell_prefect(closed: Closed) -> None:
    """The matrix and the page as artifacts of the flow run, for Prefect's own pages."""
    rows = closed.checks.select(SHOWN).to_dicts()
    create_table_artifact(key="checks", table=rows, description=f"# {closed.sentence}\n\n{closed.decision.next_action}")
    create_link_artifact(
        key="report", link=closed.report.as_uri(), link_text=f"report of {closed.run.run_id}",
        description=f"{closed.sentence}. The page is on the machine that ran the gate: {closed.report}",
    )  # fmt: skip


def _joined(gate: Gate, name: str, parts: list[Payload]) -> Ref:
    frames = [get_frame(gate.store, part["values"][f"table:{name}"]) for part in parts]
    return put_frame(gate.store, name, pl.concat(frames))


def _tables(judged: Payload) -> dict[str, Ref]:
    values = judged["values"].items()
    return {name.removeprefix("table:"): ref for name, ref in values if name.startswith("table:")}


def _verification_summary(run: Run, decision: Decision, policy: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(policy, sort_keys=True).encode()).hexdigest()
    return json.dumps(verification_summary(run, decision, digest, datetime.now(UTC)), indent=2) + "\n"

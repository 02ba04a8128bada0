"""The judgement: checks, isolation by hybrids, rollback drill, decision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypedDict

import polars as pl

from accelmodel.graph import Graph
from accelmodel.settings import Settings
from accelmodel.target import Target
from flows.hybrids import QUALITY_STAGES, SIDE, Bench, Quality
from flows.inputs import model_digests, to_settings
from flows.judge.bottleneck import classify, driver_growth
from flows.judge.checks import CheckResult, evaluate
from flows.judge.decision import Case, decide, final_results
from flows.judge.facts import MetricValues
from flows.judge.isolation import Isolation, isolate
from flows.judge.junit import junit_xml
from flows.judge.lock import changed_stages, compare_sides
from flows.judge.metrics import metric_values, missing_causes
from flows.judge.rollback import criteria, rehearse, served
from flows.judge.rows import check_rows, history_rows
from flows.judge.stability import unstable_checks
from flows.judge.warnings import folded
from flows.stages import Context, Payload, stage_task
from flows.store import Store
from flows.tasks.planning import memo
from flows.tasks.quality import quality_of
from flows.values import Ref, get_arrivals, get_frame, get_value, put_frame, put_text, put_value
from schemas.candidate import Candidate
from schemas.decision import Decision, Run
from schemas.documents import parse
from schemas.tables import empty, from_rows


class Dossier(TypedDict):
    """What a verdict rests on. run: the lock. tables: of both sides. again: requests of the comparator's second run.
    unstable: side -> replications whose queue grows without end. misdelivered: side -> workload -> requests.
    graphs: workload -> label -> Graph, and those of the numeric check. today: where the policy has waivers."""

    run: dict[str, Any]
    candidate: dict[str, Any]
    tables: dict[str, Ref]
    again: Ref
    unstable: dict[str, list[int]]
    misdelivered: dict[str, dict[str, int | None]]
    graphs: dict[str, dict[str, Ref]]
    numeric: dict[str, dict[str, Ref]]
    target: Ref
    arrivals: list[Ref]
    seeds: list[int]
    warnings: list[str]
    today: str | None


@stage_task("judge")
def judge(context: Context, dossier: Dossier) -> Payload:
    store = Store(Path(context["store"]))
    run, document = parse(Run, dossier["run"], "run.json"), parse(Candidate, dossier["candidate"], "candidate")
    sides = {side: _values(store, document, dossier, side) for side in ("comparator", "candidate")}
    workloads = [workload.name for workload in document.workloads]
    causes = missing_causes(get_frame(store, dossier["tables"]["quality"]), dossier["misdelivered"])
    results = evaluate(document.policy, sides["comparator"], sides["candidate"], workloads, causes)
    changed = changed_stages(run.comparator, run.candidate)
    bench = _bench(context, store, document, dossier, changed, sides)
    isolation = isolate(results, changed, bench.evaluate, document.policy)
    case = _case(store, run, document, dossier, sides, results, isolation)
    decision = decide(case)
    final = final_results(case)
    values = {
        "table:checks": put_frame(store, "checks", from_rows("checks", check_rows(final, isolation, document.policy))),
        "table:mechanisms": put_frame(store, "mechanisms", from_rows("mechanisms", isolation.rows)),
        "history": put_frame(store, "history", from_rows("history", history_rows(run, decision, *sides.values()))),
        "decision": put_value(store, decision.model_dump(mode="json"), dict[str, Any]),
        "junit": put_text(store, junit_xml(decision, final), "xml"),
    }
    return {"stage": "judge", "values": values, "facts": {"hybrids": isolation.hybrids, "verdict": decision.verdict}}


def _values(store: Store, document: Candidate, dossier: Dossier, side: str) -> MetricValues:
    tables = {name: get_frame(store, ref) for name, ref in dossier["tables"].items()}
    return metric_values(
        tables["requests"], tables["metrics"], tables["quality"], side, document.traffic.warmup_share,
        mismatches=_known(dossier["misdelivered"][side]), unstable=frozenset(dossier["unstable"][side]),
        quality_top1_agreement=document.policy.quality_top1_agreement,
    )  # fmt: skip


def _known(misdelivered: dict[str, int | None]) -> dict[str, int]:
    """Counts of the workloads whose numbers were run; the others are missing, never zero."""
    return {workload: count for workload, count in misdelivered.items() if count is not None}


def _again(store: Store, document: Candidate, dossier: Dossier) -> MetricValues:
    """Replayed values of the comparator's second run."""
    return metric_values(
        get_frame(store, dossier["again"]), empty("metrics"), empty("quality"), "comparator",
        document.traffic.warmup_share, unstable=frozenset(dossier["unstable"]["again"]),
    )  # fmt: skip


def _bench(
    context: Context,
    store: Store,
    document: Candidate,
    dossier: Dossier,
    changed: Sequence[str],
    sides: dict[str, MetricValues],
) -> Bench:
    comparator, candidate = (
        to_settings(side.settings) for side in (document.comparator, document.candidate)
    )  # fmt: skip
    graphs = {
        workload: {label: get_value(store, ref, Graph) for label, ref in labels.items()}
        for workload, labels in dossier["graphs"].items()
    }
    return Bench(
        document=document, target=get_value(store, dossier["target"], Target), comparator=comparator,
        candidate=candidate, graphs=graphs, arrivals=[get_arrivals(store, ref) for ref in dossier["arrivals"]],
        seeds=dossier["seeds"], quality=lambda settings: _quality(context, store, document, dossier, settings),
        known={frozenset(): sides["comparator"], frozenset(changed): sides["candidate"]}, memo=memo,
    )  # fmt: skip


def _quality(context: Context, store: Store, document: Candidate, dossier: Dossier, settings: Settings) -> Quality:
    """Numeric quality of a hybrid: a side's own where it has that side's stages, else run."""
    for side in ("comparator", "candidate"):
        own = to_settings(getattr(document, side).settings)
        if all(getattr(own, stage) == getattr(settings, stage) for stage in QUALITY_STAGES):
            frame = get_frame(store, dossier["tables"]["quality"]).filter(pl.col("side") == side)
            return frame.with_columns(side=pl.lit(SIDE)), _known(dossier["misdelivered"][side])
    target, rows, misdelivered = get_value(store, dossier["target"], Target), [], dict[str, int | None]()
    for workload in document.workloads:
        graphs = {int(batch): get_value(store, ref, Graph) for batch, ref in dossier["numeric"][workload.name].items()}
        model = Path(context["models"][workload.name])
        weights = model_digests(parse(Run, dossier["run"], "run.json").inputs, workload.name)
        found, misdelivered[workload.name] = quality_of(SIDE, workload, model, weights, graphs, target, settings)
        rows += found
    return from_rows("quality", rows), _known(misdelivered)


def _case(
    store: Store,
    run: Run,
    document: Candidate,
    dossier: Dossier,
    sides: dict[str, MetricValues],
    results: tuple[CheckResult, ...],
    isolation: Isolation,
) -> Case:
    requests = get_frame(store, dossier["tables"]["requests"])
    live = {side: served(requests, side) for side in ("comparator", "candidate")}
    rollback = criteria(document.policy, results, live["comparator"])
    failed = any(result.blocking and result.status == "fail" for result in results)
    growth = {scope: driver_growth(requests, scope) for scope in {result.scope for result in results}}
    return Case(
        run_id=run.run_id,
        candidate_name=run.candidate_name,
        policy=document.policy,
        results=results,
        mismatches=compare_sides(run.comparator, run.candidate, document.declared_changes),
        instabilities=unstable_checks(document.policy, sides["comparator"], _again(store, document, dossier)),
        isolation=isolation,
        bottlenecks={
            result.key: classify(
                result.check.metric, result.scope, growth[result.scope], sides["comparator"], sides["candidate"]
            )
            for result in results
        },
        criteria=rollback,
        drill=rehearse(rollback, live["comparator"], live["candidate"], failed=failed),
        evidence=run.candidate.evidence,
        changed_stages=changed_stages(run.comparator, run.candidate),
        planned_only=not document.candidate.profiles,
        model_only_accepted=document.model_only,
        today=date.fromisoformat(dossier["today"]) if dossier["today"] else date.min,
        warnings=folded(dossier["warnings"], len(dossier["arrivals"])),
    )


def read_decision(store: Store, payload: Payload) -> Decision:
    """The decision that the judgement kept."""
    return parse(Decision, get_value(store, payload["values"]["decision"], dict[str, Any]), "decision.json")

"""A small made-up run as Evidence: two workloads, one changed stage (fusion), one of the three verdicts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import polars as pl

from reports.evidence import Evidence
from schemas.candidate import Bucket, Candidate, Conditions, GeneratedTraffic, Side, Tags, Traffic, Workload
from schemas.decision import ArtifactDigest, Decision, Drill, Finding, InputDigest, RollbackCriterion, Run, SideLock
from schemas.policy import Check, Policy
from schemas.settings import Fusion, StageSettings
from tests.reports import world_tables as tables

DIGEST = "9f" * 32


def world(verdict: str = "NO_GO", *, requests: int = 4000, without: Collection[str] = ()) -> Evidence:
    """Evidence of one run. requests: on each side. without: tables that the run did not write."""
    kept = {name: frame for name, frame in _tables(verdict, requests).items() if name not in without}
    return Evidence(run(), decision(verdict), candidate(), kept)


@cache
def _tables(verdict: str, requests: int) -> dict[str, pl.DataFrame]:
    made: dict[str, pl.DataFrame] = {
        "kernels": tables.kernels(),
        "buffers": tables.buffers(),
        "timeline": tables.timeline(),
        "quality": tables.quality(passes=verdict != "NO_GO"),
        "metrics": tables.metrics(),
        "sweep": tables.sweep(),
        "trials": tables.trials(),
        "requests": tables.requests(requests, candidate_tail={"NO_GO": 2.4, "HOLD": 1.1, "GO": 0.95}[verdict]),
        "checks": tables.checks(verdict),
        "history": tables.history(),
    }
    if verdict == "NO_GO":
        made["mechanisms"] = tables.mechanisms()
    return made


def growing(evidence: Evidence) -> Evidence:
    """The same where the candidate's queue grows without end: latencies of it have no value."""
    latency = pl.col("metric").str.starts_with("latency")
    unknown = ("candidate_value", "change", "interval_low", "interval_high", "p_harm")
    checks = evidence.tables["checks"].with_columns(
        *(pl.when(~latency).then(pl.col(name)).alias(name) for name in unknown),
        message=pl.when(latency).then(
            pl.lit("the candidate's queue grows without end at a rate that the comparator serves")
        ).otherwise("message"),
    )  # fmt: skip
    return replace(evidence, tables={**evidence.tables, "checks": checks})


def unlike(evidence: Evidence) -> Evidence:
    """The same where the lock does not let the sides be compared."""
    broken = finding().model_copy(update={"check": "lock-tag", "isolation": "lock", "proof": "lock#tags.driver"})
    decision = evidence.decision.model_copy(
        update={"verdict": "HOLD", "exit_code": 2, "findings": (broken,), "first_finding": broken.id}
    )
    return replace(evidence, decision=decision)


def candidate() -> Candidate:
    comparator, fused = sides()
    return Candidate(
        schema="tilegate/v1",
        name="fused-9",
        target="edge-npu",
        model_only=True,
        workloads=(
            Workload(
                name="block", model="block.onnx", weight=0.6, batch_dim="batch", size_dim="sequence",
                buckets=(Bucket(name="short", shapes={"sequence": 128}), Bucket(name="long", shapes={"sequence": 512})),
            ),
            Workload(name="conv", model="conv.onnx", weight=0.4),
        ),
        traffic=Traffic(generate=GeneratedTraffic(kind="bursty", rate_per_s=900.0, duration_s=10.0)),
        comparator=comparator,
        candidate=fused,
        policy=Policy(
            checks=(
                Check(id="latency-p99", metric="latency_p99_us", margin=0.05),
                Check(id="latency-p95", metric="latency_p95_us", margin=0.05),
                Check(id="launch-overhead", metric="launch_overhead_reduction", margin=0.05),
                Check(id="rejected", metric="rejected_share", limit=0.005),
                Check(id="spill", metric="spill_bytes", scope="each_workload", limit=1048576.0, severity="warning"),
                Check(id="quality", metric="quality_failed_outputs", scope="each_workload", limit=0.0),
            ),
            owners={"ml_compiler_engineer": "Noor <noor@example.org>", "runtime_systems_engineer": "Ana"},
        ),
    )  # fmt: skip


def sides() -> tuple[Side, Side]:
    """Comparator and candidate: they differ in the fusion policy and in a declared tag, the compiler."""
    conditions = Conditions(clock_mhz=1000.0, temperature_c=55.0, power_w=15.0, throttling=False)
    made = tuple(
        Side(
            name=name,
            tags=Tags(compiler=compiler, runtime="rt 2.1", driver="550.1", firmware="1.4", hardware="npu-4"),
            conditions=conditions,
            settings=StageSettings(fusion=Fusion(policy=policy)),
        )
        for name, compiler, policy in (("stable-8", "tc 8.0", "pattern"), ("fused-9", "tc 9.0", "aggressive"))
    )
    return made[0], made[1]


def run() -> Run:
    locks = [
        SideLock(name=side.name, tags=side.tags, conditions=side.conditions, settings=side.settings,
                 evidence=("modelled", "replayed"))
        for side in sides()
    ]  # fmt: skip
    return Run(
        run_id="fused-9-20250304-0200",
        candidate_name="fused-9",
        created=datetime(2025, 3, 4, 2, 0, tzinfo=UTC),
        versions={"tilegate": "0.1.0", "numpy": "2.3.1"},
        code_digest=DIGEST,
        target="edge-npu",
        target_digest=DIGEST,
        traffic="bursty, 900 per s over 10 s",
        seeds=(1, 2, 3, 4),
        comparator=locks[0],
        candidate=locks[1],
        declared_changes=("compiler",),
        inputs=(InputDigest(role="model:block", path="models/<b>block.onnx", sha256=DIGEST, bytes=51234),),
        artifacts=(ArtifactDigest(name="kernels", path="kernels.parquet", sha256=DIGEST, bytes=20480, rows=9),),
        command="tilegate run candidates/fused-9.yaml",
    )


def finding() -> Finding:
    return Finding(
        id="latency-p99-overall",
        check="latency-p99",
        scope="overall",
        status="fail",
        severity="blocking",
        mechanism="fusion",
        isolation="isolated",
        bottleneck="spill",
        owner_role="ml_compiler_engineer",
        owner="Noor <noor@example.org>",
        summary="Groups fused past the on-chip capacity spill; in a burst the spilled bytes share DRAM and p99 rises.",
        action="Split the groups that spill, then run again.",
        proof="mechanisms#latency-p99/overall/prefix/fusion",
    )


def decision(verdict: str) -> Decision:
    failed = verdict == "NO_GO"
    return Decision(
        run_id="fused-9-20250304-0200",
        candidate_name="fused-9",
        verdict=verdict,
        exit_code={"GO": 0, "NO_GO": 1, "HOLD": 2}[verdict],
        reasons={
            "NO_GO": (
                "latency p99, overall: 37.5 % worse (33.1 to 41.9 %), limit 5 %. Harm is proven.",
                "latency p95, overall: 37.5 % worse (33.1 to 41.9 %), limit 5 %. Harm is proven.",
            ),
            "HOLD": (
                "latency p99, overall: 5.2 % worse, interval 0.8 to 9.6 % reaches the limit of 5 %.",
                "quality of conv: missing, no output was run.",
                "Rollback drill: not run.",
                "Comparator against itself: stable.",
                "Fifth reason, behind the fold.",
            ),
            "GO": ("All blocking checks pass.",),
        }[verdict],
        next_action={
            "NO_GO": "Split the groups that spill, then run again.",
            "HOLD": "Run 24 more replications: they would decide latency p99.",
            "GO": "",
        }[verdict],
        model_only=True,
        evidence=("modelled", "replayed"),
        changed_stages=("fusion",),
        first_failing_mechanism="fusion" if failed else None,
        first_finding="latency-p99-overall" if failed else None,
        findings=(finding(),) if failed else (),
        rollback=(
            RollbackCriterion(
                id="rollback-p99", metric="latency_p99_us", threshold=1063.0, unit="us", window_s=300.0,
                min_samples=1000, text="p99 above 1,063 µs over 5 minutes with at least 1,000 requests",
            ),
        ),
        drill=Drill(passed=True, criterion="rollback-p99", detection_s=12.5, recovered=True,
                    text="The criterion fired 12.5 s after the burst; the comparator took over.") if failed else None,
        waivers_applied=(),
        warnings=("Figures of target edge-npu: half_transfer_bytes is fitted, not published.",),
    )  # fmt: skip

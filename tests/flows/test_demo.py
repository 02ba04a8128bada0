"""The case study: over-fusion is NO_GO under bursts whatever the seed, harmless at low load, and its fix is GO."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from accelmodel.memo import Memo
from accelmodel.settings import STAGES
from flows.arrivals import replications
from flows.commands.run import judge_candidate
from flows.demo import EXPECTED, write_demo
from flows.embedded import EmbeddedServer
from flows.hybrids import Bench
from flows.inputs import LoadedCandidate, load_candidate
from flows.judge.checks import CheckResult, evaluate
from flows.judge.isolation import isolate
from flows.store import Store, read_table
from flows.tasks.ingress import plan_graphs
from schemas.candidate import Candidate, Traffic

pytestmark = pytest.mark.slow
SEEDS = [1 + 1000 * number for number in range(20)]  # far apart: no two share a replication


@dataclass(frozen=True, slots=True)
class Demo:
    """Both runs of the case study: their files, their summaries, and the run folders."""

    files: dict[str, Path]
    summaries: dict[str, dict[str, Any]]
    store: Store

    def table(self, name: str, table: str) -> pl.DataFrame:
        return read_table(self.store.run_folder(self.summaries[name]["run_id"]) / f"{table}.parquet")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, prefect_server: EmbeddedServer) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    files, store = write_demo(folder), Store(folder / "runs")
    runs = {name: judge_candidate(path, store, prefect_server, show=False) for name, path in files.items()}
    return Demo(files, runs, store)


@dataclass(slots=True)
class Judged:
    """The over-fused candidate judged on other traffic than its own: the same plans, the same numeric quality."""

    loaded: LoadedCandidate
    quality: pl.DataFrame
    bench: Bench

    def on(self, traffic: Traffic) -> tuple[tuple[CheckResult, ...], str | None]:
        """Results of all checks, and the first failing mechanism."""
        document = self.loaded.document.model_copy(update={"traffic": traffic})
        bench = self._bench(document)
        comparator, candidate = bench.evaluate(frozenset()), bench.evaluate(frozenset(STAGES))
        results = evaluate(document.policy, comparator, candidate, [workload.name for workload in document.workloads])
        return results, isolate(results, ("fusion",), bench.evaluate, document.policy).first

    def _bench(self, document: Candidate) -> Bench:
        arrivals = replications(document, None)
        seeds = [traffic_seed + document.traffic.seed for traffic_seed in range(len(arrivals))]
        return replace(self.bench, document=document, arrivals=arrivals, seeds=seeds)


@pytest.fixture(scope="module")
def judged(demo: Demo) -> Iterator[Judged]:
    loaded = load_candidate(demo.files["overfused"])
    quality = demo.table("overfused", "quality").filter(pl.col("side") == "candidate")
    arrivals = replications(loaded.document, None)
    graphs = {
        workload.name: dict(plan_graphs(loaded, index, arrivals))
        for index, workload in enumerate(loaded.document.workloads)
    }
    whole = dict.fromkeys(graphs, 0)
    bench = Bench(
        document=loaded.document, target=loaded.target, comparator=loaded.settings("comparator"),
        candidate=loaded.settings("candidate"), graphs=graphs, arrivals=arrivals, seeds=[],
        quality=lambda settings: (quality, whole), known={}, memo=Memo(),
    )  # fmt: skip
    yield Judged(loaded, quality, bench)


def _failed(results: tuple[CheckResult, ...]) -> set[str]:
    return {result.check.id for result in results if result.blocking and result.status == "fail"}


def test_the_gate_says_what_the_case_study_is_about(demo: Demo) -> None:
    assert {name: summary["verdict"] for name, summary in demo.summaries.items()} == EXPECTED
    over = demo.summaries["overfused"]
    assert (over["first_failing_mechanism"], over["bottleneck"]) == ("fusion", "spill")
    assert over["owner"] == "fusion team"


def test_over_fusion_saves_launches_and_pays_in_dram_traffic(demo: Demo) -> None:
    checks = demo.table("overfused", "checks").filter(pl.col("scope") == "overall")
    values = {row["metric"]: (row["comparator_value"], row["candidate_value"]) for row in checks.to_dicts()}
    assert values["launch_overhead_reduction"][1] > values["launch_overhead_reduction"][0] + 0.3
    assert values["latency_p50_us"][1] < values["latency_p50_us"][0]
    assert values["latency_p95_us"][1] > 1.1 * values["latency_p95_us"][0]
    assert values["dram_bytes"][1] > 1.3 * values["dram_bytes"][0]


def test_the_fix_moves_the_fusion_boundary_and_nothing_else(demo: Demo) -> None:
    over, fixed = (load_candidate(demo.files[name]) for name in ("overfused", "fixed"))
    assert fixed.settings("candidate").changed_stages(over.settings("candidate")) == ("fusion",)
    assert fixed.settings("comparator") == over.settings("comparator")
    moved = {"split_before": ()}
    assert replace(fixed.settings("candidate").fusion, **moved) == over.settings("candidate").fusion
    assert fixed.document.traffic == over.document.traffic


def test_no_go_holds_over_twenty_traffic_seeds(judged: Judged) -> None:
    for seed in SEEDS:
        results, mechanism = judged.on(judged.loaded.document.traffic.model_copy(update={"seed": seed}))
        assert {"latency-p95", "latency-p99"} <= _failed(results), f"seed {seed}"
        assert mechanism == "fusion", f"seed {seed}"


def test_the_same_candidate_passes_at_low_load(judged: Judged) -> None:
    traffic = judged.loaded.document.traffic
    assert traffic.generate is not None
    quiet = traffic.generate.model_copy(update={"rate_per_s": 2.0, "duration_s": 1000.0})
    results, mechanism = judged.on(traffic.model_copy(update={"generate": quiet}))
    assert {r.status for r in results if r.blocking} == {"pass"}
    assert mechanism is None

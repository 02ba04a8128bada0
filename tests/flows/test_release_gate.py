"""The flow from a candidate file to a verdict: what it leaves behind, what it does not do twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.commands.run import judge_candidate
from flows.embedded import EmbeddedServer
from flows.history import read_history
from flows.store import Store, read_document, read_log, read_table
from flows.verify import verify_run
from schemas.decision import Decision, Run
from schemas.tables import TABLES, validate
from tests.flows.world import Write

STAGES = (
    "ingress", "lowering", "fusion", "tiling", "placement", "execution", "quality", "scheduling", "assembly", "lens",
    "trials", "judge", "report",
)  # fmt: skip
WRITTEN = sorted(set(TABLES) - {"history", "profile_kernels"})


def work_done(store: Store, run_id: str) -> Counter[tuple[str, str]]:
    """How often each stage finished each item."""
    lines = read_log(store.execution_log(run_id))
    return Counter((str(line["stage"]), str(line["item"])) for line in lines if line["event"] == "finished")


def test_a_slower_candidate_is_no_go_and_its_stage_is_named(judged: dict[str, Any]) -> None:
    summary = judged["slower"]

    assert (summary["verdict"], summary["exit_code"]) == ("NO_GO", 1)
    assert summary["first_failing_mechanism"] == "execution"
    assert summary["bottleneck"] == "sync"
    assert summary["owner_role"] == "kernel_performance_owner"
    assert summary["proof"].startswith("mechanisms#latency-")


def test_a_candidate_that_changes_nothing_of_weight_is_go(judged: dict[str, Any]) -> None:
    summary = judged["same"]

    assert (summary["verdict"], summary["exit_code"]) == ("GO", 0)
    assert summary["first_failing_mechanism"] is None
    assert summary["model_only"] is True


@pytest.mark.parametrize("name", ["slower", "same"])
def test_a_run_leaves_its_documents_and_valid_tables(judged: dict[str, Any], name: str) -> None:
    folder = judged["store"].run_folder(judged[name]["run_id"])
    run = read_document(folder / "run.json", Run)

    assert sorted(path.stem for path in folder.glob("*.parquet")) == WRITTEN
    for table in WRITTEN:
        assert validate(table, read_table(folder / f"{table}.parquet")).height > 0 or table == "mechanisms"
    assert read_document(folder / "decision.json", Decision).verdict == judged[name]["verdict"]
    assert {item.path for item in run.artifacts} == {path.name for path in folder.iterdir()} - {"run.json"}
    assert [item for item in verify_run(folder) if item.problem] == []


def test_the_lock_holds_what_the_run_rested_on(judged: dict[str, Any]) -> None:
    run = read_document(judged["store"].run_folder(judged["slower"]["run_id"]) / "run.json", Run)

    assert [item.role for item in run.inputs] == ["candidate", "target", "model:block"]
    assert run.seeds == (5, 6, 7, 8)
    assert run.candidate.settings.execution.extra_barriers == 40
    assert run.comparator.settings.execution.extra_barriers == 0
    assert run.command == "tilegate run slower.yaml"


def test_latencies_are_the_sums_of_their_drivers_on_the_same_arrivals(judged: dict[str, Any]) -> None:
    requests = read_table(judged["store"].run_folder(judged["slower"]["run_id"]) / "requests.parquet")
    arrivals = {
        side: requests.filter(pl.col("side") == side)["arrival_ps"].to_list() for side in ("comparator", "candidate")
    }

    assert arrivals["comparator"] == arrivals["candidate"]
    assert requests["replication"].unique().sort().to_list() == [0, 1, 2, 3]
    assert validate("requests", requests).height == requests.height  # the schema holds the exact sum


def test_metrics_are_weighted_by_the_requests_that_plans_served(judged: dict[str, Any]) -> None:
    metrics = read_table(judged["store"].run_folder(judged["slower"]["run_id"]) / "metrics.parquet")
    weights = metrics.group_by("side").agg(pl.col("weight").sum())["weight"].to_list()

    assert weights == pytest.approx([1.0, 1.0])
    assert metrics.filter(pl.col("bucket") == "short")["weight"].to_list() == pytest.approx([0.75, 0.75], abs=0.05)


def test_each_stage_works_on_each_item_once(judged: dict[str, Any]) -> None:
    done = work_done(judged["store"], judged["slower"]["run_id"])

    assert {stage for stage, _ in done} == set(STAGES)
    assert done.pop(("scheduling", "comparator")) == 2  # its second run, under other noise, is one of them
    del done["report", ""]  # a history that has grown is a new page
    assert set(done.values()) == {1}


def test_a_second_candidate_shares_the_stages_that_it_has_in_common(judged: dict[str, Any]) -> None:
    done = work_done(judged["store"], judged["same"]["run_id"])

    assert ("lowering", "block candidate") not in done  # both sides lower as the first run did
    assert ("execution", "block comparator") not in done
    assert ("tiling", "block candidate") in done


def test_the_same_command_finds_everything_done(judged: dict[str, Any]) -> None:
    store, before = judged["store"], work_done(judged["store"], judged["same"]["run_id"])
    again = judge_candidate(judged["files"]["same"], store, judged["server"], show=False)

    assert (again["run_id"], again["verdict"]) == (judged["same"]["run_id"], "GO")
    assert work_done(store, again["run_id"]) == before
    assert read_history(store).filter(pl.col("run_id") == again["run_id"]).is_unique().all()


def test_a_kept_value_that_changed_is_made_again(judged: dict[str, Any]) -> None:
    store, run_id = judged["store"], judged["slower"]["run_id"]
    before = work_done(store, run_id)
    requests = store.run_folder(run_id) / "requests.parquet"
    run = read_document(store.run_folder(run_id) / "run.json", Run)
    digest = next(item.sha256 for item in run.artifacts if item.name == "requests")
    store.value_path(digest, "parquet").write_bytes(b"changed")
    requests.write_bytes(b"changed")

    judge_candidate(judged["files"]["slower"], store, judged["server"], show=False)

    again = work_done(store, run_id) - before
    assert set(again) - {("report", "")} == {("assembly", "")}  # the page shows a longer history by now
    assert [item for item in verify_run(store.run_folder(run_id)) if item.problem] == []


def test_other_tools_get_the_verdict_too(judged: dict[str, Any]) -> None:
    folder = judged["store"].run_folder(judged["slower"]["run_id"])
    statement = json.loads((folder / "vsa.json").read_text())

    assert statement["predicate"]["verificationResult"] == "FAILED"
    assert 'failures="' in (folder / "junit.xml").read_text()


def test_bad_input_that_shows_late_leaves_no_half_written_run(
    write_candidate: Write, prefect_server: EmbeddedServer, tmp_path: Path
) -> None:
    from accelmodel.errors import InputError

    store = Store(tmp_path / "runs")
    path = write_candidate("late", candidate={"lowering": {"precision": "float8_e4m3fn"}})
    with pytest.raises(InputError, match="float8_e4m3fn"):
        judge_candidate(path, store, prefect_server, show=False)

    assert store.run_ids() == ()
    assert [entry.name for entry in store.root.iterdir() if not entry.name.startswith(".")] == []


@pytest.mark.parametrize("content", ["", "{}", '{"run_id": "sam'])
def test_a_damaged_lock_is_written_anew_by_the_same_command(
    judged: dict[str, Any], content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store, file = judged["store"], judged["files"]["same"]
    path = store.run_folder(judged["same"]["run_id"]) / "run.json"
    path.write_text(content)

    again = judge_candidate(file, store, judged["server"], show=False)

    assert again["verdict"] == "GO"
    assert "could not be read" in capsys.readouterr().err
    assert [item for item in verify_run(path.parent) if item.problem] == []


def test_verify_tells_of_a_history_that_was_moved_aside(judged: dict[str, Any]) -> None:
    store, file = judged["store"], judged["files"]["same"]
    whole, folder = (store.root / "history.parquet").read_bytes(), store.run_folder(judged["same"]["run_id"])
    (store.root / "history.parquet").write_text("junk")
    assert [item.part for item in verify_run(folder) if item.problem] == ["store"]

    judge_candidate(file, store, judged["server"], show=False)

    aside = store.root / "history.parquet.damaged-1"
    assert [item.path for item in verify_run(folder) if item.problem] == [str(aside)]
    aside.unlink()
    assert [item for item in verify_run(folder) if item.problem] == []
    (store.root / "history.parquet").write_bytes(whole)

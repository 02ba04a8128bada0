"""The command line: what each command prints, and the exit codes that programs rely on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import polars as pl
import pytest
import yaml

from flows.cli import main
from flows.commands.failure import explain
from flows.inputs import load_candidate
from flows.store import write_table
from schemas.errors import TableError
from tests.flows.world import Write, document

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "--help")

    assert code == 0
    for command in ("init", "run", "plan", "replay", "report", "verify", "schema", "announce", "up", "demo", "version"):
        assert f" {command} " in out
    assert "Exit codes: 0 GO, 1 NO_GO, 2 HOLD, 3 invalid input" in out


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'prefect', 'numba', 'onnx', 'polars', 'scipy', 'pandera', 'pydantic', 'altair'}"
    code = f"import sys; from flows.cli import main; main(['--help']); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments", [["run"], ["run", "--none"], ["nothing"], ["plan", "x.onnx"], ["up", "--port", "0"]]
)
def test_a_usage_error_is_invalid_input_and_not_hold(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, *arguments)

    assert code == 3
    assert "Usage" in err


def test_exit_codes_reach_the_shell(judged: dict[str, Any]) -> None:
    for name, code in (("slower", 1), ("same", 0)):
        command = [sys.executable, "-m", "flows.cli", "run", str(judged["files"][name]), "-q",
                   "--store", str(judged["store"].root)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (code, judged[name]["verdict"], "")


def test_without_model_only_the_verdict_is_hold(
    write_candidate: Write, prefect_server: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_candidate("held", model_only=False)
    code, out, err = said(capsys, "run", str(path), "--store", str(tmp_path / "runs"), "--json")
    summary = json.loads(out)

    assert (code, summary["exit_code"], summary["verdict"]) == (2, 2, "HOLD")
    assert "model_only: true" in summary["next_action"]
    assert err == ""


def test_run_prints_verdict_mechanism_proof_owner_action_and_report(
    judged: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(
        capsys, "run", str(judged["files"]["slower"]), "--store", str(judged["store"].root), "--timings"
    )
    words = " ".join(out.split())

    assert code == 1
    assert words.startswith("NO_GO slower (MODEL-ONLY) first failing mechanism execution bottleneck sync")
    for part in ("proof", "mechanisms~latency-", "owner kernel performance owner", "next action", "report.html",
                 "orchestration"):  # fmt: skip
        assert part in words
    assert err == ""


def test_a_failure_inside_leaves_a_log_and_one_sentence(
    write_candidate: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import flows.inputs

    def fail(path: Path) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(flows.inputs, "load_candidate", fail)
    code, out, err = said(capsys, "run", str(write_candidate("c")), "--store", str(tmp_path / "runs"))
    (log,) = (tmp_path / "runs" / ".logs").glob("error-*.log")

    assert code == 4
    assert out == ""
    assert err == f"error: tilegate failed inside (RuntimeError). The details are in {log}.\n"
    assert "boom" in log.read_text()


def test_a_store_that_is_a_file_is_said_in_one_line(
    judged: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for store in (tmp_path / "file", tmp_path / "file" / "below"):
        code, out, err = said(capsys, "run", str(judged["files"]["same"]), "--store", str(store), "-q")

        assert (code, out, err.count("\n")) == (3, "", 1)
        assert err.startswith(f"error: store {store}: expected a folder that can be written to")


def test_a_table_of_our_own_that_breaks_its_schema_is_an_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TableError) as caught:
        write_table(tmp_path, "history", pl.DataFrame({"run_id": ["a"]}))

    assert explain(caught.value, ["run", "--store", str(tmp_path)]) == 4
    assert "TableError" in capsys.readouterr().err


def test_a_failure_that_can_be_logged_nowhere_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    code = explain(RuntimeError("boom\nand more"), ["run", "c.yaml", "--store", str(tmp_path / "file")])

    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (4, 1)
    assert "RuntimeError" in err and "'boom'" in err and "Traceback" not in err


def test_a_server_that_does_not_answer_is_said(
    write_candidate: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    for command in ("run", "announce"):
        code, _, err = said(capsys, command, str(write_candidate("c")))
        assert code == 3  # the address is the user's to mend
        assert "http://127.0.0.1:9/api" in err
        assert "`tilegate up`" in err


def test_bad_input_leaves_no_store_where_none_was(
    write_candidate: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PREFECT_API_URL")  # as a user has it: the command brings its own server, which writes a log
    path = write_candidate("bad", target="none")
    assert said(capsys, "run", str(path), "--store", str(tmp_path / "new" / "runs"))[0] == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.yaml"]

    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "kept").touch()
    assert said(capsys, "run", str(path), "--store", str(tmp_path / "old"))[0] == 3
    assert (tmp_path / "old" / "kept").exists()


def test_what_another_process_uses_is_not_taken_away(tmp_path: Path) -> None:
    import fcntl
    import os

    from flows.commands.nothing_left import nothing_left
    from flows.store import Store, StoreError

    store = Store(tmp_path / "runs")
    with pytest.raises(StoreError), nothing_left(store):
        other = os.open(store.root, os.O_RDONLY)
        fcntl.flock(other, fcntl.LOCK_SH)
        raise StoreError("bad input")
    assert store.root.is_dir()
    os.close(other)


def test_a_server_may_be_named_without_the_path_of_its_api() -> None:
    from flows.deploy import api_url, pages_url

    for given in ("http://host:48301", "http://host:48301/", "http://host:48301/api", "http://host:48301/api/"):
        assert api_url(given) == "http://host:48301/api"
    assert api_url("https://host/prefix/api") == "https://host/prefix/api"
    assert pages_url("http://host:48301/api") == "http://host:48301"


def test_sides_that_are_alike_are_said(judged: dict[str, Any], write_candidate: Write) -> None:
    from flows.gate import _of_sides

    assert "compares a release with itself" in _of_sides(load_candidate(write_candidate("alike")).document)[0]
    assert _of_sides(load_candidate(judged["files"]["slower"]).document) == []


def test_links_are_whole_and_timings_have_a_total(
    judged: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    options = ["run", str(judged["files"]["slower"]), "--store", str(judged["store"].root), "--timings"]
    lines = said(capsys, *options)[1].splitlines()
    report = str(judged["slower"]["report"])

    assert f"report  {report}" in lines
    assert any(line.startswith(f"proof  {report}#") for line in lines)
    assert lines[-1].split()[0] == "total"
    assert any(line.split() == ["of", "it", "all", "seconds"] for line in lines)


def test_verify_names_the_file_that_changed(
    judged: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    run_id = judged["same"]["run_id"]
    copy = tmp_path / "runs" / run_id
    shutil.copytree(judged["store"].run_folder(run_id), copy)
    assert said(capsys, "verify", run_id[:6], "--store", str(tmp_path / "runs"))[0] == 0

    page, table = copy / "report.html", copy / "kernels.parquet"
    page.write_text(page.read_text().replace("GO", "NO"))
    table.write_bytes(table.read_bytes()[:-1])
    (copy / "ops.parquet").unlink()
    code, out, _ = said(capsys, "verify", str(copy))
    assert code == 3
    for name in ("report.html: changed", "kernels.parquet: changed", "ops.parquet: cannot be read"):
        assert name in out

    code, out, _ = said(capsys, "verify", str(copy), "--json")
    assert code == 3
    assert {row["name"] for row in json.loads(out)["files"] if row["problem"]} == {"report", "kernels", "ops"}

    assert said(capsys, "report", str(copy))[0] == 3  # no page is made of evidence that changed


def test_verify_sees_a_table_that_breaks_its_schema_and_an_input_that_changed(
    judged: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    from flows.digest import file_digest
    from flows.store import read_document, read_table, write_document
    from schemas.decision import Run

    copy = tmp_path / "copy"
    shutil.copytree(judged["store"].run_folder(judged["same"]["run_id"]), copy)
    read_table(copy / "sweep.parquet").drop("zone").write_parquet(copy / "sweep.parquet")
    run = read_document(copy / "run.json", Run)
    digests = {"sweep": file_digest(copy / "sweep.parquet")}  # as if someone had mended the lock as well
    artifacts = tuple(item.model_copy(update={"sha256": digests.get(item.name, item.sha256)}) for item in run.artifacts)
    candidate = tmp_path / "candidate.yaml"
    candidate.write_text("changed")
    inputs = tuple(
        item.model_copy(update={"path": str(candidate)}) if item.role == "candidate" else item for item in run.inputs
    )
    write_document(copy, "run.json", run.model_copy(update={"artifacts": artifacts, "inputs": inputs}))

    code, out, _ = said(capsys, "verify", str(copy))
    assert code == 3
    assert "sweep.parquet: breaks its schema: sweep: zone" in out
    assert f"input candidate: {candidate}: changed" in out


def test_report_renders_the_page_again_from_the_evidence(
    judged: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    store, run_id = judged["store"], judged["same"]["run_id"]
    page = store.run_folder(run_id) / "report.html"
    page.unlink()

    code, out, _ = said(capsys, "report", run_id, "--store", str(store.root))
    assert (code, out.strip()) == (0, str(page))
    assert "<html" in page.read_text()
    assert said(capsys, "verify", run_id, "--store", str(store.root))[0] == 0


def test_report_of_a_run_in_another_folder_keeps_its_history(
    judged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = judged["store"].run_folder(judged["same"]["run_id"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TILEGATE_STORE", raising=False)

    assert said(capsys, "report", str(folder))[0] == 0
    assert "missing: history" not in (folder / "report.html").read_text()
    assert list(tmp_path.iterdir()) == []


def test_plan_prints_worksheet_and_metrics(block_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["plan", str(block_model), "-t", "edge-npu", "-s", "batch=1", "-s", "sequence=8"]
    code, out, _ = said(capsys, *options)
    assert code == 0
    for part in ("launch overhead reduction", "time alone on the machine", "MatMul+"):
        assert part in out
    shorter = said(capsys, *options, "--top", "1")[1]
    assert "more kernels; those above take" in shorter
    assert len(shorter.splitlines()) < len(out.splitlines())

    fused, apart = (
        json.loads(said(capsys, *options, "--json", "--policy", policy)[1]) for policy in ("pattern", "none")
    )
    assert fused["metrics"]["launches"] < apart["metrics"]["launches"]
    assert apart["metrics"]["launch_overhead_reduction"] == 0
    assert {row["policy"] for row in fused["kernels"]} == {"pattern"}


def test_names_of_a_model_cannot_command_the_terminal(
    block_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    model = onnx.load(block_model)
    model.graph.node[0].name = "\x1b[2J[red]<script>"
    onnx.save(model, tmp_path / "named.onnx")
    options = ["-t", "edge-npu", "-s", "batch=1", "-s", "sequence=8"]
    code, out, _ = said(capsys, "plan", str(tmp_path / "named.onnx"), *options)

    assert code == 0
    assert "\x1b" not in out
    assert "[2J[red]" in out
    code, _, err = said(capsys, "plan", str(tmp_path / "\x1bnone.onnx"), *options)
    assert code == 3
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([], "Give them, for example --shape batch=1 --shape sequence=1"),
        (["batch"], "DIM=SIZE"),
        (["batch=x"], "DIM=SIZE"),
        (["rows=1"], "no such dim"),
    ],
)
def test_plan_says_which_shape_is_wrong(
    shapes: list[str], message: str, block_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [item for shape in shapes for item in ("-s", shape)]
    code, _, err = said(capsys, "plan", str(block_model), "-t", "edge-npu", *options)

    assert code == 3
    assert message in err


def test_replay_tells_the_tails_of_both_sides_and_writes_nothing(
    write_candidate: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_candidate("c", candidate={"execution": {"extra_barriers": 40}})
    code, out, _ = said(capsys, "replay", str(path), "--json")
    found = json.loads(out)

    assert code == 0
    assert found["candidate"]["p99_us"] > found["comparator"]["p99_us"]
    before, after = (found[side]["drivers_of_middle_us"] for side in ("comparator", "candidate"))
    assert max(after, key=lambda name: after[name] - before[name]) == "sync"
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.yaml"]

    code, out, _ = said(capsys, "replay", str(path))
    assert code == 0
    assert "p99, µs" in out


def test_init_writes_a_file_that_runs_as_it_is(
    tmp_path: Path, prefect_server: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "candidate.yaml"
    code, out, _ = said(
        capsys, "init", str(LIGHT / "light_squeezenet.onnx"), "--target", "a100-40gb", "--output", str(path)
    )
    assert code == 0
    assert "it runs as it is" in out
    loaded = load_candidate(path)
    assert loaded.document.model_only
    assert loaded.settings("comparator") == loaded.settings("candidate")
    assert path.read_text().count("#") > 25
    assert path.read_text().count("placeholder") >= 5  # made-up versions, conditions and rate say so
    generated = loaded.document.traffic.generate
    assert generated is not None
    for number in (generated.rate_per_s, generated.duration_s):
        assert number == float(f"{number:.1e}")

    assert said(capsys, "init", str(LIGHT / "light_squeezenet.onnx"), "-t", "edge-npu", "-o", str(path))[0] == 3
    assert "--force" in said(capsys, "init", str(LIGHT / "light_squeezenet.onnx"), "-t", "edge-npu", "-o", str(path))[2]


def test_init_leaves_clear_spots_where_only_the_user_knows(
    tmp_path: Path, block_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "candidate.yaml"
    code, out, _ = said(capsys, "init", str(block_model), "-t", "edge-npu", "-o", str(path))
    assert code == 0
    assert "replace FILL by the sizes of sequence" in out
    assert said(capsys, "run", str(path))[0] == 3

    filled = path.read_text().replace("FILL", "8")
    path.write_text(filled)
    loaded = load_candidate(path)
    assert loaded.document.workloads[0].batch_dim == "batch"
    assert loaded.document.workloads[0].buckets[0].shapes == {"sequence": 8}


def test_schema_prints_documents_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capsys, "schema")[1])["documents"][0] == "candidate"
    assert "properties" in json.loads(said(capsys, "schema", "candidate")[1])
    assert json.loads(said(capsys, "schema", "kernels")[1])["columns"][0]["column"] == "side"
    code, _, err = said(capsys, "schema", "none")
    assert code == 3
    assert "expected one of candidate" in err


def test_plan_speaks_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "plan", str(tmp_path / "none.onnx"), "-t", "edge-npu")
    assert (code, err.split(". ")[-1]) == (3, "Correct the path.\n")
    assert "candidate" not in err

    code, _, err = said(capsys, "plan", str(tmp_path / "none.onnx"), "-t", "edge")
    assert code == 3
    assert err.startswith("error: command line: --target: expected a target (")


def test_plan_names_the_ops_that_fall_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from onnx import TensorProto, helper

    shape = [TensorProto.FLOAT, [4, 4]]
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="n0"), helper.make_node("Det", ["y"], ["z"], name="n1")]
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", *shape)], outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    code, out, _ = said(capsys, "plan", str(tmp_path / "m.onnx"), "-t", "edge-npu")

    assert code == 0
    assert "on the host: Det: no lowering rule for" in out


def test_version_tells_libraries_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "version", "--json")[1])

    assert {"tilegate", "prefect", "numpy"} <= set(found["versions"])
    assert len(found["code_digest"]) == 64
    assert said(capsys, "version")[1].startswith("tilegate")
    assert said(capsys, "--version") == (0, f"tilegate {found['versions']['tilegate']}\n", "")


def test_prefect_yaml_describes_the_deployments_that_up_makes(tmp_path: Path) -> None:
    from flows.deploy import EVENT, NIGHTLY_CRON, POOL, deployments
    from flows.store import Store

    described = yaml.safe_load((Path(__file__).parents[2] / "prefect.yaml").read_text())["deployments"]
    made = {item.name: item for item in deployments(Store(tmp_path), tmp_path / "candidate.yaml")}
    by_name = {item["name"]: item for item in described}

    assert set(by_name) == set(made) == {"nightly", "per-candidate"}
    assert [item["cron"] for item in by_name["nightly"]["schedules"]] == [NIGHTLY_CRON]
    assert made["nightly"].schedules[0].schedule.cron == NIGHTLY_CRON
    (trigger,), (described_trigger,) = made["per-candidate"].triggers, by_name["per-candidate"]["triggers"]
    assert trigger.expect == set(described_trigger["expect"]) == {EVENT}
    assert trigger.parameters == described_trigger["parameters"]
    assert {item["work_pool"]["name"] for item in described} == {POOL}
    assert {item.entrypoint for item in made.values()} == {"flows.release_gate.release_gate"}
    assert {item["entrypoint"] for item in described} == {"flows/release_gate.py:release_gate"}


def test_replay_finds_the_rates_that_each_side_can_take(
    write_candidate: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"tiling": {"cores": 1}, "assembly": {"sla_us": 20000}}
    side = {**document("")["comparator"], "settings": settings}
    slow = {**settings, "execution": {"extra_barriers": 200}}
    path = write_candidate("c", candidate=slow, comparator=side)
    code, out, _ = said(capsys, "replay", str(path), "--capacity", "--json")
    stable, slower = (json.loads(out)[name]["capacity"] for name in ("comparator", "candidate"))

    assert code == 0
    assert slower["stable_rate_per_s"] < stable["stable_rate_per_s"]
    for found in (stable, slower):
        assert found["knee_per_s"] <= found["stable_rate_per_s"]
        assert found["sla_rate_per_s"] <= found["stable_rate_per_s"]
        assert all(trial["quantiles_ps"] == [None] * 3 for trial in found["trials"] if trial["unstable"])

    code, out, _ = said(capsys, "replay", str(path), "--capacity")
    assert code == 0
    assert "p99 within the SLA up to" in out

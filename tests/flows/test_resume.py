"""A run that is killed resumes on the same command, and repeats no finished stage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from flows.embedded import API_VARIABLE, EmbeddedServer
from flows.stages import KILL_VARIABLE
from flows.store import Store, read_document, read_log
from flows.verify import verify_run
from schemas.decision import Run
from tests.flows.world import Write

# Killed after a stage, or inside one; the next command is killed later, the last one is left alone.
KILLS = ("in:fusion", "execution", "in:scheduling", "lens", "in:report")


def run_gate(
    candidate: Path, store: Path, kill: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`tilegate run` in a process of its own."""
    variables = {**os.environ, **environment, **({KILL_VARIABLE: kill} if kill else {})}
    command = [sys.executable, "-m", "flows.cli", "run", str(candidate), "--store", str(store), "--json"]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
def test_a_run_killed_again_and_again_finishes_and_repeats_no_finished_stage(
    write_candidate: Write, tmp_path: Path, prefect_server: EmbeddedServer
) -> None:
    candidate, store = write_candidate("killed", candidate={"execution": {"extra_barriers": 40}}), tmp_path / "runs"
    for kill in KILLS:
        assert run_gate(candidate, store, kill).returncode == -signal.SIGKILL, kill
    last = run_gate(candidate, store)

    assert last.returncode == 1, last.stderr
    run_id = json.loads(last.stdout)["run_id"]
    lines = read_log(Store(store).execution_log(run_id))
    finished = Counter((line["stage"], line["item"]) for line in lines if line["event"] == "finished")
    started = Counter((line["stage"], line["item"]) for line in lines if line["event"] == "started")
    twice = {("scheduling", "comparator")}  # the comparator runs twice: the second time under other noise
    assert {key for key, count in finished.items() if count > 1} <= twice
    assert {stage for stage, _ in finished} >= {"ingress", "fusion", "execution", "scheduling", "judge", "report"}
    cut_short = {stage for stage, item in started if started[stage, item] > finished[stage, item]}
    assert cut_short <= {kill.removeprefix("in:") for kill in KILLS if kill.startswith("in:")}
    assert [item for item in verify_run(Store(store).run_folder(run_id)) if item.problem] == []


@pytest.mark.slow
def test_without_a_server_the_gate_brings_its_own_and_leaves_no_process(write_candidate: Write, tmp_path: Path) -> None:
    candidate, store = write_candidate("alone"), tmp_path / "runs"
    environment = dict.fromkeys((API_VARIABLE, "PREFECT_HOME"), "")

    killed = run_gate(candidate, store, "lowering", **environment)
    assert killed.returncode == -signal.SIGKILL
    run = read_document(next(store.glob("*/run.json")), Run)
    assert run.artifacts == ()  # complete before any result is believed, and says that it is not finished

    done = run_gate(candidate, store, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verdict"] == "GO"
    for process in servers_of(store):
        process.wait(10)  # the killed command's server ends when its pipe closes
    assert servers_of(store) == []


@pytest.mark.slow
def test_two_processes_with_the_same_command_share_one_run(
    write_candidate: Write, tmp_path: Path, prefect_server: EmbeddedServer
) -> None:
    candidate, store = write_candidate("shared"), tmp_path / "runs"
    command = [sys.executable, "-m", "flows.cli", "run", str(candidate), "--store", str(store), "-q"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]

    assert [process.communicate(timeout=240) for process in both] == [("GO\n", ""), ("GO\n", "")]
    (run_id,) = Store(store).run_ids()
    lines = read_log(Store(store).execution_log(run_id))
    finished = Counter((line["stage"], line["item"]) for line in lines if line["event"] == "finished")
    assert {key for key, count in finished.items() if count > 1} == {("scheduling", "comparator")}


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on(
    write_candidate: Write, tmp_path: Path, prefect_server: EmbeddedServer
) -> None:
    candidate, store = write_candidate("interrupted"), tmp_path / "runs"
    command = [sys.executable, "-m", "flows.cli", "run", str(candidate), "--store", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = store / ".logs"
    while process.poll() is None and not list(log.glob("*.jsonl")):
        time.sleep(0.02)  # until its first stage has begun
    process.send_signal(signal.SIGINT)

    assert process.communicate(timeout=60) == ("", "interrupted: the same command takes it up again\n")
    assert process.returncode == 130


def servers_of(store: Path) -> list[psutil.Process]:
    """Processes whose Prefect home is in this store."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(store) in process.environ().get("PREFECT_HOME", ""):
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found

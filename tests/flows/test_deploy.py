"""The gate as a service: server, worker, deployments and event on this machine, and nothing left when it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.store import Store, read_document
from schemas.decision import Decision
from tests.flows.world import Write

TIMEOUT_S = 150.0
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def until(ready: Callable[[], Any]) -> Any:
    """What `ready` gives as soon as it gives something."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := ready()):
        assert time.monotonic() < deadline, "not ready in time"
        time.sleep(0.2)
    return found


def asked(api: str, what: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(
        f"{api}/{what}/filter", json.dumps(body or {}).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[str, Path, psutil.Process]]:
    """`tilegate up` on a free port: its API, its store and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store, output = tmp_path / "runs", tmp_path / "up.log"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-m", "flows.cli", "up", "--port", str(port), "--store", str(store)]
    with output.open("wb") as file:
        process = psutil.Popen(command, stdout=file, stderr=file, env=clean)
    until(lambda: b"announce a candidate" in output.read_bytes() or process.poll() is not None)
    assert process.poll() is None, output.read_text()
    yield f"http://127.0.0.1:{port}/api", store, process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.mark.slow
def test_an_announced_candidate_is_judged_and_everything_ends(
    service: tuple[str, Path, psutil.Process], write_candidate: Write
) -> None:
    api, store, process = service
    candidate = write_candidate("announced")
    deployed = {item["name"]: item for item in asked(api, "deployments")}
    assert set(deployed) == {"nightly", "per-candidate"}
    assert deployed["nightly"]["paused"]  # no candidate file was named for it

    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "announce", str(candidate), "--api", api],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    pages = api.removesuffix("/api")
    assert f"its run is shown at {pages}/runs" in done.stdout
    assert f"tilegate announce CANDIDATE.yaml --api {api}" in (store.parent / "up.log").read_text()

    run = until(lambda: [item for item in asked(api, "flow_runs") if item["state_type"] in ENDED])
    assert [item["state_name"] for item in run] == ["GO"]
    assert run[0]["parameters"]["candidate"] == str(candidate)
    (run_id,) = Store(store).run_ids()
    assert read_document(store / run_id / "decision.json", Decision).verdict == "GO"
    artifacts = {item["key"]: item for item in asked(api, "artifacts")}
    assert {row["check"] for row in json.loads(artifacts["checks"]["data"])} >= {"latency-p99", "quality"}
    assert f"{run_id}/report.html" in artifacts["report"]["data"]
    tasks = asked(api, "task_runs")
    assert {item["name"].split()[0] for item in tasks} >= {"ingress", "lowering", "scheduling", "judge", "report"}

    children = process.children(recursive=True)
    assert children
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert psutil.wait_procs(children, timeout=10)[1] == []


@pytest.mark.slow
def test_server_and_worker_end_with_a_command_that_is_killed(service: tuple[str, Path, psutil.Process]) -> None:
    children = service[2].children(recursive=True)
    service[2].kill()

    assert psutil.wait_procs(children, timeout=30)[1] == []


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", "up", "--port", str(port), "--store", str(tmp_path)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    assert done.returncode == 3
    assert f"--port: expected a free port, found {port}" in done.stderr

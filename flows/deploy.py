"""The gate as a service on this machine: Prefect's server, a worker, the deployments, and the event that starts one.

`prefect.yaml` describes the same two deployments for `prefect deploy`; a test holds the two together.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from flows.embedded import API_VARIABLE, NOT_ON_TERMINAL, OFFLINE, NoServerError, OrchestrationError, answers
from flows.store import STORE_VARIABLE, Store
from schemas.errors import DocumentError

POOL = "tilegate"
EVENT = "tilegate.candidate.announced"
RESOURCE = "tilegate.candidate."
NIGHTLY_CRON = "0 2 * * *"
DEFAULT_API = "http://127.0.0.1:4200/api"
STARTUP_TIMEOUT_S = 180.0
POLL_S = 0.2
STOP_TIMEOUT_S = 20.0
WORKER_POLL_S = "2"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def announce_candidate(candidate: Path, api: str | None) -> int:
    """Emit the event of a candidate that is ready to be judged; the file is checked first."""
    from flows.inputs import load_candidate

    loaded = load_candidate(candidate)
    url = api_url(api or os.environ.get(API_VARIABLE) or DEFAULT_API)
    os.environ.update({**OFFLINE, **NOT_ON_TERMINAL, API_VARIABLE: url})
    if not answers(url):
        raise NoServerError(
            f"No Prefect server answers at {url}. Start one with `tilegate up`, or give the address that it printed "
            f"with --api; without it the address is {DEFAULT_API}."
        )
    event = asyncio.run(_send_event(loaded.document.name, {"candidate": str(loaded.path), "digest": loaded.digest}))
    print(f"announced {loaded.document.name}: event {event} to {url}")
    print(f"its run is shown at {pages_url(url)}/runs")
    return 0


def api_url(given: str) -> str:
    """The address of a server's API: a bare server address gets the path that Prefect serves it at."""
    parts = urlsplit(given)
    return parts._replace(path="/api").geturl() if parts.path in ("", "/") else given.rstrip("/")


def pages_url(api: str) -> str:
    """Where the pages of the server with this API are."""
    return api.removesuffix("/api")


async def _send_event(name: str, payload: dict[str, Any]) -> str:
    """Send the event of a candidate and wait until the server has it; gives its id."""
    from prefect.events.clients import get_events_client
    from prefect.events.schemas.events import Event, Resource

    resource = Resource.model_validate({"prefect.resource.id": f"{RESOURCE}{name}", "prefect.resource.name": name})
    event = Event(event=EVENT, resource=resource, payload=payload)
    async with get_events_client(checkpoint_every=1) as client:
        await client.emit(event)
    return str(event.id)


def serve_here(port: int, store: Path | None, nightly: Path | None) -> int:
    """Start everything, say where it is, and stay until Ctrl-C or SIGTERM; then stop everything."""
    place = Store.at(store)
    if nightly is not None:
        from flows.inputs import load_candidate

        load_candidate(nightly)
    _require_free(port)
    url = f"http://127.0.0.1:{port}/api"
    environment = service_environment(place, url)
    os.environ.update(environment)
    children = _Children()
    previous = signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        children.start("server", ["server", "start", "--host", "127.0.0.1", "--port", str(port)], place, environment)
        _wait_for(lambda: answers(url), "the server", children)
        deploy(place, nightly)
        command = ["worker", "start", "--pool", POOL, "--type", "process", "--name", f"{POOL}-{socket.gethostname()}"]
        children.start("worker", command, place, environment)
        _wait_for(_worker_online, "the worker", children)
        print(f"server and pages: http://127.0.0.1:{port}", flush=True)
        print(f"deployments: release-gate/nightly ({NIGHTLY_CRON if nightly else 'paused: give --nightly'}), "
              f"release-gate/per-candidate (on {EVENT})", flush=True)  # fmt: skip
        print(f"announce a candidate: tilegate announce CANDIDATE.yaml --api {url}", flush=True)
        print("Ctrl-C ends all", flush=True)
        children.watch()
    except KeyboardInterrupt:
        print("stopping", flush=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not leave a child behind
        children.stop()
        signal.signal(signal.SIGTERM, previous)
    return 0


def service_environment(store: Store, url: str) -> dict[str, str]:
    """Settings of server, worker and flow runs."""
    return {
        **OFFLINE, API_VARIABLE: url, "PREFECT_HOME": str(store.service_home), STORE_VARIABLE: str(store.root),
        "PREFECT_WORKER_QUERY_SECONDS": WORKER_POLL_S, "PREFECT_RUNNER_SERVER_ENABLE": "false",
        "PREFECT_UI_API_URL": url, "PREFECT_CLI_PROMPT": "false",
    }  # fmt: skip


def deploy(store: Store, nightly: Path | None) -> None:
    """Create the work pool and both deployments on the server that $PREFECT_API_URL names, or bring them up to date."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists

    with get_client(sync_client=True) as client, contextlib.suppress(ObjectAlreadyExists):
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
    for deployment in deployments(store, nightly):
        deployment.apply()


def deployments(store: Store, nightly: Path | None) -> Sequence[Any]:
    """`nightly` and `per-candidate`, ready to be applied."""
    from prefect.deployments.runner import EntrypointType
    from prefect.events import DeploymentEventTrigger

    from flows.release_gate import release_gate

    common: dict[str, Any] = {
        "work_pool_name": POOL, "entrypoint_type": EntrypointType.MODULE_PATH, "enforce_parameter_schema": True,
        "job_variables": {"working_dir": str(Path.cwd()), "env": {STORE_VARIABLE: str(store.root)}},
    }  # fmt: skip
    trigger = DeploymentEventTrigger(
        name="per-candidate", expect={EVENT}, match={"prefect.resource.id": f"{RESOURCE}*"},
        parameters={"candidate": {"__prefect_kind": "jinja", "template": "{{ event.payload.candidate }}"}},
    )  # fmt: skip
    given = {"candidate": str(nightly.resolve())} if nightly else {}
    return (
        release_gate.to_deployment(
            "nightly", cron=NIGHTLY_CRON, paused=nightly is None, parameters={**given, "store": str(store.root)},
            description="Judges the same candidate file every night.", **common,
        ),
        release_gate.to_deployment(
            "per-candidate", triggers=[trigger], parameters={"store": str(store.root)},
            description="Judges each candidate that `tilegate announce` tells of.", **common,
        ),
    )  # fmt: skip


@dataclass(slots=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path


class _Children:
    """The processes that were started, each in a session of its own: Ctrl-C in the terminal reaches only us."""

    def __init__(self) -> None:
        self.started: list[_Child] = []

    def start(self, name: str, command: Sequence[str], store: Store, environment: Mapping[str, str]) -> None:
        log = store.service_home / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "prefect", *command], env={**os.environ, **environment}, stdout=file,
                stderr=file, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip
        self.started.append(_Child(name, process, log))

    def ended(self) -> _Child | None:
        """The first that ended by itself."""
        return next((child for child in self.started if child.process.poll() is not None), None)

    def watch(self) -> None:
        """Return never, but with an error when one ends."""
        while (child := self.ended()) is None:
            time.sleep(POLL_S)
        raise OrchestrationError(f"The {child.name} ended by itself; its log is {child.log}.")

    def stop(self) -> None:
        """End all, the last one first, with everything that each has started."""
        for child in reversed(self.started):
            _signal_group(child.process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(STOP_TIMEOUT_S)
            _signal_group(child.process, signal.SIGKILL)
            child.process.wait()
        self.started.clear()


def _end_with_parent() -> None:
    """Linux sends SIGTERM to this child when its parent ends, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the group is empty: all of it has ended
        os.killpg(process.pid, number)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DocumentError(
                source="command line", where="--port", expected="a free port", found=f"{port}: {error.strerror}",
                remedy="Stop what listens there, or give another --port.",
            ) from error  # fmt: skip


def _wait_for(ready: Callable[[], bool], what: str, children: _Children) -> None:
    deadline = time.monotonic() + STARTUP_TIMEOUT_S
    while not ready():
        if (child := children.ended()) is not None:
            raise OrchestrationError(f"The {child.name} ended while it started; its log is {child.log}.")
        if time.monotonic() > deadline:
            raise OrchestrationError(f"{what[0].upper()}{what[1:]} was not ready within {STARTUP_TIMEOUT_S:.0f} s.")
        time.sleep(POLL_S)


def _worker_online() -> bool:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        workers = client.request(
            "POST", "/work_pools/{work_pool_name}/workers/filter", path_params={"work_pool_name": POOL}, json={}
        )
    return any(worker["status"] == "ONLINE" for worker in workers.json())

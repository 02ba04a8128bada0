"""Prefect for one command, where no server is configured: a small server of its own, on this machine, quiet, offline.

Prefect's own temporary server is imported into the process that starts it, outlives a SIGKILL of that process and
takes a port by luck. This one starts as a child at once, while the command reads its inputs; it gets its socket
from the parent, and ends when the pipe from its parent closes, however the parent ended.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

API_VARIABLE = "PREFECT_API_URL"
STARTUP_TIMEOUT_S = 180.0
POLL_S = 0.03
DRAIN_TIMEOUT_S = 10.0

# No analytics and no look-up of an outside host.
OFFLINE: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
}
# The terminal belongs to the command; a server that is configured still gets the log lines.
NOT_ON_TERMINAL: Mapping[str, str] = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
# Log lines of a server that ends with the command are for no one.
_SILENT: Mapping[str, str] = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_LOGGING_TO_API_ENABLED": "false"}
# What a server without schedules, workers and a UI need not run. It keeps flow runs only: recording task runs doubles
# its work and locks SQLite against the next request for seconds; the store's own log has every stage that ran.
_LEAN: Mapping[str, str] = {
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    **{
        f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false"
        for service in (
            "SCHEDULER", "LATE_RUNS", "FOREMAN", "PAUSE_EXPIRATIONS", "CANCELLATION_CLEANUP", "REPOSSESSOR",
            "TRIGGERS", "EVENT_LOGGER", "EVENT_PERSISTER", "TASK_RUN_RECORDER",
        )
    },
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}  # fmt: skip


class OrchestrationError(Exception):
    """Prefect could not be started or reached: says what, and the remedy."""


class NoServerError(OrchestrationError):
    """No server answers at the address that the user gave: theirs to mend, so it counts as invalid input."""


@dataclass(slots=True)
class EmbeddedServer:
    """A server on a free local port. The port is ours from `reserve` on, before anything listens on it.

    seconds: wall time from start to ready, and the part of it that someone waited for. unattended: nobody watches it,
    so that heartbeats of its flow runs are for no one.
    """

    unattended: ClassVar[bool] = True
    home: Path
    _socket: socket.socket
    _process: subprocess.Popen[bytes] | None = None
    _started: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def reserve(home: Path) -> EmbeddedServer:
        """Take a free port. home: folder of Prefect's database and settings."""
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        return EmbeddedServer(home, listener)

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/api"

    @property
    def environment(self) -> dict[str, str]:
        """What the command's own process needs, before it imports Prefect."""
        return {**OFFLINE, **NOT_ON_TERMINAL, **_SILENT, "PREFECT_HOME": str(self.home), API_VARIABLE: self.api_url}

    def start(self) -> None:
        """Start the child; `wait` says when it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._started = time.perf_counter()
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "flows.embedded_server", str(self._socket.fileno())],
                env={**os.environ, **self.environment, **_LEAN, "PREFECT_LOGGING_LEVEL": "ERROR",
                     "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{self.home / 'prefect.db'}"},
                pass_fds=[self._socket.fileno()], stdin=subprocess.PIPE, stdout=log, stderr=log,
                start_new_session=True,  # Ctrl-C is for the command; the server ends with its pipe
            )  # fmt: skip

    def wait(self, timeout_s: float = STARTUP_TIMEOUT_S) -> None:
        """Return when the server answers. OrchestrationError when it ended or took too long."""
        begun = time.perf_counter()
        while not answers(self.api_url):
            ended = self._process is None or self._process.poll() is not None
            if ended or time.perf_counter() - begun > timeout_s:
                how = "ended" if ended else f"did not answer within {timeout_s:.0f} s"
                raise OrchestrationError(
                    f"The embedded Prefect server {how}; its log is {self.home / 'server.log'}. Delete "
                    f"{self.home} (nothing is lost) and try again, or set {API_VARIABLE} to a running server."
                )
            time.sleep(POLL_S)
        now = time.perf_counter()
        self.seconds = {"server_start_s": now - self._started, "server_waited_s": now - begun}

    def stop(self) -> None:
        """End the child and free the port. Nothing is lost by ending it hard: SQLite commits what it confirmed."""
        self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """A server that someone else runs."""

    api_url: str
    unattended: ClassVar[bool] = False

    def wait(self) -> None:
        """NoServerError where it does not answer."""
        if not answers(self.api_url):
            raise NoServerError(
                f"The Prefect server at {self.api_url} does not answer. Start it (`tilegate up`), or unset "
                f"{API_VARIABLE} to run without one."
            )


def configured_api() -> str | None:
    """Address of the Prefect server that the environment or the active profile names; None where there is none."""
    if url := os.environ.get(API_VARIABLE):
        return url
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    if not (home / "profiles.toml").is_file():
        return None
    from prefect.settings import get_current_settings

    return get_current_settings().api.url


@contextmanager
def orchestration(home: Path) -> Iterator[Server]:
    """Prefect is usable inside, once `wait` of what this gives returned: the server that is configured, or one of our
    own, started at once. Call it before Prefect is imported.
    """
    if (url := configured_api()) is not None:
        with _environment({**OFFLINE, **NOT_ON_TERMINAL, **os.environ}):
            yield ConfiguredServer(url)
        return
    server = EmbeddedServer.reserve(home)
    with _environment(server.environment):
        try:
            server.start()
            yield server
        finally:
            drain_events()
            server.stop()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """The variables set inside, and as they were afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def drain_events() -> None:
    """Wait until Prefect has sent what it still holds, so that the server may stop."""
    if "prefect.events.worker" not in sys.modules:
        return
    from prefect.events.worker import EventsWorker

    EventsWorker.drain_all(timeout=DRAIN_TIMEOUT_S)


def answers(api_url: str) -> bool:
    """Whether a Prefect server is ready at this address."""
    try:
        with urllib.request.urlopen(f"{api_url}/health", timeout=1.0) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


class Server(Protocol):
    """A Prefect server, ours or another's."""

    unattended: ClassVar[bool]

    def wait(self) -> None:
        """Return when it answers."""

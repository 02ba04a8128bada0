"""What the tests of flows share: one Prefect server for the session, and candidates that run in seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accelmodel.generate import write_model
from flows.embedded import EmbeddedServer, drain_events
from tests.flows.world import Write, writer

# Its address must be in the environment before any module imports Prefect; it starts when the first test needs it.
_SERVER = EmbeddedServer.reserve(Path(os.environ["PREFECT_HOME"]))
os.environ.update(_SERVER.environment)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[EmbeddedServer]:
    """The session's server; commands that run inside use it, as they would any that is configured."""
    _SERVER.start()
    _SERVER.wait()
    yield _SERVER
    drain_events()
    _SERVER.stop()


@pytest.fixture(scope="session")
def block_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer block with symbolic dims `batch` and `sequence`."""
    path = tmp_path_factory.mktemp("models") / "block.onnx"
    return write_model("transformer_block", path, seed=0, hidden=32, heads=2, feed_forward=64)


@pytest.fixture
def write_candidate(tmp_path: Path, block_model: Path) -> Write:
    """Writes a candidate file into the test's folder; keys that are given replace the defaults."""
    return writer(tmp_path, block_model)


@pytest.fixture(scope="session")
def judged(
    tmp_path_factory: pytest.TempPathFactory, block_model: Path, prefect_server: EmbeddedServer
) -> dict[str, Any]:
    """Two runs in one store: `slower`, whose kernels end in extra barriers, and `same`, which changes nothing."""
    from flows.commands.run import judge_candidate
    from flows.store import Store

    folder = tmp_path_factory.mktemp("judged")
    write, store = writer(folder, block_model), Store(folder / "runs")
    slower = write("slower", candidate={"execution": {"extra_barriers": 40}})
    same = write("same", candidate={"tiling": {"max_tiles": 4000}})
    runs = {path.stem: judge_candidate(path, store, prefect_server, show=False) for path in (slower, same)}
    return {"store": store, "server": prefect_server, "files": {"slower": slower, "same": same}, **runs}

"""Prefect for one command: a server of its own that is quick to start, quiet, and gone with its parent."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from flows.embedded import API_VARIABLE, ConfiguredServer, OrchestrationError, answers, orchestration
from flows.embedded_server import _keep, sound


def test_a_configured_server_is_used_and_must_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_VARIABLE, "http://127.0.0.1:9/api")
    with orchestration(tmp_path) as server:
        assert isinstance(server, ConfiguredServer)
        assert os.environ["DO_NOT_TRACK"] == "1"
        with pytest.raises(OrchestrationError, match=r"127\.0\.0\.1:9/api does not answer"):
            server.wait()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_server_of_our_own_answers_and_ends_with_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_VARIABLE)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with orchestration(tmp_path / "home") as server:
        server.wait()
        url = os.environ[API_VARIABLE]
        (child,) = (
            each for each in psutil.Process().children() if each.environ()["PREFECT_HOME"] == str(tmp_path / "home")
        )
        assert answers(url)
        assert child.environ()["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert not answers(url)
    assert not child.is_running()
    assert API_VARIABLE not in os.environ
    (kept,) = (tmp_path / "cache" / "tilegate").iterdir()  # the next new home on this machine starts from it
    with sqlite3.connect(kept) as database:
        assert database.execute("select count(*) from flow_run").fetchone() == (0,)
    assert (tmp_path / "home" / "server.log").read_text() == ""


def test_a_database_is_kept_whole(tmp_path: Path) -> None:
    source = tmp_path / "source.db"
    with sqlite3.connect(source) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("create table numbers (value integer)")
        database.execute("insert into numbers values (7)")
        database.commit()
        _keep(source, tmp_path / "cache" / "kept.db")

    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kept.db"]
    with sqlite3.connect(tmp_path / "cache" / "kept.db") as database:
        assert database.execute("select value from numbers").fetchall() == [(7,)]


@pytest.mark.slow
def test_a_server_that_cannot_start_is_said_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_VARIABLE)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "none"))
    home = tmp_path / "home"
    (home / "prefect.db").mkdir(parents=True)

    with orchestration(home) as server, pytest.raises(OrchestrationError, match=r"ended; its log is .*server\.log"):
        server.wait()
    assert "unable to open database file" in (home / "server.log").read_text()


@pytest.mark.slow
def test_a_damaged_database_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_VARIABLE)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "none"))
    home = tmp_path / "home"
    home.mkdir()
    for name in ("prefect.db", "prefect.db-wal", "prefect.db-shm"):
        (home / name).write_text("this is no database" * 1000)

    with orchestration(home) as server:
        server.wait()
    assert sound(home / "prefect.db")


def test_a_database_with_a_broken_page_is_not_sound_and_a_busy_one_is(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with sqlite3.connect(path) as database:
        database.execute("create table numbers (value text)")
        database.executemany("insert into numbers values (?)", [("x" * 500,)] * 100)
        database.commit()
        database.execute("begin exclusive")
        assert sound(path)
        database.rollback()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * 4096 + content[12288:])
    assert not sound(path)


def test_the_server_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from flows.embedded import EmbeddedServer\n"
        f"server = EmbeddedServer.reserve(Path({str(tmp_path)!r})); server.start()\n"
        "print(server._process.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()

    child.wait(60)
    assert not child.is_running()

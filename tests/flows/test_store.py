"""The evidence store: atomic files, digests, locks that survive a kill, history without doubles."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from flows.history import append_history, read_history
from flows.store import Store, StoreError, append_log, read_log, read_table, write_atomically, write_table
from schemas.errors import DocumentError


def history_rows(run_id: str, value: float, day: int = 1) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "run_id": [run_id], "created": [datetime(2025, 1, day, tzinfo=UTC)], "candidate_name": ["c"],
            "verdict": ["GO"], "first_failing_mechanism": pl.Series([None], dtype=pl.String),
            "metric": ["latency_p95_us"], "scope": ["overall"], "side": ["candidate"], "value": [value],
        }
    )  # fmt: skip


def test_the_store_is_the_one_named_then_the_variable_then_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TILEGATE_STORE", raising=False)
    assert Store.at(None).root == tmp_path / "runs"
    monkeypatch.setenv("TILEGATE_STORE", str(tmp_path / "other"))
    assert Store.at(None).root == tmp_path / "other"
    assert Store.at(tmp_path / "named").root == tmp_path / "named"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, lambda file: file.write(b"old"))

    def fail(file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)

    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_values_are_kept_by_digest_and_changes_are_seen(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = store.put(b"content", "json")

    assert store.put(b"content", "json") == digest
    assert store.get(digest, "json") == b"content"
    assert store.holds(digest, "json")

    store.value_path(digest, "json").write_bytes(b"changed")
    assert not store.holds(digest, "json")
    with pytest.raises(StoreError, match="found other bytes"):
        store.get(digest, "json")


def test_a_table_that_breaks_its_schema_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="verdict"):
        write_table(tmp_path, "history", history_rows("r", 1.0).with_columns(verdict=pl.lit("FINE")))

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_table_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ops.parquet"
    path.write_bytes(b"PAR1 not")

    with pytest.raises(StoreError, match=r"ops\.parquet: expected a table"):
        read_table(path)


def test_history_holds_each_run_once_and_the_oldest_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    append_history(store, history_rows("second", 2.0, day=2))
    append_history(store, history_rows("first", 1.0, day=1))
    append_history(store, history_rows("second", 3.0, day=2))

    rows = read_history(store)
    assert rows.select("run_id", "value").rows() == [("first", 1.0), ("second", 3.0)]


@pytest.mark.parametrize("content", [b"", b"junk", b"PAR1 junk PAR1"])
def test_a_damaged_history_is_moved_aside_and_a_new_one_begins(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    for _ in range(2):
        (tmp_path / "history.parquet").write_bytes(content)
        append_history(store, history_rows("run", 1.0))

    assert read_history(store)["run_id"].to_list() == ["run"]
    assert (tmp_path / "history.parquet.damaged-1").read_bytes() == content
    assert (tmp_path / "history.parquet.damaged-2").read_bytes() == content
    assert "is now history.parquet.damaged-1" in capsys.readouterr().err


def test_a_history_of_another_form_is_moved_aside(tmp_path: Path) -> None:
    pl.DataFrame({"other": [1]}).write_parquet(tmp_path / "history.parquet")
    append_history(Store(tmp_path), history_rows("run", 1.0))

    assert read_history(Store(tmp_path)).height == 1
    assert (tmp_path / "history.parquet.damaged-1").is_file()


def test_a_folder_in_place_of_the_history_is_named(tmp_path: Path) -> None:
    (tmp_path / "history.parquet").mkdir()

    with pytest.raises(StoreError, match=r"history\.parquet: expected a table, found a folder"):
        append_history(Store(tmp_path), history_rows("run", 1.0))


def test_a_run_is_found_by_the_start_of_its_id_and_by_path(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for run_id in ("one-aaa", "one-abb", "two-ccc"):
        store.run_folder(run_id).mkdir()
        (store.run_folder(run_id) / "run.json").write_text("{}")

    assert store.find_run("two") == store.run_folder("two-ccc")
    assert store.find_run("one-aaa") == store.run_folder("one-aaa")
    assert store.find_run(str(tmp_path / "one-abb")) == store.run_folder("one-abb")
    with pytest.raises(StoreError, match=r"found 2 that match.*one-aaa"):
        store.find_run("one")
    with pytest.raises(StoreError, match="found 0 that match"):
        store.find_run("three")


@pytest.mark.parametrize("name", ["", "  "])
def test_no_name_names_no_run(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path)
    store.run_folder("only").mkdir()
    (store.run_folder("only") / "run.json").write_text("{}")

    with pytest.raises(StoreError, match="found nothing"):
        store.find_run(name)
    with pytest.raises(StoreError, match="found 0 that match"):
        store.find_run("x" * 5000)


def test_a_store_that_can_be_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none"), tmp_path / ("x" * 300)):
        with pytest.raises(StoreError, match="expected a folder that can be written to") as error:
            Store(place).make()
        assert str(place) in str(error.value)


def test_a_lock_waits_for_its_holder_and_is_free_when_the_holder_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import sys; from pathlib import Path; from flows.store import Store\n"
         f"with Store(Path({str(tmp_path)!r})).lock('run'): print('held', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    waited, entered = threading.Event(), threading.Event()

    def enter() -> None:
        with Store(tmp_path).lock("run", waited.set):
            entered.set()

    second = threading.Thread(target=enter)
    second.start()
    assert waited.wait(10)
    assert not entered.is_set()
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert entered.wait(10)
    second.join()


def test_what_a_killed_process_was_writing_is_cleared_by_the_next_holder(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.run_folder("run").mkdir()
    half = store.run_folder("run") / ".ops.parquet.1.2.part"
    half.write_bytes(b"half")

    with store.lock("run"):
        assert not half.exists()


def test_a_log_gives_its_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    append_log(log, {"stage": "lowering"})
    append_log(log, {"stage": "fusion"})
    with log.open("a") as file:
        file.write('{"stage": "til')

    assert [row["stage"] for row in read_log(log)] == ["lowering", "fusion"]
    assert read_log(tmp_path / "none.jsonl") == []

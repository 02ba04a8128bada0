"""Cache keys: what changes them, what does not, and what a broken kept result is worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flows.stages
import flows.values
from accelmodel.graph import Graph
from accelmodel.importers.onnx import read_graph
from flows.stages import Context, Payload, forget_if_broken, stage_key, stage_task
from flows.store import Store
from flows.timings import worked_s
from flows.values import get_value, put_text, put_value

CONTEXT = {"store": "/a", "run_id": "r", "candidate": "/c.yaml", "models": {}}


def parameters(**settings: Any) -> dict[str, Any]:
    work = {"side": "candidate", "workload": "block", "settings": {"fusion": {}, "tiling": {}, **settings}}
    return {"context": CONTEXT, "work": work, "lowered": {"values": {"default/1": {"sha256": "aa"}}}}


def key(given: dict[str, Any]) -> str:
    return stage_key("fusion", ("fusion",), given)


def test_a_key_follows_the_settings_that_the_stage_reads_and_no_others() -> None:
    assert key(parameters()) == key(parameters(tiling={"cores": 2}))
    assert key(parameters()) != key(parameters(fusion={"policy": "none"}))


def test_a_key_follows_what_came_before_and_not_where_the_run_is() -> None:
    other = parameters()
    other["lowered"]["values"]["default/1"]["sha256"] = "bb"
    assert key(parameters()) != key(other)
    assert key(parameters()) == key({**parameters(), "context": {**CONTEXT, "store": "/b", "run_id": "s"}})


def test_a_key_follows_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(parameters())
    monkeypatch.setattr(flows.stages, "code_digest", lambda packages: "other")

    assert key(parameters()) != before


def test_a_kept_result_is_forgotten_when_its_values_cannot_be_trusted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ref = put_text(store, "page", "html")
    record, path = {"result": json.dumps({"stage": "report", "values": {"page": ref}})}, store.results / "key"
    path.parent.mkdir(parents=True)

    path.write_text(json.dumps(record))
    forget_if_broken(store, "key")
    assert path.exists()

    store.value_path(ref["sha256"], "html").write_text("other")
    forget_if_broken(store, "key")
    assert not path.exists()

    path.write_text(json.dumps(record)[:-10])  # a killed process wrote half of it
    forget_if_broken(store, "key")
    assert not path.exists()
    forget_if_broken(store, "key")  # nothing there: nothing to forget


def test_values_of_the_model_come_back_equal(
    tmp_path: Path, block_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = read_graph(block_model, {"batch": 1, "sequence": 4})
    ref = put_value(Store(tmp_path), graph, Graph)
    monkeypatch.setattr(flows.values, "_recent", flows.values._Recent(1))  # as in a process that did not make it

    assert get_value(Store(tmp_path), ref, Graph) == graph


def test_time_worked_is_the_union_of_what_ran_side_by_side() -> None:
    log = [
        {"event": event, "stage": stage, "item": "", "pid": 1, "at_s": at}
        for event, stage, at in (
            ("started", "a", 1.0), ("started", "b", 2.0), ("finished", "a", 3.0), ("finished", "b", 5.0),
            ("started", "c", 7.0), ("finished", "c", 8.0), ("started", "d", 9.0),
        )
    ]  # fmt: skip

    assert worked_s(log, 1, 0.0) == 5.0
    assert worked_s(log, 1, 6.0) == 1.0
    assert worked_s(log, 2, 0.0) == 0.0


def test_only_io_is_tried_again(tmp_path: Path, prefect_server: object) -> None:
    from accelmodel.errors import InputError

    calls: list[str] = []

    def attempt(context: Context, how: str) -> Payload:
        calls.append(how)
        if how == "io" and calls.count("io") == 1:
            raise OSError("disk is busy")
        if how == "input":
            raise InputError(stage="ingress", where="here", expected="this", found="that", remedy="Mend it.")
        return {"stage": "attempt", "values": {}, "facts": {}}

    context: Context = {"store": str(tmp_path), "run_id": "r", "candidate": "", "models": {}}
    stage = stage_task("attempt")(attempt).with_options(result_storage=Store(tmp_path).results)
    assert stage(context, "io")["stage"] == "attempt"
    with pytest.raises(InputError, match="Mend it"):
        stage(context, "input")

    assert calls == ["io", "io", "input"]

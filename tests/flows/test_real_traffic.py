"""Production traffic through the command line: both files, two sides with different policies, bad rows refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.cli import main
from tests.flows.world import Write, document

FILES = ("AzureLLMInferenceTrace_code.csv", "mooncake_conversation.jsonl")


def recorded(path: Path, **keys: Any) -> dict[str, Any]:
    return {"file": {"path": str(path), "block_s": 60, **keys}, "max_requests": 300, "seed": 3}


def sides(comparator: dict[str, Any], candidate: dict[str, Any]) -> dict[str, Any]:
    """What `write_candidate` takes of both sides: settings of their scheduling."""
    stable = {**document("")["comparator"], "settings": {"tiling": {"cores": 1}, "scheduling": comparator}}
    return {"comparator": stable, "candidate": {"tiling": {"cores": 1}, "scheduling": candidate}}


@pytest.mark.parametrize("name", FILES)
def test_recorded_traffic_runs_through_sides_of_different_policies(
    name: str, reference_data: Path, write_candidate: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    fair = {"queue": "weighted_fair", "core_policy": "affinity", "max_batch": 2, "max_wait_us": 500}
    decode = {"batching": "iteration", "max_batch": 2, "core_policy": "join_shortest_queue", "timeout_us": 1e9}
    path = write_candidate("c", traffic=recorded(reference_data / "traffic" / name), **sides(fair, decode))

    assert main(["replay", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for side in ("comparator", "candidate"):
        assert found[side]["completed"] == found[side]["requests"] > 1000
        assert found[side]["p99_us"] is None or found[side]["p99_us"] > 0
    # Many tokens a request: under `iteration` each runs the model once a token, and the other side once in all.
    slow, quick = (sum(found[side]["drivers_of_middle_us"].values()) for side in ("candidate", "comparator"))
    assert slow > 5 * quick


def test_a_rate_above_capacity_has_a_utilisation_and_no_percentile(
    write_candidate: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    crowded = {"generate": {"kind": "poisson", "rate_per_s": 400000, "duration_s": 0.01, "sizes": {8: 1}}}
    path = write_candidate("c", traffic={**crowded, "seed": 1}, **sides({}, {}))

    assert main(["replay", str(path)]) == 0
    out = capsys.readouterr().out
    assert "unstable: slots would have to work" in out
    assert "p99, µs      unstable" in out
    assert main(["replay", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidate"]
    assert found["p99_us"] is None and found["utilisation"] > 1


def test_what_is_said_of_a_stream_that_does_not_exist_is_exit_3(
    write_candidate: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_candidate("c", **sides({}, {"queue": "priority", "priority": {"serach": 1}}))

    assert main(["replay", str(path)]) == 3
    err = " ".join(capsys.readouterr().err.split())
    assert "candidate.settings.scheduling.priority" in err and "serach" in err and "default" in err


def test_a_bad_row_of_recorded_traffic_is_exit_3_with_the_row_and_what_to_do(
    tmp_path: Path, write_candidate: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival_s,size\n0,8\n1,eight\n")
    path = write_candidate("c", traffic=recorded(log))

    assert main(["replay", str(path)]) == 3
    err = " ".join(capsys.readouterr().err.split())
    assert "line 3" in err and "'eight'" in err and "Correct or drop this row" in err

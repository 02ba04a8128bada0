"""Profiles as tables, and `tilegate profile` in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from accelmodel.importers.profile import read_profile
from accelmodel.profile_metrics import profile_metrics
from flows.cli import main
from flows.profiles import load_profile, profile_frame, profile_rows
from flows.tasks.ingress import read_profile as ingress_profile
from schemas.errors import DocumentError
from schemas.tables import polars_schema
from tests.accelmodel.importers.traces import FIVE_KERNELS, kernel, launch, long_csv, write_nsys, write_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.json", FIVE_KERNELS)


def test_a_table_holds_every_column_of_the_schema_and_null_where_nothing_is_known(trace: Path) -> None:
    frame = profile_frame(read_profile(trace).rows, "candidate", "block")
    assert frame.columns == list(polars_schema("profile_kernels"))
    assert frame["launch_delay_ns"].to_list() == [4_000, 10_000, 4_000, 10_000, None]
    assert frame["grid"].to_list() == ["8,2,1", None, None, None, None]
    assert frame["local_bytes"].null_count() == 5
    assert set(frame["side"]) == {"candidate"}


@pytest.mark.parametrize("kind", ["kineto", "nsys", "ncu"])
def test_kernels_come_back_from_their_table_as_they_went(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "profile"
    if kind == "ncu":
        path.write_text(long_csv((0, "k", "Duration", "ns", "5"), (1, "k", "Duration", "ns", "6")))
    else:
        write_nsys(path) if kind == "nsys" else write_trace(path, FIVE_KERNELS)
    frame = profile_frame(read_profile(path).rows, "comparator", "block")
    assert profile_frame(profile_rows(frame), "comparator", "block").equals(frame)


def test_a_parquet_table_is_a_profile_too(trace: Path, tmp_path: Path) -> None:
    profile_frame(read_profile(trace).rows, "candidate", "block").write_parquet(tmp_path / "p.parquet")
    profile = load_profile(tmp_path / "p.parquet")
    found = profile_metrics(profile)
    assert profile.kind == "table"
    assert found is not None
    assert found.launch is not None
    assert (found.kernels, found.kernels_per_iteration, found.launch.calls) == (5, 2.0, 4)


def test_a_table_of_two_sides_is_refused(trace: Path, tmp_path: Path) -> None:
    rows = read_profile(trace).rows
    both = pl.concat([profile_frame(rows, side, "block") for side in ("comparator", "candidate")])
    both.write_parquet(tmp_path / "p.parquet")
    with pytest.raises(DocumentError, match="one side and workload"):
        load_profile(tmp_path / "p.parquet")


def test_the_command_prints_counts_and_says_what_is_missing(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(trace)]) == 0
    lines = {line.split("  ")[0]: line.rstrip() for line in capsys.readouterr().out.splitlines()}
    assert lines["kernels"].endswith("5 of 3 names, 25.0 µs")
    assert lines["spilling kernels"].endswith("missing")
    assert "too few iterations: 2 of the 7" in lines["iteration time, p50"]


def test_the_command_as_json_has_null_for_what_is_missing(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(trace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["metrics"]["kernels"], found["metrics"]["unjoined_kernels"]) == ("kineto", 5, 1)
    assert found["metrics"]["dram_bytes"] is None
    assert found["metrics"]["iteration"]["p99_ns"] is None
    assert (found["against"], found["comparison"]) == (None, None)


def test_against_an_earlier_profile_the_command_says_what_changed(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fused = write_trace(tmp_path / "fused.json", [launch(1, 4, 1), kernel("fused_gemm_relu", 6, 11, 1)])
    assert main(["profile", str(fused), "--against", str(trace)]) == 0
    out = capsys.readouterr().out
    assert out.index("trace.json") < out.index("fused.json")
    assert "3 kernels only before" in out
    assert "1 kernels only after" in out
    assert "Iterations are not marked on both sides" in out
    assert main(["profile", str(fused), "--against", str(trace), "--json"]) == 0
    comparison = json.loads(capsys.readouterr().out)["comparison"]
    assert (comparison["unit"], comparison["before"]["kernels"]) == ("whole profile", 5)


def test_a_profile_without_kernels_exits_3_and_shows_no_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_trace(tmp_path / "t.json", [launch(1, 1, 1)])
    assert main(["profile", str(path), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"] is None
    assert "no kernel" in found["findings"][0]
    assert main(["profile", str(path)]) == 3
    assert "nothing was measured" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("data", [b"", b"{", b"PAR1nonsense", b"SQLite format 3\0nonsense", b"==PROF== x\n"])
def test_a_file_that_is_no_profile_exits_3_with_one_line(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert main(["profile", str(path)]) == 3
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert str(path) in captured.err
    assert captured.out == ""


def test_a_kernel_name_cannot_speak_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(tmp_path / "t.json", [kernel("[red]gemm[/red]\x1b[2J", 1, 1, 1)])
    assert main(["profile", str(path)]) == 0
    out = capsys.readouterr().out
    assert "[red]gemm" in out
    assert "\x1b[2J" not in out


def test_the_real_pair_is_compared(reference_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    control, test = (
        str(reference_data / "profiles" / f"kineto_trace_diff_{name}.json.gz")
        for name in ("control_control", "test_test")
    )
    assert main(["profile", test, "--against", control, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["comparison"]["after"]["launches"] == 813
    assert found["against"]["metrics"]["kernels"] == 8_568


def test_a_candidate_may_name_what_a_profiler_wrote_but_not_a_trace_without_kernels(
    trace: Path, tmp_path: Path
) -> None:
    frame = ingress_profile(trace, "candidate", "block")
    assert (frame.height, set(frame["side"]), set(frame["workload"])) == (5, {"candidate"}, {"block"})
    idle = write_trace(tmp_path / "idle.json", [launch(0.0, 5.0, 1)])
    with pytest.raises(DocumentError, match=r"idle.json.*expected at least one kernel"):
        ingress_profile(idle, "candidate", "block")

"""The benchmark of profiles on small files: what it reports, and that growing a trace keeps its joins."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from accelmodel.importers.profile import read_profile
from tests.accelmodel.importers.traces import FIVE_KERNELS, write_trace
from tests.benchmarks import profiles

KEYS = ["file", "kind", "megabytes", "kernels", "launches", "unjoined_kernels", "seconds", "peak_mib"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(write_trace(tmp_path / "plain", FIVE_KERNELS).read_bytes()))
    return path


def test_files_that_are_named_are_reported_one_a_row(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["profiles", "--json", str(trace), "/nonexistent"])
    with pytest.raises(SystemExit) as ended:
        profiles.main()
    captured = capsys.readouterr()
    good, refused = json.loads(captured.out)["rows"]
    assert list(good) == KEYS
    assert [good[key] for key in ("kind", "kernels", "launches", "unjoined_kernels")] == ["kineto", 5, 4, 1]
    assert good["megabytes"] == pytest.approx(len(gzip.decompress(trace.read_bytes())) / 1e6)
    assert good["peak_mib"] > 0
    assert (refused["kind"], refused["kernels"]) == (None, None)
    assert "expected a file" in captured.err
    assert ended.value.code == 3


def test_a_grown_trace_has_the_wanted_size_and_no_false_joins(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "GROWN_BYTES", 50_000)
    plain, packed = profiles.grown(trace, tmp_path)
    assert plain.stat().st_size == pytest.approx(50_000, rel=0.01)
    first, second = read_profile(plain), read_profile(packed)
    assert first.rows.start_ns.listed() == second.rows.start_ns.listed()
    assert first.unjoined_kernels == first.rows.name.listed().count("stray")
    assert set(first.rows.launch_delay_ns.present().tolist()) == {4_000, 10_000}

"""Nsight Compute CSV: both forms, units, what is missing, and numbers of another locale."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelmodel.errors import InputError
from accelmodel.importers.profile import read_profile
from tests.accelmodel.importers.traces import REMARKS, long_csv, raw_csv

TIME = "gpu__time_duration.sum"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_long_form_gathers_the_metrics_of_each_kernel(tmp_path: Path) -> None:
    text = long_csv(
        (0, "gemm(float *, int)", "Duration", "usecond", "1,205.50"),
        (0, "gemm(float *, int)", "dram__bytes_read.sum", "Mbyte", "1.5"),
        (0, "gemm(float *, int)", "dram__bytes_write.sum", "byte", "1,234"),
        (0, "gemm(float *, int)", "Registers Per Thread", "register/thread", "32"),
        (0, "gemm(float *, int)", "SM Frequency", "cycle/nsecond", "1.41"),
        (1, "relu", TIME, "ns", "640"),
    )
    profile = read_profile(write(tmp_path / "out.log", text))
    rows = profile.rows
    assert profile.kind == "ncu"
    assert rows.name.listed() == ["gemm(float *, int)", "relu"]
    assert rows.duration_ns.tolist() == [1_205_500, 640]
    assert rows.dram_bytes.listed() == [1_501_234, None]
    assert rows.registers.listed() == [32, None]
    assert (rows.grid.listed()[0], rows.block.listed()[0]) == ("16385,1,1", "256,1,1")
    assert (rows.device.listed()[0], rows.stream.listed()[0]) == ("0", "7")
    assert rows.start_ns.listed() == [None, None]
    assert profile.metadata.clock_mhz == pytest.approx(1_410.0)
    assert profile.launches is None


def test_the_raw_form_takes_units_from_the_line_below_the_header(tmp_path: Path) -> None:
    metrics = [
        (TIME, "ms"), ("dram__bytes.sum", "Gbyte"), ("launch__shared_mem_per_block_static", "Kbyte/block"),
        ("launch__shared_mem_per_block_dynamic", "byte/block"), ("sm__warps_active.avg.pct", "%"),
    ]  # fmt: skip
    text = raw_csv(
        metrics, ("gemm", ["0.244544", "2", "4.096", "0", "25.8"]), ("relu", ["0.001", "n/a", "0", "16", "nan"])
    )
    rows = read_profile(write(tmp_path / "x", text)).rows
    assert rows.duration_ns.tolist() == [244_544, 1_000]
    assert rows.dram_bytes.listed() == [2_000_000_000, None]
    assert rows.shared_bytes.listed() == [4_096, 16]


def test_a_dram_counter_of_one_direction_only_is_missing_not_half(tmp_path: Path) -> None:
    text = long_csv((0, "k", TIME, "ns", "5"), (0, "k", "dram__bytes_read.sum", "byte", "100"))
    assert read_profile(write(tmp_path / "x", text)).rows.dram_bytes.listed() == [None]


@pytest.mark.parametrize("value", ["12,5", "1.234,5", "27.595.520", "0,123", "1 234,5", "12'345,6"])
def test_numbers_of_another_locale_are_refused_with_their_row_and_the_remedy(value: str, tmp_path: Path) -> None:
    text = long_csv((0, "k", TIME, "ns", "117.344"), (0, "k", "sm__throughput.avg.pct", "%", value))
    with pytest.raises(InputError, match=r"line 5, sm__throughput.*LC_ALL=C"):
        read_profile(write(tmp_path / "x", text))


def test_columns_parted_by_semicolons_are_refused_as_another_locale(tmp_path: Path) -> None:
    text = long_csv((0, "k", TIME, "ns", "5")).replace('","', '";"')
    with pytest.raises(InputError, match=r"semicolons.*LC_ALL=C"):
        read_profile(write(tmp_path / "x", text))


def test_a_kernel_without_a_duration_is_refused(tmp_path: Path) -> None:
    text = long_csv((0, "a", TIME, "ns", "5"), (1, "b", "dram__bytes.sum", "byte", "7"))
    with pytest.raises(InputError, match=r"line 5.*of every kernel"):
        read_profile(write(tmp_path / "x", text))


@pytest.mark.parametrize("value", ["n/a", "", "nan"])
def test_a_duration_that_was_not_measured_is_no_zero(value: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="of every kernel"):
        read_profile(write(tmp_path / "x", long_csv((0, "a", TIME, "ns", value))))


def test_an_unknown_unit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in one of ns"):
        read_profile(write(tmp_path / "x", long_csv((0, "a", TIME, "fortnight", "5"))))


def test_a_line_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    text = long_csv((0, "a", TIME, "ns", "5"), (1, "b", TIME, "ns", "7"))
    with pytest.raises(InputError, match=r"line 5|CSV"):
        read_profile(write(tmp_path / "x", text[: text.index('"ns","7"')]))


def test_a_header_with_no_kernel_below_is_a_finding(tmp_path: Path) -> None:
    profile = read_profile(write(tmp_path / "x", long_csv()))
    assert profile.kernels == 0
    assert "no kernel" in profile.findings[0]


def test_remarks_without_a_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a header with 'Kernel Name'"):
        read_profile(write(tmp_path / "x", REMARKS + "==ERROR== no kernels\n"))


def test_errors_of_the_profiler_are_carried_as_warnings(tmp_path: Path) -> None:
    text = long_csv((0, "a", TIME, "ns", "5")) + "==WARNING== clocks could not be locked\n"
    assert any("clocks could not" in warning for warning in read_profile(write(tmp_path / "x", text)).warnings)


def test_utf_16_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(long_csv((0, "a", TIME, "ns", "5")).encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16"):
        read_profile(path)

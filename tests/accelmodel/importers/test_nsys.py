"""Nsight Systems exports: names, processes, graphs, ranges, absent tables, and databases that cannot be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from accelmodel.errors import InputError
from accelmodel.importers import sqlite_file
from accelmodel.importers.profile import read_profile
from tests.accelmodel.importers.traces import process, write_nsys


def test_kernels_join_the_launch_of_their_own_process(tmp_path: Path) -> None:
    profile = read_profile(write_nsys(tmp_path / "report"))
    rows = profile.rows
    assert profile.kind == "nsys"
    assert rows.name.listed() == ["gemm<float>", "relu<float>", "gemm<float>", "gemm<float>"]
    assert rows.start_ns.listed() == [1_600, 2_500, 2_610, 5_000]
    assert rows.duration_ns.tolist() == [200, 100, 90, 100]
    assert rows.launch_start_ns.listed() == [1_000, 2_000, 2_000, None]
    assert rows.launch_delay_ns.listed() == [100, 100, 210, None]
    assert (profile.launch_calls, profile.unjoined_kernels) == (2, 1)


def test_a_graph_launch_is_one_launch_of_many_kernels(tmp_path: Path) -> None:
    launches = read_profile(write_nsys(tmp_path / "report")).launches
    assert launches is not None
    assert launches.name.listed() == ["cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000"]
    assert launches.kernels.tolist() == [1, 2]


def test_sizes_registers_and_spills_are_read(tmp_path: Path) -> None:
    rows = read_profile(write_nsys(tmp_path / "report")).rows
    assert rows.grid.listed()[0] == "8,2,1"
    assert rows.block.listed()[0] == "128,1,1"
    assert rows.registers.listed()[0] == 40
    assert rows.shared_bytes.listed()[0] == 1_536
    assert rows.local_bytes.listed() == [0, 16, 0, 0]


def test_iterations_are_the_ranges_with_a_number_and_an_end(tmp_path: Path) -> None:
    profile = read_profile(write_nsys(tmp_path / "report"))
    assert profile.rows.iteration.listed() == [5, 6, 6, None]
    assert profile.iterations is not None
    assert profile.iterations.index.tolist() == [5, 6]


def test_copies_and_metadata_are_read(tmp_path: Path) -> None:
    profile = read_profile(write_nsys(tmp_path / "report"))
    assert profile.transfers is not None
    assert profile.transfers.name.listed() == ["memcpy HtoD"]
    assert profile.transfers.bytes.listed() == [4_096]
    assert profile.transfers.issued_ns.listed() == [3_100]
    assert (profile.metadata.tool, profile.metadata.driver) == ("Nsight Systems 2025.1.1", "570.86")
    (device,) = profile.devices_used()
    assert (device.name, device.cores, device.clock_mhz) == ("NVIDIA A100", 108, 1_410.0)
    assert device.bandwidth_bytes_per_ns == 1_555.0


def test_the_device_0_of_two_processes_may_be_two_gpus(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "report")
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT)")
        database.executemany("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, ?)", [(3, 0, 7), (2, 0, 8)])
        database.commit()
    assert read_profile(path).rows.device.listed() == ["3", "2", "2", "2"]


def test_an_export_without_a_kernel_table_is_a_finding_that_says_so(tmp_path: Path) -> None:
    profile = read_profile(write_nsys(tmp_path / "report", kernels=False))
    assert profile.kernels == 0
    assert "no table CUPTI_ACTIVITY_KIND_KERNEL" in profile.findings[0]
    assert "--trace=cuda" in profile.findings[0]


def test_an_older_export_with_fewer_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE StringIds (id INT, value TEXT);"
            "INSERT INTO StringIds VALUES (1, 'k'), (2, 'cudaLaunchKernel');"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, correlationId INT, shortName INT);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, correlationId INT, nameId INT);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (20, 30, 4, 1), (40, 50, 5, 9);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 9, 4, 2);"
        )
    rows = read_profile(path).rows
    assert rows.name.listed() == ["k", "(no name)"]
    assert rows.launch_delay_ns.listed() == [11, None]
    assert rows.registers.listed() == [None, None]
    assert rows.device.listed() == ["(not said)", "(not said)"]


def test_graphs_recorded_as_a_whole_are_said_to_hide_their_kernels(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "report")
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, streamId INT,"
            " correlationId INT, globalPid INT, graphId INT)"
        )
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (6000, 7000, 0, 7, 1, ?, 4)", [process(8)])
        database.commit()
    profile = read_profile(path)
    assert profile.transfers is not None
    assert profile.transfers.name.listed() == ["memcpy HtoD", "graph 4"]
    assert any("--cuda-graph-trace=node" in warning for warning in profile.warnings)


def test_a_database_that_another_program_writes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "LOCK_WAIT_S", 0.01)
    path = write_nsys(tmp_path / "report")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="nobody is writing"):
            read_profile(path)


def test_a_write_ahead_log_beside_it_means_that_it_is_being_written(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "report", journal="wal")
    assert read_profile(path).kernels == 4
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report"]
    path.with_name("report-wal").write_bytes(b"x")
    with pytest.raises(InputError, match="write-ahead log"):
        read_profile(path)


@pytest.mark.parametrize("kept", [20, 100, 5_000, 0.5])
def test_a_database_cut_short_is_refused(kept: float, tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "report")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept) if kept < 1 else int(kept)])
    with pytest.raises(InputError, match="sound SQLite database"):
        read_profile(path)


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other")) as database:
        database.execute("CREATE TABLE cookies (id INT)")
        database.commit()
    with pytest.raises(InputError, match="Nsight Systems export"):
        read_profile(tmp_path / "other")


@pytest.mark.parametrize("end", ["NULL", "-5", "'soon'", "9223372036854775807"])
def test_a_kernel_that_ends_before_it_starts_or_not_at_all_is_refused(end: str, tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "report")
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = {end} WHERE correlationId = 77")
        database.commit()
    with pytest.raises(InputError, match="times in ns"):
        read_profile(path)


def test_a_table_that_would_run_code_is_not_read(tmp_path: Path) -> None:
    path = write_nsys(tmp_path / "report", kernels=False)
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT i AS start, i + 1 AS end FROM n"
        )
        database.commit()
    assert read_profile(path).kernels == 0


def test_a_read_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "MAX_SECONDS", -1.0)
    monkeypatch.setattr(sqlite_file, "_OPS_BETWEEN_LOOKS", 1)
    with pytest.raises(InputError, match="database read within"):
        read_profile(write_nsys(tmp_path / "report"))

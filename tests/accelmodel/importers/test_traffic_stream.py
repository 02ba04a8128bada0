"""A Parquet file of traffic read in parts, and replayed part by part in bounded memory."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from accelmodel.errors import InputError
from accelmodel.importers.traffic import read_traffic
from accelmodel.importers.traffic_stream import open_traffic
from accelmodel.replay import Requests, replay, replay_stream
from tests.accelmodel.worlds import US, bucket, program, settings, target

ONE = [bucket(program([{"compute": US}]))]


def written(path: Path, count: int, **columns: object) -> Path:
    random = np.random.default_rng(1)
    table = {
        "arrival_s": np.cumsum(random.exponential(2e-6, count)), "size": random.integers(0, 5, count),
        "stream": np.where(np.arange(count) % 3 == 0, "web", "batch"), "iterations": np.full(count, 2), **columns,
    }  # fmt: skip
    parquet.write_table(pa.table(table), path, row_group_size=10_000)
    return path


def test_parts_joined_are_what_the_whole_file_holds(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", 25_000)
    whole, file = read_traffic(path), open_traffic(path)
    parts = list(file.parts(rows=4000))
    assert file.count == 25_000 and file.streams == whole.stream_names == ("batch", "web")
    assert len(parts) > 5 and max(len(part) for part in parts) <= 4000
    for name in ("arrival_ps", "size", "stream", "iterations"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name)), name


def test_time_stamps_are_read_to_the_nanosecond(tmp_path: Path) -> None:
    stamps = pa.array([10**18 + 5, 10**18 + 7, 10**18 + 1000], pa.timestamp("ns"))
    parquet.write_table(pa.table({"arrival_s": stamps, "size": [1, 1, 1]}), tmp_path / "t.parquet")
    (first, second) = open_traffic(tmp_path / "t.parquet").parts(rows=2)
    assert [*first.arrival_ps.tolist(), *second.arrival_ps.tolist()] == [0, 2000, 995_000]


def asked(path: Path, rows: int) -> Iterator[Requests]:
    for part in open_traffic(path).parts(rows):
        yield Requests(part.arrival_ps, np.zeros(len(part), np.int32), part.stream)


def test_a_file_replayed_part_by_part_gives_the_same_latencies(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", 20_000)
    whole = read_traffic(path)
    at_once = replay(
        Requests(whole.arrival_ps, np.zeros(len(whole), np.int32), whole.stream), ONE, target(), settings(), 0
    )
    parts = replay_stream(asked(path, 3000), ONE, target(), settings(), 0, whole.stream_names)
    assert np.array_equal(np.concatenate([part.latency_ps for part in parts]), at_once.latency_ps)


def test_memory_does_not_grow_with_the_length_of_the_record(tmp_path: Path) -> None:
    peaks = []
    for count in (60_000, 240_000):
        path = written(tmp_path / f"{count}.parquet", count)
        streams = open_traffic(path).streams
        list(replay_stream(asked(path, 1000), ONE, target(), settings(), 0, streams))[:0]  # compiled, and cached pages
        tracemalloc.start()
        served = sum(int(part.completed.sum()) for part in
                     replay_stream(asked(path, 5000), ONE, target(), settings(), 0, streams))  # fmt: skip
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert served == count
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"arrival_s": [0.0, 1.0, 0.5, 2.0, 3.0]}, "row 3"),
        ({"arrival_s": [0.0, 1.0, 2.0, float("nan"), 3.0]}, "row 4"),
        ({"arrival_s": [0.0, 1.0, 2.0, None, 3.0]}, "row 4"),
        ({"arrival_s": ["a", "b", "c", "d", "e"]}, "numbers as 'arrival_s'"),
        ({"arrival_s": [0.0, 1.0, 2.0, 3.0, 1e9]}, "at most 4e+06 s"),
        ({"size": [1, 2, 3, 4, -1]}, "row 5"),
        ({"stream": ["a", "a", "a", "a", None]}, "row 5"),
    ],
)
def test_a_bad_row_is_named_whatever_part_it_is_in(tmp_path: Path, columns: dict[str, object], said: str) -> None:
    path = written(tmp_path / "t.parquet", 5, **columns)
    with pytest.raises(InputError, match="(?s).*" + said.replace("+", r"\+")) as caught:
        list(open_traffic(path).parts(rows=2))
    assert str(path) in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(InputError, match="a Parquet file"):
        open_traffic(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="at least one request"):
        open_traffic(written(tmp_path / "empty.parquet", 0))

"""Recorded traffic read from each format, and each bad file refused by file, row and remedy."""

import csv
import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from accelmodel.errors import InputError
from accelmodel.importers.traffic import read_traffic
from accelmodel.traffic import PS_PER_S

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, columns: dict[str, str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_traffic(path, columns)
    assert str(path) in str(caught.value)
    assert caught.value.remedy
    return str(caught.value)


def test_the_azure_trace_is_read_to_the_tick(reference_data: Path) -> None:
    path = reference_data / "traffic" / "AzureLLMInferenceTrace_code.csv"
    traffic = read_traffic(path)
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(traffic) == len(rows) == 8819
    assert traffic.size.tolist() == [int(row["ContextTokens"]) for row in rows]
    first, last = (datetime.fromisoformat(rows[i]["TIMESTAMP"][:26]) for i in (0, -1))
    assert abs(int(traffic.arrival_ps[-1]) - round((last - first).total_seconds() * PS_PER_S)) <= 10**6  # 100 ns ticks
    gaps = np.diff(traffic.arrival_ps)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(173, abs=1)
    assert traffic.warnings[0].startswith("2 gaps without a request, the longest 217.2 s")
    assert traffic.iterations is not None and traffic.iterations.tolist() == [
        int(row["GeneratedTokens"]) for row in rows
    ]


def test_the_mooncake_trace_is_read_and_its_coarse_clock_is_said(reference_data: Path) -> None:
    path = reference_data / "traffic" / "mooncake_conversation.jsonl"
    traffic = read_traffic(path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(traffic) == len(rows) == 12031
    assert traffic.size.tolist() == [row["input_length"] for row in rows]
    assert int(traffic.arrival_ps[-1]) == (rows[-1]["timestamp"] - rows[0]["timestamp"]) * 10**9
    assert "quantised" in traffic.warnings[0]


def test_the_projects_own_table_is_read_from_csv_and_from_parquet_alike(tmp_path: Path) -> None:
    text = "arrival_s,size,stream\n0.5,3,web\n0.75,4,batch\n2,5,web\n"
    table = pa.table({"arrival_s": [0.5, 0.75, 2.0], "size": [3, 4, 5], "stream": ["web", "batch", "web"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    for path in (written(tmp_path, "t.csv", text), tmp_path / "t.parquet"):
        traffic = read_traffic(path)
        assert traffic.arrival_ps.tolist() == [0, PS_PER_S // 4, PS_PER_S * 3 // 2]
        assert traffic.size.tolist() == [3, 4, 5]
        assert traffic.stream_names == ("batch", "web")
        assert traffic.stream.tolist() == [1, 0, 1]


def test_without_a_stream_column_there_is_one_stream(tmp_path: Path) -> None:
    traffic = read_traffic(written(tmp_path, "t.csv", "arrival_s,size\n0,1\n1,1\n"))
    assert traffic.stream_names == ("default",)


def test_columns_of_another_format_are_named_and_their_unit_is_that_of_their_name(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "sent_ms,tokens,who\n10,7,a\n12.5,8,b\n")
    traffic = read_traffic(path, {"arrival": "sent_ms", "size": "tokens", "stream": "who"})
    assert traffic.arrival_ps.tolist() == [0, 25 * 10**8]
    stated = read_traffic(path, {"arrival": "sent_ms", "size": "tokens", "unit": "s"})
    assert stated.arrival_ps.tolist() == [0, 25 * 10**11]


def test_time_stamps_with_a_zone_and_typed_time_stamps_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", AZURE + "2024-01-01T00:00:00Z,1,1\n2024-01-01T00:00:01.5Z,2,1\n")
    assert read_traffic(path).arrival_ps.tolist() == [0, PS_PER_S * 3 // 2]
    stamps = pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 1)], pa.timestamp("us"))
    parquet.write_table(pa.table({"arrival_s": stamps, "size": [1, 2]}), tmp_path / "t.parquet")
    assert read_traffic(tmp_path / "t.parquet").arrival_ps.tolist() == [0, 60 * PS_PER_S]


def test_a_byte_order_mark_before_the_header_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,size\n0,1\n", encoding="utf-8-sig")
    assert len(read_traffic(path)) == 1


def test_a_size_of_zero_counts_as_one_and_is_said(tmp_path: Path) -> None:
    traffic = read_traffic(written(tmp_path, "t.csv", "arrival_s,size\n0,0\n1,2\n"))
    assert traffic.size.tolist() == [1, 2]
    assert "1 requests of size 0" in traffic.warnings[0]


def test_rows_out_of_order_are_refused_or_on_request_sorted_with_all_they_hold(tmp_path: Path) -> None:
    rows = "arrival_s,size,stream,iterations\n5,1,a,9\n7,2,b,8\n6,3,a,7\n6,4,b,6\n"
    path = written(tmp_path, "t.csv", rows)
    with pytest.raises(InputError, match=r"line 4: expected rows in order of arrival.*traffic.file.sort: true"):
        read_traffic(path)
    traffic = read_traffic(path, sort=True)
    assert traffic.arrival_ps.tolist() == [0, PS_PER_S, PS_PER_S, 2 * PS_PER_S]
    assert traffic.size.tolist() == [1, 3, 4, 2]
    assert traffic.stream.tolist() == [0, 0, 1, 1]
    assert traffic.iterations is not None and traffic.iterations.tolist() == [9, 7, 6, 8]
    assert "time goes back at 1 of 4 rows, first at line 4; the rows are sorted" in traffic.warnings[0]


def test_the_first_row_may_be_the_latest(tmp_path: Path) -> None:
    traffic = read_traffic(written(tmp_path, "t.csv", "arrival_s,size\n9,1\n2,2\n"), sort=True)
    assert traffic.arrival_ps.tolist() == [0, 7 * PS_PER_S]
    assert traffic.size.tolist() == [2, 1]


def test_long_gaps_are_said_and_kept(tmp_path: Path) -> None:
    times = [*range(300), *range(900, 1200)]
    text = "arrival_s,size\n" + "".join(f"{time},1\n" for time in times)
    traffic = read_traffic(written(tmp_path, "t.csv", text))
    assert traffic.warnings == (
        "1 gaps without a request, the longest 601.0 s from 299.0 s on, 50% of the record together; kept as they are",
    )
    assert traffic.span_ps > 1199 * PS_PER_S


def test_burstgpt_is_known_by_its_columns_and_its_failed_requests_count_as_one_token(tmp_path: Path) -> None:
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    rows = "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n45,GPT-4,9,0,9,API log\n"
    traffic = read_traffic(written(tmp_path, "BurstGPT_1.csv", head + rows))
    assert traffic.arrival_ps.tolist() == [0, 40 * PS_PER_S, 40 * PS_PER_S]
    assert traffic.size.tolist() == [472, 1087, 9]
    assert traffic.iterations is not None and traffic.iterations.tolist() == [18, 230, 1]
    assert traffic.stream_names == ("ChatGPT", "GPT-4")
    assert traffic.warnings == ("1 requests of 0 Response tokens count as 1",)


def test_alibaba_chats_are_told_from_mooncake_by_their_chat_id(tmp_path: Path) -> None:
    text = "".join(
        f'{{"chat_id": {chat}, "timestamp": {time}, "input_length": 700, "output_length": 9, "type": "{kind}"}}\n'
        for chat, time, kind in ((1, 61.25, "text"), (2, 61.75, "search"))
    )
    traffic = read_traffic(written(tmp_path, "bailian.jsonl", text))
    assert traffic.arrival_ps.tolist() == [0, PS_PER_S // 2]
    assert traffic.stream_names == ("search", "text")
    mooncake = "".join(f'{{"timestamp": {time}, "input_length": 7, "output_length": 5}}\n' for time in (0, 30))
    assert read_traffic(written(tmp_path, "m.jsonl", mooncake)).arrival_ps.tolist() == [0, 3 * 10**10]


@pytest.mark.parametrize(
    ("rows", "line", "said"),
    [
        ("0,1\n-1,1\n", 3, "negative"),
        ("0,1\nnan,1\n", 3, "finite"),
        ("0,1\ninf,1\n", 3, "finite"),
        ("0,1\n,1\n", 3, "a number as 'arrival_s'"),
        ("0,1\nsoon,1\n", 3, "'soon'"),
        ("0,1\n1,-2\n", 3, "whole number"),
        ("0,1\n1,2.5\n", 3, "whole number"),
        ("0,1\n1,nan\n", 3, "finite"),
        ("0,1\n1,many\n", 3, "'many'"),
        ("0,1\n1,99999999999\n", 3, "whole number"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, rows: str, line: int, said: str) -> None:
    message = refused(written(tmp_path, "t.csv", "arrival_s,size\n" + rows))
    assert f"line {line}" in message
    assert said in message


def test_a_time_stamp_that_is_none_is_named_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", AZURE + "2024-01-01 00:00:00,1,1\n2024-13-01 00:00:00,2,1\n")
    message = refused(path)
    assert "line 3" in message
    assert "2024-13-01" in message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"timestamp": 0, "input_length": 1}\n{"timestamp": 1, "input_', 2),
        ('{"timestamp": 0, "input_length": 1}\n[]\n', 2),
        ('{"timestamp": 0, "input_length": 1}\n{"timestamp": 1}\n', 2),
        ('{"timestamp": 0, "input_length": 1}\n{"timestamp": NaN, "input_length": 1}\n', 2),
        ('{"timestamp": 0, "input_length": 1}\n{"timestamp": true, "input_length": 1}\n', 2),
        ("no json at all\n", 1),
    ],
)
def test_a_bad_line_of_json_is_named(tmp_path: Path, text: str, line: int) -> None:
    assert f"line {line}" in refused(written(tmp_path, "t.jsonl", text))


def test_a_parquet_row_without_a_value_is_named(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"arrival_s": [0.0, None], "size": [1, 2]}), tmp_path / "t.parquet")
    assert "row 2" in refused(tmp_path / "t.parquet")


def test_ragged_rows_are_refused(tmp_path: Path) -> None:
    assert "#3" in refused(written(tmp_path, "t.csv", "arrival_s,size\n0,1\n1\n"))


@pytest.mark.parametrize(("name", "content"), [("t.csv", b""), ("t.csv", b"arrival_s,size\n"), ("t.jsonl", b"")])
def test_an_empty_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [("t.parquet", b"PAR1 no table"), ("t.csv", b"\xff\xfe\x00"), ("t.jsonl", b"\xff{}"), ("t.txt", b"1")],
)
def test_bytes_of_another_kind_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name)


def test_bytes_that_are_no_text_further_down_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"arrival_s,size,stream\n0,1,a\n1,1,\xff\xfe\n")
    refused(tmp_path / "t.csv")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "none" in refused(tmp_path / "absent.csv")


def test_unknown_columns_are_listed_with_where_to_name_them(tmp_path: Path) -> None:
    message = refused(written(tmp_path, "t.csv", "when,tokens\n0,1\n"))
    assert "when, tokens" in message
    assert "traffic.file.columns.arrival" in message


@pytest.mark.parametrize(
    "columns", [{"arrival": "arrival_s", "size": "bytes"}, {"stream": "tenant"}, {"unit": "minutes"}]
)
def test_a_column_that_is_not_there_is_refused(tmp_path: Path, columns: dict[str, str]) -> None:
    message = refused(written(tmp_path, "t.csv", "arrival_s,size\n0,1\n"), columns)
    assert list(columns.values())[-1] in message


def test_times_too_far_apart_are_refused_with_the_unit_as_the_likely_cause(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "arrival_s,size\n0,1\n1700000000000,1\n")
    assert "unit" in refused(path)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "one column 'size'" in refused(written(tmp_path, "t.csv", "arrival_s,size,size\n0,1,2\n"))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([[0.0], [1.0]]), "found type list"),
        (pa.array([{"a": 1}, {"a": 2}]), "found type struct"),
        (pa.array([0, 1000], pa.time32("ms")), "found type time32"),
        (pa.array([True, False]), "found type bool"),
        (pa.array([2**63, 2**63 + 5], pa.uint64()), f"row 1: expected a number as 'arrival_s', found {2**63}"),
        (pa.array([0, 10**15], pa.timestamp("ms")), "row 2: expected a time"),  # the year 33658
    ],
)
def test_a_column_whose_values_mean_nothing_here_is_refused(tmp_path: Path, column: pa.Array, said: str) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"arrival_s": column, "size": pa.array([1, 2])}), path)
    assert said in refused(path)


def test_a_column_of_repeated_texts_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    arrivals, streams = pa.array(["0", "1"]).dictionary_encode(), pa.array(["b", "a"]).dictionary_encode()
    parquet.write_table(pa.table({"arrival_s": arrivals, "size": pa.array([1, 2]), "stream": streams}), path)
    traffic = read_traffic(path)
    assert traffic.arrival_ps.tolist() == [0, PS_PER_S]
    assert [traffic.stream_names[code] for code in traffic.stream] == ["b", "a"]


def test_a_line_nested_without_end_is_refused(tmp_path: Path) -> None:
    deep = '{"arrival_s": 0, "size": 1, "z": ' + "[" * 50_000 + "]" * 50_000 + "}"
    for text in (deep, '{"arrival_s": 0, "size": 1}\n' + deep):
        assert "nested very deep" in refused(written(tmp_path, "t.jsonl", text))


def test_an_empty_file_and_a_name_that_no_file_can_have_are_said(tmp_path: Path) -> None:
    assert "found an empty file" in refused(written(tmp_path, "t.csv", ""))
    assert "expected a file, found none" in refused(tmp_path / ("x" * 300 + ".csv"))


def test_the_bad_row_is_the_first_of_several(tmp_path: Path) -> None:
    rows = [f"{number},1" for number in range(1000)]
    rows[617], rows[901] = "a,1", "b,1"
    message = refused(written(tmp_path, "t.csv", "arrival_s,size\n" + "\n".join(rows)))
    assert "line 619" in message
    assert "found 'a'" in message

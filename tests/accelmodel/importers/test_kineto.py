"""Kineto traces: real files against a plain count, spellings, joins, times, and what is refused."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelmodel.errors import InputError
from accelmodel.importers import profile_file, trace_events
from accelmodel.importers.profile import read_profile
from tests.accelmodel.importers.traces import FIVE_KERNELS, copy, kernel, launch, step, write_trace

KERNELS = {
    "triton_example_triton_example": 1, "trace_file_list_inference_rank_1": 4,
    "critical_path_simple_add_benchmark_result_493459_1694039959_trace": 79,
    "amd_trace_mi250_minitoy_train_ROCm6_2_kineto": 14, "timeline_analysis_sampled_rank-0": 1_154,
    "trace_diff_control_control": 8_568, "trace_diff_test_test": 9_876,
}  # fmt: skip
UNJOINED = {"trace_diff_test_test": 546}


def plain_counts(path: Path) -> tuple[int, int, int]:
    """Kernels, launch calls, kernels that join none: counted over the whole document, without the reader."""
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    kernels = [event for event in events if event.get("cat") in ("kernel", "Kernel") and event["ph"] == "X"]
    hosts = ("cuda_runtime", "cuda_driver", "Runtime")
    launches = [
        event for event in events if event.get("cat") in hosts and re.match("(cu|cuda|hip).*Launch", event["name"])
    ]
    correlations = {event["args"]["correlation"] for event in launches}
    return len(kernels), len(launches), sum(event["args"]["correlation"] not in correlations for event in kernels)


@pytest.mark.parametrize("name", KERNELS)
def test_a_real_trace_has_as_many_kernels_and_launches_as_a_plain_count_finds(name: str, reference_data: Path) -> None:
    path = reference_data / "profiles" / f"kineto_{name}.json.gz"
    profile = read_profile(path)
    assert (profile.kernels, profile.launch_calls, profile.unjoined_kernels) == plain_counts(path)
    assert profile.kernels == KERNELS[name]
    assert profile.unjoined_kernels == UNJOINED.get(name, 0)


def test_the_kernels_of_a_graph_launch_all_join_it(reference_data: Path) -> None:
    profile = read_profile(reference_data / "profiles" / "kineto_trace_diff_test_test.json.gz")
    assert profile.launches is not None
    names = profile.launches.name.listed()
    graphs = [
        made for name, made in zip(names, profile.launches.kernels.tolist(), strict=True) if name == "cudaGraphLaunch"
    ]
    assert len(graphs) == 12
    assert sum(graphs) == 4_464


def test_the_metadata_of_a_real_trace_says_device_rank_and_versions(reference_data: Path) -> None:
    control = read_profile(reference_data / "profiles" / "kineto_trace_diff_control_control.json.gz")
    (device,) = control.devices_used()
    assert (device.label, device.name, device.cores) == ("3", "NVIDIA A100-PG509-200", 108)
    assert (control.metadata.rank, control.metadata.world_size) == (3, 8)
    triton = read_profile(reference_data / "profiles" / "kineto_triton_example_triton_example.json.gz")
    assert (triton.metadata.driver, triton.metadata.runtime) == ("12.0", "12.0")


def test_every_column_of_a_kernel_comes_from_its_event_and_its_launch(tmp_path: Path) -> None:
    rows = read_profile(write_trace(tmp_path / "t.json", FIVE_KERNELS)).rows
    assert rows.name.listed() == ["gemm", "relu", "gemm", "relu", "stray"]
    assert rows.start_ns.listed() == [110_000, 121_000, 160_000, 171_000, 90_000]
    assert rows.duration_ns.tolist() == [10_000, 2_000, 10_000, 2_000, 1_000]
    assert rows.launch_start_ns.listed() == [102_000, 107_000, 152_000, 157_000, None]
    assert rows.launch_duration_ns.listed() == [4_000, 4_000, 4_000, 4_000, None]
    assert rows.launch_delay_ns.listed() == [4_000, 10_000, 4_000, 10_000, None]
    assert rows.queue_depth.listed() == [0, 1, 0, 1, None]  # gemm waits in the queue when relu is launched
    assert rows.iteration.listed() == [3, 3, 4, 4, None]
    assert rows.grid.listed() == ["8,2,1", None, None, None, None]
    assert rows.registers.listed() == [64, None, None, None, None]
    assert rows.local_bytes.listed() == [None] * 5  # Kineto does not record it


@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_packed_and_plain_traces_read_the_same_whatever_their_name(ending: str, tmp_path: Path) -> None:
    plain = write_trace(tmp_path / "a.json", FIVE_KERNELS)
    path = tmp_path / f"trace.{ending}"
    path.write_bytes(gzip.compress(plain.read_bytes()) if ending == "json" else plain.read_bytes())
    assert read_profile(path).rows.start_ns.listed() == read_profile(plain).rows.start_ns.listed()


def test_old_spellings_and_text_process_ids_read_as_the_new_ones(tmp_path: Path) -> None:
    old = {"Kernel": "kernel", "Runtime": "cuda_runtime"}
    names = {new: spelled for spelled, new in old.items()}
    events = [
        {**event, "cat": names.get(event["cat"], event["cat"]), "pid": f"p{event['pid']}"} for event in FIVE_KERNELS
    ]
    profile = read_profile(write_trace(tmp_path / "t.json", events))
    assert profile.rows.iteration.listed() == [3, 3, 4, 4, None]
    assert profile.unjoined_kernels == 1


@pytest.mark.parametrize(
    "name",
    ["cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "hipExtModuleLaunchKernel",
     "cudaGraphLaunch", "hipGraphLaunch", "cudaLaunchCooperativeKernel"],
)  # fmt: skip
def test_every_launch_call_joins_its_kernel(name: str, tmp_path: Path) -> None:
    events = [launch(1, 1, 5, name, cat="cuda_driver"), kernel("k", 3, 1, 5)]
    assert read_profile(write_trace(tmp_path / "t.json", events)).unjoined_kernels == 0


@pytest.mark.parametrize("name", ["cudaLaunchHostFunc", "cudaMemcpyAsync", "cudaDeviceSynchronize"])
def test_a_call_that_launches_no_kernel_is_no_launch(name: str, tmp_path: Path) -> None:
    profile = read_profile(
        write_trace(tmp_path / "t.json", [launch(1, 1, 5, name), kernel("k", 3, 1, 5), launch(8, 1, 9)])
    )
    assert (profile.launch_calls, profile.unjoined_kernels) == (1, 1)


def test_a_negative_launch_delay_is_kept_and_said(tmp_path: Path) -> None:
    profile = read_profile(write_trace(tmp_path / "t.json", [launch(10, 6, 5), kernel("k", 12, 1, 5)]))
    assert profile.rows.launch_delay_ns.listed() == [-4_000]
    assert any("negative" in warning for warning in profile.warnings)


def test_a_repeated_correlation_joins_the_last_launch_before_the_kernel(tmp_path: Path) -> None:
    events = [launch(10, 1, 5), kernel("a", 12, 1, 5), launch(20, 1, 5), kernel("b", 22, 1, 5)]
    profile = read_profile(write_trace(tmp_path / "t.json", events))
    assert profile.rows.launch_start_ns.listed() == [10_000, 20_000]
    assert any("share a correlation" in warning for warning in profile.warnings)


def test_fractions_of_a_microsecond_are_read_to_the_nanosecond_even_since_1970(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1713979013364557.123,'
        ' "dur": 1.76, "args": {"stream": 7, "correlation": 1}}]}'
    )
    rows = read_profile(path).rows
    assert rows.start_ns.listed() == [1_713_979_013_364_557_123]
    assert rows.duration_ns.tolist() == [1_760]


def test_whole_microseconds_are_said_to_be_all_that_is_known(tmp_path: Path) -> None:
    profile = read_profile(write_trace(tmp_path / "t.json", [kernel("k", 1, 0, 1), kernel("k", 2, 3, 2)]))
    assert any("1 of 2 kernels are shorter than that and read 0" in warning for warning in profile.warnings)


def test_two_processes_with_a_device_0_each_are_two_devices(tmp_path: Path) -> None:
    events = [kernel("k", 1, 1, 1), {**kernel("k", 1, 1, 2), "pid": "rank 1"}]
    assert read_profile(write_trace(tmp_path / "t.json", events)).rows.device.listed() == ["0 of 0", "0 of rank 1"]


def test_steps_of_one_rank_do_not_number_the_kernels_of_another(tmp_path: Path) -> None:
    events = [
        step(1, 0, 10, pid=100), step(8, 0, 10, pid=200),
        launch(2, 1, 1), kernel("a", 4, 1, 1), launch(3, 1, 2, pid=200), kernel("b", 5, 1, 2), launch(4, 1, 3, pid=300),
        kernel("c", 6, 1, 3),
    ]  # fmt: skip
    assert read_profile(write_trace(tmp_path / "t.json", events)).rows.iteration.listed() == [1, 8, None]


def test_transfers_carry_bytes_and_the_end_of_their_call(tmp_path: Path) -> None:
    events = [kernel("k", 1, 1, 1), launch(5, 2, 9, "cudaMemcpyAsync"), copy(8, 3, 9, 4_096)]
    transfers = read_profile(write_trace(tmp_path / "t.json", events)).transfers
    assert transfers is not None
    assert transfers.bytes.listed() == [4_096]
    assert transfers.issued_ns.listed() == [7_000]


def test_a_trace_in_many_pieces_reads_as_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nasty = kernel('void f<"a\\\\">{lambda(int)#1}, {"x": [}]\\', 5, 1, 1)
    path = write_trace(tmp_path / "t.json", [nasty, *FIVE_KERNELS, nasty], traceName="t", nested={"traceEvents": [1]})
    whole = read_profile(path)
    for size in (1, 7, 64, 333):
        monkeypatch.setattr(profile_file.Source, "read", _read_at_most(size))
        pieces = read_profile(path)
        assert pieces.rows.name.listed() == whole.rows.name.listed()
        assert pieces.metadata == whole.metadata
        monkeypatch.undo()


def _read_at_most(size: int) -> Any:
    def read(self: profile_file.Source, _: int = 0) -> bytes:
        if self._ahead:
            ahead, self._ahead = self._ahead[:size], self._ahead[size:]
            return ahead
        return self._fetch(size)

    return read


def test_events_end_where_the_brackets_outside_strings_say(tmp_path: Path) -> None:
    text = b'{"a": "}]\\"{", "b": [{}]}, {"c": "\\\\"}, {"d'
    end, close = trace_events.cut_points(text)
    assert text[:end].endswith(b'{"c": "\\\\"}')
    assert close is None
    assert trace_events.cut_points(b'{"a": 1}], "b": 2}') == (0, 8)


def test_rates_that_are_inf_or_nan_are_read_as_missing(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json", [kernel("k", 1, 1, 1), copy(3, 0, 2, 8)])
    path.write_text(path.read_text().replace('"bytes": 8', '"bytes": 8, "memory bandwidth (GB/s)": inf'))
    profile = read_profile(path)
    assert profile.kernels == 1
    assert any("inf or nan" in warning for warning in profile.warnings)


def test_a_trace_without_kernels_is_a_finding(tmp_path: Path) -> None:
    profile = read_profile(write_trace(tmp_path / "t.json", [launch(1, 1, 1), step(1, 0, 5)]))
    assert profile.kernels == 0
    assert "no kernel" in profile.findings[0]


GOOD = json.dumps({"traceEvents": FIVE_KERNELS}).encode()
REFUSED = {
    "half a gzip": (gzip.compress(GOOD)[:-20], "whole gzip file"),
    "damaged gzip": (gzip.compress(GOOD)[:20] + b"\0\0\0\0" + gzip.compress(GOOD)[24:], "whole gzip file"),
    "half a JSON": (GOOD[: len(GOOD) // 2], "end of the list of events"),
    "JSON cut after the list": (GOOD[:-1], "JSON"),
    "JSON that is no trace": (b'{"a": [1, 2]}', "no trace|without such a list"),
    "traceEvents that is no list": (b'{"traceEvents": {"ph": "X"}}', "without such a list"),
    "a list of numbers": (b"[1, 2, 3]", "after byte"),
    "a list of other objects": (b'[{"a": 1}, {"b": 2}]', "phase"),
    "an empty list": (b"[]", "empty list"),
    "an empty trace": (b'{"traceEvents": []}', "empty list"),
    "an empty file": (b"", "0 bytes"),
    "blanks": (b" " * 200_000, "begins with"),
    "words": (b"hello", "begins with"),
    "zeros": (b"\0" * 5_000, "begins with"),
    "a missing comma": (GOOD.replace(b"}, {", b"} {", 1), "JSON|comma"),
    "a comma too many": (GOOD.replace(b"}]}", b"},]}"), "JSON|comma"),
    "something behind": (GOOD + b"{}", "JSON"),
    "deep nesting": (b'{"traceEvents": [' + b"[" * 100_000, "end of the file|JSON"),
    "deep nesting, closed": (b'{"traceEvents": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}", "JSON|trace"),
    "a kernel without a duration": (GOOD.replace(b'"dur": 10.0', b'"x": 1'), "dur: a time in"),
    "a negative duration": (GOOD.replace(b'"dur": 10.0', b'"dur": -1'), "not negative"),
    "a time past 64 bits": (GOOD.replace(b'"ts": 110.0', b'"ts": 1e300'), "ts: a time in"),
    "a time that is a word": (GOOD.replace(b'"ts": 110.0', b'"ts": "now"'), "ts: a time in"),
    "bytes that are no UTF-8": (GOOD.replace(b"gemm", b"ge\xffm"), "JSON"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_sound_trace_is_refused_with_the_file_and_a_remedy(case: str, tmp_path: Path) -> None:
    data, said = REFUSED[case]
    path = tmp_path / "t.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=said) as caught:
        read_profile(path)
    assert str(path) in caught.value.where
    assert caught.value.remedy


@pytest.mark.parametrize("path", [Path("/nonexistent/x"), Path("/tmp"), Path("a\0b"), Path("/dev/null")])
def test_a_path_that_is_no_file_is_refused(path: Path) -> None:
    with pytest.raises(InputError, match="a file"):
        read_profile(path)


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_file, "RATIO_FROM_BYTES", 2**20)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b'{"ph": "M"},' * 500_000 + b"{}]}", 9))
    with pytest.raises(InputError, match="at most 200 times"):
        read_profile(path)


def test_one_endless_event_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_events, "MAX_EVENT_BYTES", 2**20)
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents": [{"ph": "X", "name": "' + b"a" * 5 * 2**20 + b'"}]}')
    with pytest.raises(InputError, match="events of at most"):
        read_profile(path)


def test_phases_other_than_spans_make_no_kernels(tmp_path: Path) -> None:
    flow = {**kernel("k", 1, 1, 1), "ph": "s"}
    profile = read_profile(write_trace(tmp_path / "t.json", [flow, kernel("k", 1, 1, 1)]))
    assert Counter(profile.rows.name.listed()) == {"k": 1}
    assert profile.rows.stream.listed() == ["7"]
    assert profile.launches is None  # a trace without the host's side does not say 0 launches
    assert np.array_equal(profile.rows.launch_start_ns.known, [False])

"""Measured metrics against hand arithmetic on a trace of five kernels, and what is missing rather than 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelmodel.importers.profile import read_profile
from accelmodel.profile import Column, Labels, Profile, ProfileRows, empty_rows
from accelmodel.profile_classes import is_named_fusion, kernel_class
from accelmodel.profile_metrics import ProfileMetrics, profile_metrics
from accelmodel.profile_times import KERNEL_WAIT_NS, iterations_needed, launches_of
from tests.accelmodel.importers.traces import (
    FIVE_KERNELS,
    copy,
    kernel,
    launch,
    long_csv,
    step,
    write_nsys,
    write_trace,
)


def metrics_of(folder: Path, events: object) -> ProfileMetrics:
    found = profile_metrics(read_profile(write_trace(folder / "t.json", list(events))))  # type: ignore[call-overload]
    assert found is not None
    return found


def test_counts_are_per_iteration_where_iterations_are_marked(tmp_path: Path) -> None:
    found = metrics_of(tmp_path, FIVE_KERNELS)
    assert (found.kernels, found.kernel_ns, found.unjoined_kernels, found.iterations) == (5, 25_000, 1, 2)
    assert (found.kernels_per_iteration, found.launches_per_iteration) == (2.0, 2.0)


def test_launch_time_counts_calls_and_the_kernels_that_run_no_longer(tmp_path: Path) -> None:
    launch_time = metrics_of(tmp_path, FIVE_KERNELS).launch
    assert launch_time is not None
    assert (launch_time.calls, launch_time.total_ns, launch_time.joined_kernels) == (4, 16_000, 4)
    assert launch_time.mean_delay_ns == 7_000.0  # 4, 10, 4, 10 us
    assert launch_time.bound_share == 0.5  # relu runs 2 us, its launch takes 4


def test_a_kernel_of_a_graph_takes_its_part_of_the_launch(tmp_path: Path) -> None:
    events = [launch(0, 9, 1, "cudaGraphLaunch"), *(kernel(f"k{i}", 10 + 5 * i, 4, 1) for i in range(3))]
    launch_time = metrics_of(tmp_path, events).launch
    assert launch_time is not None
    assert launch_time.bound_share == 0.0  # 4 us against 9 / 3


def test_idle_time_is_split_by_what_ended_it(tmp_path: Path) -> None:
    events = [
        launch(0, 1, 1), kernel("a", 10, 10, 1),
        launch(24, 2, 2), kernel("b", 28, 2, 2),  # 20 to 28: host until 26, then 2 us to start
        launch(25, 1, 3), kernel("c", 60, 5, 3),  # 30 to 60: issued long before; 5 us may be the start, 25 are not
        kernel("d", 70, 5, 99),  # 65 to 70: nobody knows
        launch(66, 2, 4), kernel("e", 72, 8, 4, stream=8),  # overlaps
    ]  # fmt: skip
    device = metrics_of(tmp_path, events).device
    assert device is not None
    assert (device.window_ns, device.busy_ns, device.idle_ns) == (70_000, 27_000, 43_000)
    assert device.host_wait_ns == 6_000
    assert device.kernel_wait_ns == 2_000 + KERNEL_WAIT_NS
    assert device.other_ns == 25_000 + 5_000


def test_a_copy_keeps_the_device_busy_and_is_counted_by_name(tmp_path: Path) -> None:
    events = [kernel("a", 0, 10, 1), launch(1, 1, 9, "cudaMemcpyAsync"), copy(10, 5, 9, 100), copy(15, 5, 10, 50)]
    found = metrics_of(tmp_path, [*events, kernel("b", 20, 5, 2)])
    assert found.device is not None
    assert found.device.idle_ns == 0
    assert found.transfers is not None
    assert [(each.runs, each.total_ns, each.bytes) for each in found.transfers] == [(2, 10_000, 150)]


def test_the_size_of_copies_is_missing_where_one_does_not_say_it(tmp_path: Path) -> None:
    silent = copy(15, 5, 10, 50)
    del silent["args"]["bytes"]
    found = metrics_of(tmp_path, [kernel("a", 0, 10, 1), copy(10, 5, 9, 100), silent])
    assert found.transfers is not None
    assert found.transfers[0].bytes is None


def test_the_queue_is_what_waits_when_a_kernel_is_launched(tmp_path: Path) -> None:
    events = [event for i in range(4) for event in (launch(i, 1, i), kernel("k", 20 + i, 1, i))]
    queue = metrics_of(tmp_path, events).queue
    assert queue is not None
    assert (queue.mean, queue.largest, queue.empty_share) == (1.5, 3, 0.25)


def test_percentiles_are_missing_where_iterations_are_too_few(tmp_path: Path) -> None:
    events = [*(step(i, 100 * i, 10 + i) for i in range(7)), kernel("k", 1, 1, 1)]
    found = metrics_of(tmp_path, events).iteration
    assert found is not None
    assert (found.iterations, found.mean_ns, found.p50_ns) == (7, 13_000.0, 13_000.0)
    assert (found.p95_ns, found.p99_ns) == (None, None)
    assert found.needed == (("p95", 90), ("p99", 459))


@pytest.mark.parametrize(("quantile", "needed"), [(0.5, 7), (0.95, 90), (0.99, 459)])
def test_a_percentile_takes_as_many_iterations_as_leave_one_above_it(quantile: float, needed: int) -> None:
    assert iterations_needed(quantile) == needed
    assert 1 - quantile**needed >= 0.99 > 1 - quantile ** (needed - 1)


def test_kernels_are_totalled_by_name_and_class(tmp_path: Path) -> None:
    found = metrics_of(tmp_path, FIVE_KERNELS)
    assert [(each.name, each.runs, each.total_ns, each.mean_ns) for each in found.top] == [
        ("gemm", 2, 20_000, 10_000.0), ("relu", 2, 4_000, 2_000.0), ("stray", 1, 1_000, 1_000.0),
    ]  # fmt: skip
    assert [(each.kernel_class, each.share) for each in found.classes] == [
        ("contraction", 0.8), ("element-wise", 0.16), ("other", 0.04),
    ]  # fmt: skip
    assert len(metrics_of(tmp_path, [kernel(f"k{i}", i, 1, i) for i in range(40)]).top) == 20


def test_spilling_kernels_are_counted_where_the_profile_says_it(tmp_path: Path) -> None:
    found = profile_metrics(read_profile(write_nsys(tmp_path / "report")))
    assert found is not None
    assert (found.spilling_kernels, found.spilling_known) == (1, 4)
    kineto = metrics_of(tmp_path, FIVE_KERNELS)
    assert (kineto.spilling_kernels, kineto.spilling_known) == (None, 0)


def test_a_profile_of_kernels_by_themselves_has_no_launches_gaps_or_iterations(tmp_path: Path) -> None:
    text = long_csv((0, "k", "Duration", "ns", "5"), (0, "k", "dram__bytes.sum", "byte", "64"))
    (tmp_path / "x").write_text(text)
    found = profile_metrics(read_profile(tmp_path / "x"))
    assert found is not None
    assert found.dram_bytes == 64
    missing = (found.launch, found.device, found.queue, found.iteration, found.transfers, found.unjoined_kernels)
    assert missing == (None,) * 6


def test_dram_traffic_is_missing_where_one_kernel_does_not_say_it(tmp_path: Path) -> None:
    text = long_csv(
        (0, "k", "Duration", "ns", "5"), (0, "k", "dram__bytes.sum", "byte", "64"), (1, "j", "Duration", "ns", "5")
    )
    (tmp_path / "x").write_text(text)
    found = profile_metrics(read_profile(tmp_path / "x"))
    assert found is not None
    assert found.dram_bytes is None


def test_a_profile_without_kernels_has_no_metrics() -> None:
    assert profile_metrics(Profile("kineto", empty_rows())) is None


def test_launches_are_told_from_the_kernels_where_only_these_are_at_hand(tmp_path: Path) -> None:
    profile = read_profile(write_nsys(tmp_path / "report"))
    launches = launches_of(profile.rows)
    assert launches is not None
    assert sorted(launches.kernels.tolist()) == [1, 2]
    table = profile_metrics(Profile("table", profile.rows))
    assert table is not None
    assert table.launch is not None
    assert (table.launch.calls, table.launch.total_ns) == (2, 900)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ampere_sgemm_128x64_nn", "contraction"), ("ncclKernel_AllReduce_RING_LL_Sum_float", "communication"),
     ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm>", "contraction"),
     ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", "copy"),
     ("void flash_fwd_kernel<Flash_fwd_kernel_traits>", "attention"), ("implicit_convolve_sgemm", "convolution"),
     ("void softmax_warp_forward<float>", "softmax"), ("cunn_LayerNorm", "normalisation"),
     ("void at::native::vectorized_elementwise_kernel<4, AddFunctor>", "element-wise"),
     ("void at::native::reduce_kernel<512, 1>", "reduction"), ("mystery", "other"), ("", "other")],
)  # fmt: skip
def test_a_kernel_is_of_the_class_that_its_name_says(name: str, kind: str) -> None:
    assert kernel_class(name) == kind


def test_generated_kernels_say_by_name_that_they_fuse() -> None:
    assert is_named_fusion("triton_poi_fused_add_cos_sin_0")
    assert not is_named_fusion("ampere_sgemm_128x64_nn")


def test_no_column_of_nothing_known_reads_as_zero() -> None:
    column, labels = Column.none(2), Labels.none(2)
    rows = ProfileRows(
        labels, labels, Labels.of(["a", "b"]), column, np.array([1, 2]), column, column, column, column, labels, labels,
        column, column, column, column, column, column,
    )  # fmt: skip
    found = profile_metrics(Profile("table", rows))
    assert found is not None
    nothing = (found.spilling_kernels, found.dram_bytes, found.kernels_per_iteration, found.launch, found.device)
    assert nothing == (None,) * 5

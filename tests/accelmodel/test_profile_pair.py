"""Two profiles of the same work: per iteration where both mark them, kernels of one side, the change of fusion."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelmodel.importers.profile import read_profile
from accelmodel.profile import Profile, empty_rows
from accelmodel.profile_pair import PER_ITERATION, WHOLE, compare_profiles
from tests.accelmodel.importers.traces import FIVE_KERNELS, kernel, launch, step, write_trace

# One iteration in which gemm and relu became one kernel.
FUSED = (step(9, 0.0, 50.0), launch(1.0, 4.0, 1), kernel("triton_fused_gemm_relu_0", 6.0, 11.0, 1))


def pair(folder: Path, before: object, after: object) -> tuple[Profile, Profile]:
    first, second = (
        read_profile(write_trace(folder / f"{name}.json", list(events)))  # type: ignore[call-overload]
        for name, events in (("before", before), ("after", after))
    )
    return first, second


def test_a_pair_is_compared_per_iteration_where_both_mark_them(tmp_path: Path) -> None:
    found = compare_profiles(*pair(tmp_path, FIVE_KERNELS, FUSED))
    assert found is not None
    assert found.unit == PER_ITERATION
    assert (found.before.kernels, found.before.launches, found.before.kernel_ns) == (2.0, 2.0, 12_000.0)
    assert (found.after.kernels, found.after.launches, found.after.kernel_ns) == (1.0, 1.0, 11_000.0)
    assert (found.before.named_fusions, found.after.named_fusions) == (0.0, 1.0)


def test_kernels_of_one_side_only_are_listed_with_their_time(tmp_path: Path) -> None:
    found = compare_profiles(*pair(tmp_path, FIVE_KERNELS, FUSED))
    assert found is not None
    assert [(use.name, use.runs, use.total_ns) for use in found.only_before] == [
        ("gemm", 1.0, 10_000.0), ("relu", 1.0, 2_000.0),
    ]  # fmt: skip
    assert [use.name for use in found.only_after] == ["triton_fused_gemm_relu_0"]
    assert found.changed == ()


def test_without_iterations_on_one_side_the_whole_profiles_are_compared(tmp_path: Path) -> None:
    found = compare_profiles(*pair(tmp_path, FIVE_KERNELS, FUSED[1:]))
    assert found is not None
    assert (found.unit, found.before.kernels, found.after.kernels) == (WHOLE, 5.0, 1.0)


def test_kernels_of_both_sides_are_ordered_by_the_size_of_their_change(tmp_path: Path) -> None:
    slower = (kernel("gemm", 0, 30, 1), kernel("relu", 40, 1, 2))
    found = compare_profiles(*pair(tmp_path, [kernel("gemm", 0, 10, 1), kernel("relu", 40, 2, 2)], slower))
    assert found is not None
    assert [(each.name, each.change_ns) for each in found.changed] == [("gemm", 20_000.0), ("relu", -1_000.0)]


def test_a_graph_shows_as_many_kernels_a_launch(tmp_path: Path) -> None:
    graph = [launch(0, 5, 1, "cudaGraphLaunch"), *(kernel("k", 10 + i, 1, 1) for i in range(6))]
    found = compare_profiles(*pair(tmp_path, FIVE_KERNELS, graph))
    assert found is not None
    assert (found.before.kernels_per_launch, found.after.kernels_per_launch) == (1.0, 6.0)


def test_a_profile_without_kernels_compares_with_nothing() -> None:
    assert compare_profiles(Profile("kineto", empty_rows()), Profile("kineto", empty_rows())) is None


def test_the_real_pair_shows_graphs_and_another_device(reference_data: Path) -> None:
    folder = reference_data / "profiles"
    sides = (read_profile(folder / f"kineto_trace_diff_{name}.json.gz") for name in ("control_control", "test_test"))
    found = compare_profiles(*sides)
    assert found is not None
    assert found.unit == PER_ITERATION
    assert (found.before.kernels, found.after.kernels) == (1_428.0, 1_555.0)
    assert (found.before.launches, found.after.launches) == (1_428.0, 813.0)
    assert found.after.kernels_per_launch == pytest.approx(1_555 / 813)
    device = next(each for each in found.differences if each.field == "device")
    assert (device.before, device.after) == ("NVIDIA A100-PG509-200", "Tesla V100-SXM2-16GB")
    both = {each.name for each in found.changed}
    assert not both & {use.name for use in (*found.only_before, *found.only_after)}
    assert found.before.names == len(both) + len(found.only_before)

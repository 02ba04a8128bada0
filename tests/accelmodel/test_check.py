"""Each checker catches the defect planted in something sound."""

from dataclasses import dataclass, replace

import pytest

from accelmodel.check import check_grouping, check_placement, check_plan, check_timeline
from accelmodel.plan import (
    Bound,
    Buffer,
    Dim,
    Group,
    Grouping,
    Infeasible,
    Kernel,
    KernelCost,
    Lowered,
    PlacedBuffer,
    Placement,
    Plan,
    TilePlan,
)
from accelmodel.settings import FusionSettings
from tests.accelmodel.dags import lowered
from tests.accelmodel.worlds import target

DIAMOND = lowered({"a": "e x", "b": "e a", "c": "e a", "d": "e b c", "f": "f d", "g": "e y"})


def grouping(*groups: tuple[int, ...]) -> Grouping:
    return Grouping("any", tuple(Group(f"g{n}", ops) for n, ops in enumerate(groups)), exact=False)


# --- groupings ---


def test_a_sound_grouping_has_no_problems() -> None:
    assert check_grouping(DIAMOND, grouping((0, 1, 2, 3), (4,), (5,)), FusionSettings()) == ()


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        (((0,), (1,), (2,), (3,), (4,)), "op g is in 0 groups"),
        (((0, 1), (1,), (2,), (3,), (4,), (5,)), "op b is in 2 groups"),
        (((0, 1, 2, 3), (4,), (5, 9)), "there is no op 9"),
        (((1, 0), (2,), (3,), (4,), (5,)), "expected ascending"),
        (((1,), (0,), (2,), (3,), (4,), (5,)), "g0 runs before op a"),
        (((0, 1, 3), (2,), (4,), (5,)), "not convex: a path through c"),
        (((0, 1, 2, 3, 4), (5,)), "fallback op f is not alone"),
        (((0,), (1,), (2,), (3, 5), (4,)), "not connected"),
    ],
)
def test_a_broken_grouping_is_named(groups: tuple[tuple[int, ...], ...], problem: str) -> None:
    assert problem in " | ".join(check_grouping(DIAMOND, grouping(*groups)))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (FusionSettings(max_ops=3), "4 ops, the limit max_ops is 3"),
        (FusionSettings(max_external_tensors=1), "2 tensors from outside"),
        (FusionSettings(split_before=("d",)), "holds d, which split_before names"),
    ],
)
def test_a_grouping_beyond_its_limits_is_named(settings: FusionSettings, problem: str) -> None:
    assert problem in " | ".join(check_grouping(DIAMOND, grouping((0, 1, 2, 3), (4,), (5,)), settings))


def test_two_groups_of_one_name_are_named() -> None:
    twice = Grouping("any", tuple(Group("g", (op,)) for op in range(6)), exact=False)
    assert "two groups are named g" in check_grouping(DIAMOND, twice)[0]


def test_groups_that_wait_for_each_other_are_named() -> None:
    crossed = lowered({"a": "e x", "b": "e y", "c": "e a b", "d": "e a b"})
    assert "runs before" in " ".join(check_grouping(crossed, grouping((0, 2), (1, 3))))


# --- placements ---

A, B = Buffer("a", "a", "stream", 60, 0, 2), Buffer("b", "b", "output", 40, 1, 3)
PLACED = Placement("g0", (PlacedBuffer(A, 0), PlacedBuffer(B, 64)), (), 104, 128, 100, 0, "size")


def test_a_sound_placement_has_no_problems() -> None:
    assert check_placement(PLACED, 64) == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"placed": (PlacedBuffer(A, 0), PlacedBuffer(B, 32)), "height_bytes": 72}, "share bytes 32 to 60"),
        ({"placed": (PlacedBuffer(A, 0), PlacedBuffer(B, 65)), "height_bytes": 105}, "expected a multiple of 64"),
        ({"placed": (PlacedBuffer(A, 0), PlacedBuffer(B, 128)), "height_bytes": 168}, "above the capacity of 128"),
        ({"height_bytes": 100}, "the highest buffer ends at 104"),
        ({"lower_bound_bytes": 60}, "100 bytes live at once"),
        ({"placement_spill_bytes": 8}, "with 0 buffers spilled"),
        ({"placed": (PlacedBuffer(A, 0),), "spilled": (B,), "height_bytes": 60}, "nothing is charged"),
    ],
)
def test_a_broken_placement_is_named(change: dict[str, object], problem: str) -> None:
    assert problem in " | ".join(check_placement(replace(PLACED, **change), 64))  # type: ignore[arg-type]


# --- plans ---


def sound_plan() -> Plan:
    """Two kernels: a tiled chain of two ops (8 elements in tiles of 3), and a fallback op."""
    graph = lowered({"a": "e x", "b": "e a", "f": "f b"})
    groups = (Group("g0", (0, 1)), Group("g1", (2,)))
    buffers = (Buffer("x", "x", "stream", 24, 0, 1), Buffer("b", "b", "output", 24, 1, 2))
    tile_plan = TilePlan(
        root=1, tile=(("i", 3),), loop_order=("i",), trips=(("i", 3),), k_tile=0, tiles=3, waves=2, cores=2,
        double_buffer=True, buffers=buffers, peak_bytes=24, capacity_bytes=100, spill_bytes=0, candidates_tried=1,
    )  # fmt: skip
    placement = Placement("g0", tuple(PlacedBuffer(b, 0) for b in buffers), (), 24, 100, 24, 0, "size")
    kernels = (
        Kernel(groups[0], tile_plan, placement, cost(flops=16, read=32, write=32), Bound(64, 5.0)),
        Kernel(groups[1], None, None, cost(flops=8, read=32, write=32), Bound(64, 5.0)),
    )
    return Plan("w", "toy", graph, Grouping("any", groups, exact=False), kernels, (), 2)


def cost(flops: int, read: int, write: int) -> KernelCost:
    return KernelCost(
        flops=flops, padded_flops=flops, dram_read_bytes=read, dram_write_bytes=write, spill_bytes=0, halo_bytes=0,
        l2_bytes=0, requested_bytes=64, compute_ns=4.0, dram_ns=8.0, l2_ns=0.0, fallback_ns=0.0, launches=1,
        launch_ns=2.0, barriers=1, barrier_ns=1.0, busy_ns=8.0, total_ns=11.0, bottleneck="dram",
    )  # fmt: skip


def with_first(plan: Plan, **changes: object) -> Plan:
    return replace(plan, kernels=(replace(plan.kernels[0], **changes), *plan.kernels[1:]))  # type: ignore[arg-type]


def test_a_sound_plan_has_no_problems() -> None:
    assert check_plan(sound_plan()) == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tile": (("i", 9),)}, "tile of 9 on i, which has 8"),
        ({"trips": (("i", 2),), "tiles": 2, "waves": 1}, "2 trips of 3 do not just cover i"),
        ({"trips": (("i", 4),), "tiles": 4}, "4 trips of 3 do not just cover i"),
        ({"tile": (), "loop_order": (), "trips": (), "tiles": 1, "waves": 1}, "says no tile size for i"),
        ({"tiles": 4}, "the trips multiply to 3"),
        ({"waves": 3}, "3 waves of 3 tiles over 2 cores"),
        ({"cores": 3}, "3 cores get work"),
        ({"root": 2}, "its root, op 2, is not in the group"),
        ({"loop_order": ("j",)}, "loops over j"),
        ({"k_tile": 4}, "streams blocks of 4"),
        ({"peak_bytes": 20}, "its buffers reach 24"),
        ({"capacity_bytes": 20}, "exceeds the capacity by 4 bytes in 3 tiles"),
        ({"spill_bytes": 10}, "0 spill bytes in its cost, 10 in its tile plan"),
        ({"buffers": ()}, "its placement holds other buffers"),
    ],
)
def test_a_broken_tile_plan_is_named(change: dict[str, object], problem: str) -> None:
    plan = sound_plan()
    broken = replace(plan.kernels[0].tile_plan, **change)  # type: ignore[type-var, arg-type]
    assert problem in " | ".join(check_plan(with_first(plan, tile_plan=broken)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"dram_read_bytes": 31}, "63 DRAM bytes are below the bound of 64"),
        ({"busy_ns": 4.0, "total_ns": 7.0}, "4.0 ns busy are below the bound"),
        ({"total_ns": 10.0}, "add up to 11.0 ns"),
        ({"padded_flops": 15}, "fewer than the 16 flops"),
        ({"launches": 0}, "no launch"),
        ({"dram_ns": float("nan")}, "dram_ns is nan"),
        ({"halo_bytes": -1}, "halo_bytes is -1"),
        ({"bottleneck": "luck"}, "unknown bottleneck class luck"),
    ],
)
def test_a_broken_cost_is_named(change: dict[str, object], problem: str) -> None:
    plan = sound_plan()
    broken = replace(plan.kernels[0].cost, **change)  # type: ignore[arg-type]
    assert problem in " | ".join(check_plan(with_first(plan, cost=broken)))


def test_a_missing_kernel_is_named() -> None:
    plan = sound_plan()
    assert "the kernels are not the groups" in check_plan(replace(plan, kernels=plan.kernels[1:]))[0]


def test_an_infeasible_group_takes_the_place_of_its_kernel() -> None:
    plan = sound_plan()
    lost = replace(plan, kernels=plan.kernels[1:], infeasible=(Infeasible("g0", 20, 10, 10, "too large"),))
    assert check_plan(lost) == ()


def test_a_fallback_op_with_a_tile_plan_is_named() -> None:
    plan = sound_plan()
    tiled = replace(plan.kernels[1], tile_plan=plan.kernels[0].tile_plan)
    assert "no tile plan was expected" in " ".join(check_plan(replace(plan, kernels=(plan.kernels[0], tiled))))


def test_a_views_only_kernel_that_costs_something_is_named() -> None:
    graph: Lowered = lowered({"v": "v x"})
    group = Group("g0", (0,))
    kernel = Kernel(group, None, None, cost(flops=0, read=0, write=0), Bound(0, 0.0))
    plan = Plan("w", "toy", graph, Grouping("none", (group,), exact=False), (kernel,), (), 1)
    assert "views only, but 1 launches" in " ".join(check_plan(plan))


def test_a_dim_of_one_element_needs_no_tile_size() -> None:
    plan = sound_plan()
    ops = tuple(replace(op, dims=(*op.dims, Dim("j", 1, "parallel"))) for op in plan.lowered.ops)
    assert check_plan(replace(plan, lowered=replace(plan.lowered, ops=ops))) == ()


# --- timelines ---


@dataclass(frozen=True)
class Event:
    lane: str
    kind: str
    group: str
    start_ps: int
    end_ps: int
    dram_bytes: int = 0


SPAN_PS = 26_000
TIMELINE = (
    Event("host 0", "launch", "g0", 0, 2_000),
    Event("host 0", "launch", "g1", 2_000, 4_000),
    Event("host 0", "idle", "", 4_000, SPAN_PS),
    Event("slot 0", "idle", "", 0, 2_000),
    Event("slot 0", "kernel", "g0", 2_000, 10_000, 64),
    Event("slot 0", "barrier", "g0", 10_000, 11_000),
    Event("slot 0", "kernel", "g1", 11_000, 25_000, 64),
    Event("slot 0", "barrier", "g1", 25_000, SPAN_PS),
)


def timeline_problems(change: dict[int, Event] | None = None) -> str:
    events = [(change or {}).get(number, event) for number, event in enumerate(TIMELINE)]
    return " | ".join(check_timeline(events, SPAN_PS, (sound_plan(),), target(dram_bytes_per_ns=10.0)))


def test_a_sound_timeline_has_no_problems() -> None:
    assert timeline_problems() == ""


@pytest.mark.parametrize(
    ("number", "event", "problem"),
    [
        (3, Event("slot 0", "idle", "", 0, 1_000), "leaves a gap"),
        (3, Event("slot 0", "idle", "", 0, 3_000), "overlaps"),
        (2, Event("host 0", "idle", "", 4_000, 5_000), "lane host 0 ends at 5000 ps"),
        (0, Event("host 0", "kernel", "g0", 0, 2_000), "does not belong on this lane"),
        (0, Event("host 0", "launch", "g0", 0, 3_000), "before its launch ends"),
        (5, Event("slot 0", "barrier", "g1", 10_000, 11_000), "does not follow its kernel"),
        (4, Event("slot 0", "kernel", "g0", 2_000, 10_000, 60), "moved 124 bytes, the plan says 128"),
        (4, Event("slot 0", "kernel", "g2", 2_000, 10_000, 64), "not the 2 of the plan"),
        (4, Event("slot 0", "kernel", "g0", 2_000, 9_000, 64), "less time than alone"),
        (4, Event("slot 0", "kernel", "g0", 2_000, 10_000, 640), "more than DRAM carries"),
    ],
)
def test_a_broken_timeline_is_named(number: int, event: Event, problem: str) -> None:
    assert problem in timeline_problems({number: event})

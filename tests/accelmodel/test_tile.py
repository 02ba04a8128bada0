"""The tile search: reference figures, brute force, limits, and plans that keep their own promises."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from accelmodel.boundary import boundary
from accelmodel.cost import kernel_cost
from accelmodel.errors import InputError
from accelmodel.estimate import Situation, estimate, work
from accelmodel.plan import Group, Infeasible, KernelCost, Lowered, TilePlan
from accelmodel.regions import make_tiles, nest_of, propagate, whole_tile
from accelmodel.settings import ExecutionSettings, TilingSettings
from accelmodel.target import Target
from accelmodel.tile import needs_tiles, tile_group
from accelmodel.tile_candidates import STREAM_DEPTHS, candidates, thin, tile_sizes
from tests.accelmodel import tiny

SINGLE = TilingSettings(double_buffer=False)
DOUBLE = TilingSettings()
PLAIN = ExecutionSettings()


def planned(
    lowered: Lowered, group: Group, target: Target, settings: TilingSettings = SINGLE
) -> tuple[TilePlan, KernelCost]:
    plan = tile_group(lowered, group, target, settings, PLAIN)
    assert isinstance(plan, TilePlan)
    return plan, kernel_cost(lowered, group, plan, target, PLAIN)


# --- candidates ---


def test_sizes_are_the_smallest_aligned_ones_for_their_trips() -> None:
    assert tile_sizes(100, 16, True) == (16, 32, 48, 64, 100)
    assert tile_sizes(7, 16, True) == (7,)
    assert tile_sizes(10, 1, True) == (1, 2, 3, 4, 5, 10)
    trips = [-(-2048 // size) for size in tile_sizes(2048, 16, True)]
    assert len(trips) == len(set(trips))
    assert 416 in tile_sizes(2048, 16, True)  # 5 trips, an imperfect tile


def test_every_number_of_trips_that_an_aligned_size_has_is_there() -> None:
    for size, align in product((1, 5, 16, 48, 100, 333), (1, 8, 16)):
        every = {-(-size // min(size, align * j)) for j in range(1, -(-size // align) + 1)}
        assert {-(-size // tile) for tile in tile_sizes(size, align, True)} == every


def test_unaligned_sizes_are_powers_of_two() -> None:
    assert tile_sizes(100, 16, False) == (1, 2, 4, 8, 16, 32, 64, 100)


def test_thinning_keeps_the_ends_and_meets_the_limit() -> None:
    lists = [(1, 2, 3, 4, 5, 6, 7), (1, 2, 3)]
    thinned = thin(lists, 6)
    assert len(thinned[0]) * len(thinned[1]) <= 6
    assert (thinned[0][0], thinned[0][-1]) == (1, 7)
    assert thin(lists, 21) == lists
    assert thin(lists, 1) == [(7,), (3,)]


# --- reference figures: 16 x 16 MACs, 128 KiB, not double-buffered, partial sums of 8 bits (see shared data README) ---


def test_gemm_512_reaches_the_least_traffic_known() -> None:
    plan, cost = planned(tiny.gemm(512, 512, 512), tiny.alone(0), tiny.machine())
    assert cost.dram_bytes == 1_310_720
    assert plan.tile == (("m", 256), ("n", 256))


def test_the_chain_unfused_reaches_the_least_traffic_known() -> None:
    lowered = tiny.two_gemms(512, 512, 2048, 512)
    traffic = [planned(lowered, tiny.alone(i), tiny.machine())[1].dram_bytes for i in (0, 1)]
    assert sum(traffic) == 8_912_896


def test_the_chain_fused_beats_the_reference_with_an_imperfect_middle() -> None:
    lowered = tiny.two_gemms(512, 512, 2048, 512)
    plan, cost = planned(lowered, tiny.everything(lowered), tiny.machine())
    assert cost.dram_bytes <= 7_864_320
    assert (dict(plan.tile)["m"], plan.k_tile) == (256, 416)
    # x for 5 blocks, both weights for 2 row tiles, the result; and the sums that do not stay, for 4 of 5 blocks.
    u = 512 * 512
    assert cost.dram_bytes == 5 * u + 2 * 4 * u + 2 * 4 * u + u + plan.spill_bytes


# --- against brute force ---


def brute_force(lowered: Lowered, group: Group, target: Target, settings: TilingSettings) -> float:
    """Least latency over every tile size, block, depth and innermost loop; one candidate at a time."""
    edge = boundary(lowered, group)
    nest = nest_of(edge)
    situation = Situation(target, settings.cores or target.cores, settings.double_buffer, 1.0)
    sizes = [range(1, n + 1) if cut else [n] for n, cut in zip(nest.sizes, nest.tileable, strict=True)]
    blocks = range(1, nest.stream[2] + 1) if nest.stream else [1]
    rows = np.array([(*t, k, d) for *t, k, d in product(*sizes, blocks, STREAM_DEPTHS)], np.int64)
    tiles = make_tiles(nest, rows[:, :-2], rows[:, -2] if nest.stream else None)
    worked = work(nest, tiles, rows[:, -1], situation)
    dims = range(len(nest.dims))
    orders = [(*(d for d in dims if d != inner), inner) for inner in dims]
    return min(float(estimate(worked, order, situation).busy_ns.min()) for order in orders)


@pytest.mark.parametrize("double_buffer", [False, True])
@pytest.mark.parametrize(
    "lowered",
    [tiny.gemm(12, 20, 9), tiny.gemm_bias_relu(9, 12, 8), tiny.two_gemms(10, 6, 9, 5), tiny.two_convolutions(1, 9),
     tiny.diamond(7, 12), tiny.softmax(9, 11), tiny.attention(2, 6, 7, 4)],
    ids=["gemm", "epilogue", "two_gemms", "two_convolutions", "diamond", "softmax", "attention"],
)  # fmt: skip
def test_no_tile_of_an_exhaustive_search_is_faster(lowered: Lowered, double_buffer: bool) -> None:
    """With native blocks of 1 all sizes are aligned; what the candidates leave out must not matter."""
    target = tiny.machine(
        native=(1, 1, 1), lanes=1, macs_per_ns=1.0, sram_bytes=260, cores=2, core_dram_bytes_per_ns=2.0,
        dram_bytes_per_ns=3.0, launch_ns=0.0, barrier_ns=0.0,
    )  # fmt: skip
    settings = TilingSettings(double_buffer=double_buffer)
    group = tiny.everything(lowered)
    _, cost = planned(lowered, group, target, settings)
    best = brute_force(lowered, group, target, settings)
    assert cost.busy_ns <= best * 1.0011  # within the tie
    assert cost.busy_ns >= best * (1 - 1e-9)


# --- choices ---


def test_among_equally_fast_tiles_the_least_traffic_wins() -> None:
    """Compute-bound under double buffering, so that many tiles tie on latency: traffic is still minimised."""
    target = tiny.machine(macs_per_ns=0.01)
    _, cost = planned(tiny.gemm(256, 256, 256), tiny.alone(0), target, DOUBLE)
    assert cost.bottleneck == "compute"
    assert cost.dram_bytes == 3 * 256 * 256


def test_traffic_decides_before_time_on_dram_among_tied_tiles() -> None:
    """Short runs make fewer bytes take longer; hidden behind compute, the fewer bytes still win."""
    target = tiny.machine(macs_per_ns=0.05, sram_bytes=8192, half_transfer_bytes=256.0)
    lowered = tiny.gemm(512, 512, 64)
    _, cost = planned(lowered, tiny.alone(0), target, DOUBLE)
    nest = nest_of(boundary(lowered, tiny.alone(0)))
    tried = candidates(nest, propagate(nest, whole_tile(nest)), target, DOUBLE)
    situation = Situation(target, 1, True, 1.0)
    worked = work(nest, tried.tiles, tried.depth, situation)
    found = [estimate(worked, order, situation) for order in ((0, 1), (1, 0))]
    total = np.concatenate([e.busy_ns for e in found]) + 110.0  # one launch, one barrier
    tied = total <= total.min() * 1.001
    least = np.concatenate([e.dram_bytes for e in found])[tied].min()
    quickest = np.argmin(np.where(tied, np.concatenate([e.dram_ns for e in found]), np.inf))
    assert cost.dram_bytes == round(least)
    assert np.concatenate([e.dram_bytes for e in found])[quickest] > least


def test_tiles_spread_over_the_cores_they_are_given() -> None:
    target = tiny.machine(cores=4, macs_per_ns=0.01)
    lowered = tiny.gemm(64, 64, 64)
    spread, _ = planned(lowered, tiny.alone(0), target, DOUBLE)
    assert (spread.cores, spread.cores_allowed, spread.waves * spread.cores >= spread.tiles) == (4, 4, True)
    held, _ = planned(lowered, tiny.alone(0), target, replace(DOUBLE, cores=1))
    assert (held.cores, held.cores_allowed) == (1, 1)


def test_misaligned_tiles_cost_padding() -> None:
    """`align` off tries powers of two below the native block: never better here, and never refused."""
    target = tiny.machine(macs_per_ns=0.01, native=(24, 24, 16))
    lowered = tiny.gemm(96, 96, 96)
    _, aligned = planned(lowered, tiny.alone(0), target, DOUBLE)
    _, free = planned(lowered, tiny.alone(0), target, replace(DOUBLE, align=False))
    assert aligned.total_ns <= free.total_ns


def test_fewer_candidates_are_tried_within_the_limit() -> None:
    plan, _ = planned(tiny.gemm(4096, 4096, 64), tiny.alone(0), tiny.machine(), replace(DOUBLE, max_tiles=50))
    assert plan.candidates_tried <= 50 * 2  # two loop orders
    assert "thinned" in plan.notes[0]


def test_dims_that_stay_whole_are_named() -> None:
    lowered = tiny.two_gemms(64, 32, 96, 48)
    plan, _ = planned(lowered, tiny.everything(lowered), tiny.machine())
    assert plan.notes[1] == "not cut, as it would recompute: n"


# --- promises of a plan ---

EVERY = {
    "gemm": tiny.gemm(100, 50, 70),
    "epilogue": tiny.gemm_bias_relu(100, 50, 70),
    "two_gemms": tiny.two_gemms(100, 60, 200, 50, gelu=True),
    "two_convolutions": tiny.two_convolutions(8, 20),
    "chain": tiny.chain(3, 50, 70),
    "softmax": tiny.softmax(50, 70),
    "diamond": tiny.diamond(50, 70),
    "attention": tiny.attention(3, 40, 50, 16),
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("sram_bytes", [2048, 16384, 1 << 20])
def test_a_plan_is_consistent(name: str, sram_bytes: int) -> None:
    lowered, target = EVERY[name], tiny.machine(cores=3, sram_bytes=sram_bytes)
    group = tiny.everything(lowered)
    plan, cost = planned(lowered, group, target, DOUBLE)
    root = lowered.ops[plan.root]
    sizes = {d.name: d.size for d in root.dims if d.role == "parallel"}
    assert {dim: -(-sizes[dim] // size) for dim, size in plan.tile} == dict(plan.trips)
    assert plan.tiles == np.prod([n for _, n in plan.trips])
    assert plan.waves == -(-plan.tiles // plan.cores)
    assert sorted(plan.loop_order) == sorted(sizes)
    live = [sum(b.size_bytes for b in plan.buffers if b.start <= s < b.end) for s in range(len(group.ops))]
    assert plan.peak_bytes == max(live)
    assert all(0 <= b.start < b.end <= len(group.ops) for b in plan.buffers)
    overflow = max(0, plan.peak_bytes - plan.capacity_bytes)
    assert plan.spill_bytes >= 2 * overflow * plan.tiles
    assert (plan.spill_bytes > 0) == (overflow > 0)
    assert cost.spill_bytes == plan.spill_bytes
    assert cost.padded_flops >= cost.flops


def test_the_same_search_gives_the_same_plan() -> None:
    lowered = EVERY["two_gemms"]
    again = [tile_group(lowered, tiny.everything(lowered), tiny.machine(cores=3), DOUBLE, PLAIN) for _ in range(2)]
    assert again[0] == again[1]


# --- limits ---


def test_a_machine_too_small_for_native_blocks_is_refused_with_figures() -> None:
    refused = tile_group(tiny.gemm(64, 64, 64), tiny.alone(0), tiny.machine(sram_bytes=300), SINGLE, PLAIN)
    assert isinstance(refused, Infeasible)
    assert (refused.capacity_bytes, refused.demand_bytes) == (300, 3 * 256 + 16 - 1)
    assert refused.shortfall_bytes == refused.demand_bytes - 300
    assert "native block" in refused.reason


def test_operands_beyond_dram_are_refused_with_figures() -> None:
    target = tiny.machine(dram_capacity_bytes=10_000)
    refused = tile_group(tiny.gemm(64, 64, 64), tiny.alone(0), target, SINGLE, PLAIN)
    assert isinstance(refused, Infeasible)
    assert (refused.demand_bytes, refused.shortfall_bytes) == (3 * 4096, 3 * 4096 - 10_000)


def test_a_row_longer_than_the_sram_spills_and_runs() -> None:
    plan, cost = planned(tiny.softmax(4, 4096), tiny.alone(0), tiny.machine(sram_bytes=1024), SINGLE)
    assert plan.spill_bytes > 0
    assert cost.bottleneck == "spill"


def test_groups_that_run_no_tiles_are_told_apart() -> None:
    view = tiny.op("v", "view", {"i": 8}, {"x": ""}, {"y": "i"})
    ops = [view, tiny.op("f", "fallback", {"i": 8}, {"y": "i"}, {"z": "i"})]
    lowered = tiny.world(ops, {"x": (4, 2), "y": (8,), "z": (8,)})
    assert [needs_tiles(lowered, tiny.alone(i)) for i in (0, 1)] == [False, False]
    with pytest.raises(ValueError, match="it has no tiles"):
        tile_group(lowered, tiny.alone(0), tiny.machine(), SINGLE, PLAIN)
    assert needs_tiles(tiny.gemm(4, 4, 4), tiny.alone(0))


def test_scalars_and_single_elements_have_one_tile() -> None:
    scalar = tiny.op("s", "elementwise", {}, {"x": ""}, {"y": ""}, flops=1)
    lowered = tiny.world([scalar], {"x": (), "y": ()})
    plan, cost = planned(lowered, tiny.alone(0), tiny.machine())
    assert (plan.tile, plan.tiles, cost.dram_bytes) == ((), 1, 2)


@pytest.mark.parametrize("target", [
    tiny.machine(dram_bytes_per_ns=1e-308), tiny.machine(half_transfer_bytes=1e308, dram_bytes_per_ns=1e-3),
])  # fmt: skip
def test_figures_that_make_times_overflow_are_refused(target: Target) -> None:
    with pytest.raises(InputError, match="a finite time of every tile"):
        tile_group(tiny.gemm(64, 64, 64), tiny.alone(0), target, TilingSettings(), ExecutionSettings())


def test_a_group_that_dram_cannot_hold_lacks_dram_and_one_whose_blocks_do_not_fit_lacks_sram() -> None:
    lowered = tiny.gemm(64, 64, 64)
    for target, memory in ((tiny.machine(dram_capacity_bytes=100), "dram"), (tiny.machine(sram_bytes=8), "sram")):
        found = tile_group(lowered, tiny.alone(0), target, TilingSettings(), ExecutionSettings())
        assert isinstance(found, Infeasible) and found.memory == memory

"""The cost of a kernel, term by term, and what ops ask for."""

from dataclasses import replace

import pytest

from accelmodel.boundary import boundary
from accelmodel.cost import kernel_cost, launches_of, requested_bytes
from accelmodel.errors import InputError
from accelmodel.plan import Access, AxisMap, Group, KernelCost, Lowered, TilePlan
from accelmodel.settings import ExecutionSettings
from accelmodel.target import Target
from tests.accelmodel import tiny

PLAIN = ExecutionSettings()


def plan(
    lowered: Lowered,
    group: Group,
    tile: dict[str, int],
    *,
    order: tuple[str, ...] | None = None,
    k_tile: int = 0,
    cores: int = 1,
    double_buffer: bool = False,
    depth: int = 1,
    spill_bytes: int = 0,
) -> TilePlan:
    """A tile plan of just what the cost model reads."""
    root = group.ops[boundary(lowered, group).root]
    sizes = {d.name: d.size for d in lowered.ops[root].dims if d.role == "parallel"}
    trips = {name: -(-size // tile[name]) for name, size in sizes.items()}
    tiles = 1
    for count in trips.values():
        tiles *= count
    used = min(cores, tiles)
    return TilePlan(
        root=root, tile=tuple((name, tile[name]) for name in sizes), loop_order=order or tuple(sizes),
        trips=tuple(trips.items()), k_tile=k_tile, tiles=tiles, waves=-(-tiles // used), cores=used,
        double_buffer=double_buffer, buffers=(), peak_bytes=0, capacity_bytes=0, spill_bytes=spill_bytes,
        candidates_tried=1, stream_depth=depth, cores_allowed=cores,
    )  # fmt: skip


def cost_of(
    lowered: Lowered, tile: dict[str, int], target: Target, execution: ExecutionSettings = PLAIN, **more: object
) -> KernelCost:
    group = tiny.everything(lowered)
    return kernel_cost(lowered, group, plan(lowered, group, tile, **more), target, execution)  # type: ignore[arg-type]


# --- traffic ---


def test_gemm_traffic_is_each_operand_times_the_trips_that_pass_it_by() -> None:
    # A 64 x 32 passes 3 column tiles, B 32 x 48 passes 4 row tiles, C once; nothing is large enough to stay.
    cost = cost_of(tiny.gemm(64, 48, 32), {"m": 16, "n": 16}, tiny.machine(sram_bytes=900))
    assert cost.dram_read_bytes == 3 * 64 * 32 + 4 * 32 * 48
    assert cost.dram_write_bytes == 64 * 48


def test_an_operand_that_fits_stays_while_the_inner_loop_passes() -> None:
    # n innermost: A's panel stays for 3 tiles; B passes by 4 times.
    cost = cost_of(tiny.gemm(64, 48, 32), {"m": 16, "n": 16}, tiny.machine(), order=("m", "n"))
    assert cost.dram_read_bytes == 64 * 32 + 4 * 32 * 48
    other = cost_of(tiny.gemm(64, 48, 32), {"m": 16, "n": 16}, tiny.machine(), order=("n", "m"))
    assert other.dram_read_bytes == 3 * 64 * 32 + 32 * 48


def test_imperfect_tiles_move_no_padding() -> None:
    # 50 rows in tiles of 16: 4 trips, but A is read as it is.
    cost = cost_of(tiny.gemm(50, 16, 32), {"m": 16, "n": 16}, tiny.machine())
    assert cost.dram_read_bytes == 50 * 32 + 32 * 16
    assert cost.padded_flops == 2 * 64 * 16 * 32


def test_an_l2_serves_a_wave_once() -> None:
    # 4 x 4 tiles on 8 cores, n innermost: a wave is 2 rows of 4. An L2 of 4 KiB holds no operand whole beside a wave.
    # A: 2 of 4 regions a wave, 2 waves: each once. B: all 4 regions in both waves: twice.
    target = tiny.machine(cores=8, l2_bytes=4096, sram_bytes=3000)
    cost = cost_of(tiny.gemm(64, 64, 64), {"m": 16, "n": 16}, target, cores=8, order=("m", "n"))
    assert cost.dram_read_bytes == 64 * 64 + 2 * 64 * 64
    assert cost.l2_bytes == 4 * 64 * 64 * 2 + 64 * 64
    large = tiny.machine(cores=8, l2_bytes=1 << 20, sram_bytes=3000)
    assert cost_of(tiny.gemm(64, 64, 64), {"m": 16, "n": 16}, large, cores=8).dram_read_bytes == 2 * 64 * 64


def test_two_names_of_one_memory_are_read_once() -> None:
    """x, and x seen flat, feed one group; what it makes is read under another name outside."""
    ops = [
        tiny.op("flat", "view", {"i": 32}, {"x": ""}, {"v": "i"}),
        tiny.op("a", "elementwise", {"m": 4, "n": 8}, {"x": "m n"}, {"p": "m n"}),
        tiny.op("b", "elementwise", {"i": 32}, {"v": "i"}, {"q": "i"}),
        tiny.op("seen", "view", {"i": 32}, {"p": ""}, {"r": "i"}),
        tiny.op("c", "elementwise", {"i": 32}, {"q": "i", "r": "i"}, {"y": "i"}),
    ]
    shapes = {"x": (4, 8), "v": (32,), "p": (4, 8), "q": (32,), "r": (32,), "y": (32,)}
    lowered = tiny.world(ops, shapes)
    cost = cost_of(lowered, {"i": 32}, tiny.machine())
    assert (cost.dram_read_bytes, cost.dram_write_bytes) == (32, 32)


def test_padding_of_a_convolution_is_not_fetched_and_halo_is_counted() -> None:
    lowered = tiny.two_convolutions(4, 16)
    whole = cost_of(lowered, {"f": 4, "y": 16, "x": 16}, tiny.machine(), k_tile=4)
    weights = 2 * 4 * 4 * 9
    assert whole.dram_read_bytes == 4 * 16 * 16 + weights
    assert whole.halo_bytes == 0
    cut = cost_of(lowered, {"f": 4, "y": 4, "x": 16}, tiny.machine(), k_tile=4)
    assert cut.halo_bytes == (28 - 16) * 16 * 4  # 4 tiles of 8 rows, less 4 rows outside the image
    assert cut.dram_read_bytes == 28 * 16 * 4 + weights


def test_a_table_is_read_by_the_rows_that_are_picked() -> None:
    rows = tiny.op("gather", "movement", {"i": 6, "w": 8}, {"table": "* w", "ids": "i"}, {"y": "i w"})
    lowered = tiny.world([rows], {"table": (1000, 8), "ids": (6,), "y": (6, 8)}, weights=["table"])
    cost = cost_of(lowered, {"i": 2, "w": 8}, tiny.machine())
    assert cost.dram_read_bytes == 6 * 8 + 6
    assert cost.requested_bytes == 6 * 8 + 6 + 6 * 8


# --- time ---


def test_time_without_double_buffering_is_the_sum_of_compute_and_transfer() -> None:
    # One tile: 64 x 48 x 32 MACs at 256 a ns; 64 x 32 + 32 x 48 + 64 x 48 bytes at 1 a ns.
    cost = cost_of(tiny.gemm(64, 48, 32), {"m": 64, "n": 48}, tiny.machine())
    assert cost.compute_ns == 64 * 48 * 32 / 256
    assert cost.dram_ns == 64 * 32 + 32 * 48 + 64 * 48
    assert cost.busy_ns == pytest.approx(cost.compute_ns + cost.dram_ns)
    assert cost.launch_ns == 100.0 and cost.barrier_ns == 10.0
    assert cost.total_ns == pytest.approx(cost.busy_ns + 110.0)
    assert cost.bottleneck == "dram"


def test_double_buffering_hides_the_shorter_part_but_for_one_stage() -> None:
    # Four tiles of one block of the reduction each: four stages.
    target = tiny.machine()
    cost = cost_of(tiny.gemm(64, 48, 16), {"m": 16, "n": 48}, target, double_buffer=True)
    longest, other = max(cost.dram_ns, cost.compute_ns), min(cost.dram_ns, cost.compute_ns)
    assert cost.busy_ns == pytest.approx(longest + other / 4)


def test_waves_of_padded_tiles_set_the_compute_time() -> None:
    # 5 row tiles of 16 on 4 cores: two waves, each as long as one padded tile.
    target = tiny.machine(cores=4)
    cost = cost_of(tiny.gemm(72, 10, 20), {"m": 16, "n": 10}, target, cores=4)
    assert cost.compute_ns == 2 * (16 * 16 * 32) / 256
    assert cost.padded_flops == 5 * 2 * 16 * 16 * 32
    assert cost.flops == 2 * 72 * 10 * 20


def test_a_slower_clock_slows_engines_only() -> None:
    full = cost_of(tiny.gemm(64, 48, 32), {"m": 64, "n": 48}, tiny.machine())
    half = cost_of(tiny.gemm(64, 48, 32), {"m": 64, "n": 48}, tiny.machine(), ExecutionSettings(clock_fraction=0.5))
    assert half.compute_ns == 2 * full.compute_ns
    assert half.dram_ns == full.dram_ns


def test_launch_mode_and_extra_barriers_are_charged() -> None:
    execution = ExecutionSettings(launch_mode="graph", extra_barriers=2)
    cost = cost_of(tiny.chain(1, 8, 16), {"m": 8, "n": 16}, tiny.machine(), execution)
    assert (cost.launch_ns, cost.barriers, cost.barrier_ns) == (10.0, 3, 30.0)


def test_one_core_draws_no_more_than_its_port() -> None:
    target = tiny.machine(cores=4, dram_bytes_per_ns=8.0, core_dram_bytes_per_ns=2.0)
    one = cost_of(tiny.chain(1, 16, 16), {"m": 16, "n": 16}, target, cores=4)
    four = cost_of(tiny.chain(1, 16, 16), {"m": 4, "n": 16}, target, cores=4)
    assert (one.dram_ns, four.dram_ns) == (512 / 2, 512 / 8)


def test_short_runs_lose_bandwidth() -> None:
    # A column block 16 of 64 wide: runs of 16 bytes at half = 16 reach half of the peak.
    target = tiny.machine(half_transfer_bytes=16.0)
    cost = cost_of(tiny.chain(1, 8, 64), {"m": 8, "n": 16}, target)
    assert cost.dram_ns == 2 * 512 * 2
    whole = cost_of(tiny.chain(1, 8, 64), {"m": 8, "n": 64}, target)
    assert whole.dram_ns == pytest.approx(2 * 512 * (512 + 16) / 512)  # whole rows: one run of 512 bytes


def test_spill_of_placement_adds_traffic_and_time() -> None:
    lowered = tiny.chain(1, 8, 64)
    group = tiny.everything(lowered)
    tile_plan = plan(lowered, group, {"m": 8, "n": 64})
    clean = kernel_cost(lowered, group, tile_plan, tiny.machine(), PLAIN)
    spilled = kernel_cost(lowered, group, tile_plan, tiny.machine(), PLAIN, placement_spill_bytes=5000)
    assert spilled.spill_bytes == 5000
    assert spilled.dram_bytes == clean.dram_bytes + 5000
    assert spilled.busy_ns == pytest.approx(clean.busy_ns + 5000)
    assert spilled.bottleneck == "spill"


def test_a_tile_on_one_of_many_cores_is_named_imbalance() -> None:
    target = tiny.machine(cores=8, dram_bytes_per_ns=1e6, launch_ns=0.0, barrier_ns=0.0)
    cost = cost_of(tiny.gemm(64, 64, 64), {"m": 64, "n": 64}, target, cores=8)
    assert cost.bottleneck == "imbalance"


# --- groups that run nothing, or on the host ---


def test_views_cost_nothing() -> None:
    lowered = tiny.world([tiny.op("v", "view", {"i": 32}, {"x": ""}, {"y": "i"})], {"x": (4, 8), "y": (32,)})
    cost = kernel_cost(lowered, tiny.alone(0), None, tiny.machine(), PLAIN)
    assert (cost.launches, cost.total_ns, cost.dram_bytes, cost.requested_bytes) == (0, 0.0, 0, 0)


def test_a_fallback_op_pays_the_round_trip() -> None:
    odd = tiny.op("odd", "fallback", {"i": 100}, {"x": "i"}, {"y": "i"}, flops=60)
    lowered = tiny.world([odd], {"x": (100,), "y": (100,)})
    cost = kernel_cost(lowered, tiny.alone(0), None, tiny.machine(), PLAIN)
    # 1000 ns round trip, 200 bytes at 4 a ns, 60 flops at 2 a ns; the launch and the barrier beside it
    assert cost.fallback_ns == cost.busy_ns == 1000 + 50 + 30
    assert cost.total_ns == 1080 + 100 + 10
    assert (cost.dram_read_bytes, cost.dram_write_bytes, cost.launches) == (100, 100, 1)
    assert cost.bottleneck == "fallback"


def test_a_group_that_runs_on_cores_needs_a_tile_plan() -> None:
    lowered = tiny.gemm(16, 16, 16)
    with pytest.raises(ValueError, match="needs a tile plan"):
        kernel_cost(lowered, tiny.alone(0), None, tiny.machine(), PLAIN)


def test_a_group_has_the_launches_of_its_most_demanding_op() -> None:
    lowered = tiny.chain(2, 4, 4)
    twice = tiny.with_ops(lowered, (replace(lowered.ops[0], launches=2), lowered.ops[1]))
    assert launches_of(boundary(twice, tiny.everything(twice))) == 2


def test_a_precision_that_the_engine_lacks_is_named() -> None:
    lowered = tiny.with_ops(tiny.gemm(16, 16, 16), [replace(tiny.gemm(16, 16, 16).ops[0], precision="float64")])
    with pytest.raises(InputError, match=r"op 'gemm' on the matrix engine.*found float64"):
        cost_of(lowered, {"m": 16, "n": 16}, tiny.machine())


# --- requested bytes and the reuse ratio ---


def reuse(cost: KernelCost) -> float:
    return 1.0 - cost.dram_bytes / cost.requested_bytes


def test_one_element_wise_op_reuses_nothing_and_two_fused_half() -> None:
    one, two = tiny.chain(1, 8, 64), tiny.chain(2, 8, 64)
    assert reuse(cost_of(one, {"m": 8, "n": 64}, tiny.machine())) == 0.0
    assert reuse(cost_of(two, {"m": 8, "n": 64}, tiny.machine())) == 0.5


def test_a_contraction_asks_for_its_operands_once_a_native_block() -> None:
    # 40 x 40 x 32 on 16 x 16 blocks: A for each of 3 column blocks, B for each of 3 row blocks, C once.
    lowered = tiny.gemm(40, 40, 32)
    asked = requested_bytes(lowered.ops[0], lowered, tiny.machine())
    assert asked == 3 * 40 * 32 + 3 * 32 * 40 + 40 * 40


def test_a_convolution_asks_for_its_window_but_not_for_padding() -> None:
    # 1 channel to 1 feature, 4 x 4, window 3, padding 1: taps in range on one axis: 2 + 3 + 3 + 2 = 10 of 12.
    conv = tiny.convolution("conv", "x", "w", "y", 1, 1, 4)
    lowered = tiny.world([conv], {"x": (1, 4, 4), "w": (1, 1, 3, 3), "y": (1, 4, 4)}, weights=["w"])
    asked = requested_bytes(conv, lowered, tiny.machine())
    assert asked == 10 * 10 + 1 * 9 + 16  # 16 positions are one native row block: the weights once


def test_a_bias_is_asked_for_at_every_row() -> None:
    lowered = tiny.gemm_bias_relu(8, 32, 16)
    asked = requested_bytes(lowered.ops[1], lowered, tiny.machine(lanes=16))
    assert asked == 8 * 32 + 8 * 32 + 8 * 32


def test_the_bias_of_a_contraction_joins_each_result_block_once() -> None:
    product = tiny.op(
        "gemm", "contraction", {"m": 40, "n": 16, "k": 64}, {"a": "m k", "b": "k n", "v": "n"}, {"c": "m n"},
        reduced="k",
    )  # fmt: skip
    lowered = tiny.world([product], {"a": (40, 64), "b": (64, 16), "v": (16,), "c": (40, 16)})
    asked = requested_bytes(product, lowered, tiny.machine())
    assert asked == 40 * 64 + 3 * 64 * 16 + 3 * 16 + 40 * 16


def test_a_concatenation_asks_for_each_part_once() -> None:
    join = tiny.op("join", "movement", {"m": 4, "n": 8}, {"a": "m n", "b": "m n-3"}, {"t": "m n"})
    lowered = tiny.world([join], {"a": (4, 3), "b": (4, 5), "t": (4, 8)})
    assert requested_bytes(join, lowered, tiny.machine()) == 32 + 32
    cost = cost_of(lowered, {"m": 2, "n": 4}, tiny.machine())
    assert reuse(cost) == 0.0


def test_a_broadcast_copy_asks_for_its_source_once() -> None:
    copy = tiny.op("expand", "movement", {"m": 4, "n": 8}, {"a": ". n"}, {"t": "m n"})
    lowered = tiny.world([copy], {"a": (1, 8), "t": (4, 8)})
    assert requested_bytes(copy, lowered, tiny.machine()) == 8 + 32


def test_a_transposed_read_is_no_view_and_pays_its_short_runs() -> None:
    flip = replace(
        tiny.op("t", "movement", {"i": 8, "j": 8}, {"x": "i j"}, {"y": "i j"}),
        reads=(Access("x", (AxisMap((("j", 1),)), AxisMap((("i", 1),)))),),
    )
    lowered = tiny.world([flip], {"x": (8, 8), "y": (8, 8)})
    cost = cost_of(lowered, {"i": 2, "j": 8}, tiny.machine(half_transfer_bytes=2.0))
    assert cost.dram_bytes == 128
    assert cost.dram_ns == pytest.approx(64 * (2 + 2) / 2 + 64 * (16 + 2) / 16)

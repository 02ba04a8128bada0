"""Each term of the cost model by hand arithmetic; fetch counts against a walk over the tiles."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelmodel import cost_terms as terms
from tests.accelmodel import tiny


def row(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_padding_rounds_up_to_native_blocks() -> None:
    assert terms.padded(row(1, 16, 17, 100), 16).tolist() == [16, 16, 32, 112]


def test_a_contraction_pays_for_full_blocks_in_all_three_dims() -> None:
    # 2 batches of 17 x 8 x 100 on a 16 x 8 x 16 engine: 2 x 32 x 8 x 112
    macs = terms.padded_macs(row(17), row(8), row(100), row(2), (16, 8, 16))
    assert macs.tolist() == [57344]


def test_engine_time_is_flops_over_the_sustained_rate() -> None:
    # 1000 flops at 100 a ns, 80 % sustained, half the clock: 1000 / 40 = 25 ns
    assert terms.engine_ns(row(1000), 100.0, 0.8, 0.5).tolist() == [25.0]


def test_the_tail_wave_counts_as_a_whole_one_and_leaves_cores_idle() -> None:
    assert terms.wave_count(row(8, 9, 1), row(4, 4, 4)).tolist() == [2, 3, 1]
    # 9 tiles in 3 waves of 4 cores: 3 of 12 core-waves idle
    assert terms.idle_share(row(8, 9, 1), row(4, 4, 4)).tolist() == [0.0, 0.25, 0.75]


def test_a_transfer_of_half_size_reaches_half_the_bandwidth() -> None:
    bandwidth = terms.effective_bandwidth(row(100, 100, 100), row(64, 192, 64), 64.0)
    assert bandwidth.tolist() == [50.0, 75.0, 50.0]
    assert terms.effective_bandwidth(row(100), row(1), 0.0).tolist() == [100.0]


def test_few_cores_draw_less_than_the_dram_gives() -> None:
    target = tiny.machine(cores=8, dram_bytes_per_ns=100.0, core_dram_bytes_per_ns=30.0)
    assert terms.dram_peak(target, row(1, 3, 4, 8)).tolist() == [30, 90, 100, 100]


def test_reuse_ends_at_the_innermost_loop_that_moves_the_operand() -> None:
    trips = np.array([[3, 4, 5]])
    assert terms.reuse_span(trips, (0, 1, 2), 0b001).tolist() == [20]  # moved by the outermost loop: 4 x 5 uses
    assert terms.reuse_span(trips, (0, 1, 2), 0b100).tolist() == [1]  # moved by the innermost one
    assert terms.reuse_span(trips, (2, 1, 0), 0b100).tolist() == [12]
    assert terms.reuse_span(trips, (0, 1, 2), 0).tolist() == [60]  # never moved
    assert terms.reuse_span(np.array([[3, 4, 1]]), (0, 1, 2), 0b100).tolist() == [12]  # one trip moves nothing


@settings(max_examples=200, deadline=None)
@given(
    trips=st.tuples(*[st.integers(1, 5)] * 3), mask=st.integers(0, 7), order=st.permutations(range(3)),
    cores=st.integers(1, 6),
)  # fmt: skip
def test_retained_fetches_are_those_of_a_walk_over_the_tiles(
    trips: tuple[int, int, int], mask: int, order: list[int], cores: int
) -> None:
    """Every core takes consecutive tiles and fetches whenever the region changes. Never fewer than the walk; exactly
    as many on one core."""
    regions = [
        tuple(index[order.index(d)] for d in range(3) if mask >> d & 1)
        for index in product(*(range(trips[d]) for d in order))
    ]
    run = -(-len(regions) // cores)
    walked = 0
    for first in range(0, len(regions), run):
        mine = regions[first : first + run]
        walked += 1 + sum(a != b for a, b in pairwise(mine))
    span = terms.reuse_span(np.array([trips]), order, mask)
    counted = terms.retained_fetches(row(len(regions)), row(cores), span)[0]
    assert counted >= walked
    assert counted <= len(regions)
    if cores == 1:
        assert counted == walked


@settings(max_examples=200, deadline=None)
@given(
    trips=st.tuples(*[st.integers(1, 5)] * 3), mask=st.integers(0, 7), order=st.permutations(range(3)),
    cores=st.integers(1, 10),
)  # fmt: skip
def test_a_wave_never_covers_more_regions_than_counted(
    trips: tuple[int, int, int], mask: int, order: list[int], cores: int
) -> None:
    """The first wave of consecutive tiles."""
    indices = list(product(*(range(trips[d]) for d in order)))[:cores]
    seen = {tuple(index[order.index(d)] for d in range(3) if mask >> d & 1) for index in indices}
    covered = terms.wave_coverage(np.array([trips]), order, row(cores))[0]
    counted = np.prod([covered[d] for d in range(3) if mask >> d & 1])
    assert counted >= len(seen)


def test_a_wave_covers_the_inner_loop_first() -> None:
    # 4 x 3 tiles, 6 cores, loop 1 innermost: all 3 of loop 1, and 2 of loop 0
    assert terms.wave_coverage(np.array([[4, 3]]), (0, 1), row(6)).tolist() == [[2, 3]]


def test_cores_of_a_wave_share_what_they_read_from_l2() -> None:
    # 12 tiles on 6 cores, 2 regions a wave of an operand with 4 regions: 2 waves x 2 = 4
    assert terms.shared_fetches(row(12), row(6), row(4), row(2)).tolist() == [4]
    # 3 regions a wave of an operand with 3: fetched again in the second wave
    assert terms.shared_fetches(row(12), row(6), row(3), row(3)).tolist() == [6]


def test_operands_stay_in_l2_smallest_first_until_it_is_full() -> None:
    whole, wave = [row(60), row(30)], [row(10), row(10)]
    assert [bool(kept[0]) for kept in terms.kept_in_l2(whole, wave, 40)] == [False, True]  # 40 - 20 holds 20 more
    assert [bool(kept[0]) for kept in terms.kept_in_l2(whole, wave, 90)] == [True, True]
    assert [bool(kept[0]) for kept in terms.kept_in_l2(whole, wave, 39)] == [False, False]


def test_partial_sums_that_leave_the_chip_come_back_for_every_block_but_the_first() -> None:
    assert terms.partial_sum_spill(row(1, 2, 5)).tolist() == [0, 2, 8]


def test_overlap_hides_all_but_the_slowest_and_one_stage() -> None:
    # 100 ns of work, 60 of transfers: in one stage 160, in four 100 + 60 / 4
    assert terms.overlapped_ns([row(100, 100), row(60, 60)], row(1, 4)).tolist() == [160, 115]
    assert terms.overlapped_ns([row(10), row(30), row(20)], row(10)).tolist() == [33]


def test_every_launch_and_barrier_counts_in_its_mode() -> None:
    target = tiny.machine(launch_ns=100.0, barrier_ns=10.0)
    assert terms.launch_ns(2, target, "host") == 200.0
    assert terms.launch_ns(2, target, "graph") == 20.0
    assert terms.barrier_ns(3, target) == 30.0


def test_the_host_pays_round_trip_link_and_arithmetic() -> None:
    # 1000 ns + 400 bytes at 4 a ns + 60 flops at 2 a ns
    assert terms.fallback_ns(60, 400, tiny.machine()) == 1000 + 100 + 30


@pytest.mark.parametrize(
    ("times", "idle", "spill", "expected"),
    [
        ({"launch": 5.0, "compute": 9.0, "dram": 3.0}, 0.0, 0.0, "compute"),
        ({"launch": 5.0, "compute": 9.0, "dram": 3.0}, 0.6, 0.0, "imbalance"),
        ({"launch": 10.0, "compute": 9.0, "dram": 3.0}, 0.6, 0.0, "launch"),
        ({"compute": 9.0, "dram": 12.0}, 0.0, 0.1, "dram"),  # 10.8 without the spill: still DRAM
        ({"compute": 9.0, "dram": 12.0}, 0.0, 0.3, "spill"),  # 8.4 without it: compute
        ({"compute": 1.0, "dram": 12.0}, 0.0, 0.6, "spill"),  # most of the traffic is spill
        ({"sram": 4.0, "compute": 3.0, "dram": 2.0}, 0.0, 0.0, "sram"),
        ({"sync": 4.0, "launch": 4.0}, 0.0, 0.0, "sync"),  # the first among equals
    ],
)
def test_the_largest_time_names_the_class(times: dict[str, float], idle: float, spill: float, expected: str) -> None:
    assert terms.bottleneck_class(times, idle, spill) == expected

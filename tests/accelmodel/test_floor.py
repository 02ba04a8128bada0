"""Floors that spare fusion tile searches never exceed the cost that the search would find."""

from dataclasses import replace
from itertools import pairwise

import pytest

from accelmodel.compile import FLOORS, group_cost
from accelmodel.floor import bound_floor_ns, tiled_floor_ns
from accelmodel.fuse_optimal import connected_groups
from accelmodel.legality import atom_graph, refusal
from accelmodel.plan import Group, Lowered
from accelmodel.settings import ExecutionSettings, FusionSettings, Settings, TilingSettings
from accelmodel.target import Target
from tests.accelmodel import tiny

MACHINE = tiny.machine(
    cores=4, sram_bytes=8 * 1024, dram_bytes_per_ns=8.0, core_dram_bytes_per_ns=3.0, l2_bytes=1 << 16
)
WORLDS = {
    "gemm": tiny.gemm_bias_relu(64, 48, 80),
    "gemms": tiny.two_gemms(48, 32, 64, 40, gelu=True),
    "convolutions": tiny.two_convolutions(8, 20),
    "attention": tiny.attention(2, 32, 48, 16),
    "diamond": tiny.diamond(64, 64),
}


def legal_groups(lowered: Lowered) -> list[tuple[int, ...]]:
    graph = atom_graph(lowered, FusionSettings())
    return [graph.ops(members) for members in connected_groups(graph, 8, 10_000)[0] if not refusal(graph, members)]


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(tiling=TilingSettings(cores=1, double_buffer=False)),
        Settings(execution=ExecutionSettings(launch_mode="graph", extra_barriers=2, clock_fraction=0.5)),
    ],
)
@pytest.mark.parametrize("target", [MACHINE, replace(MACHINE, cores=64, l2=None)])
def test_no_floor_exceeds_the_cost_of_the_best_tile(name: str, settings: Settings, target: Target) -> None:
    lowered = WORLDS[name]
    cost = group_cost(lowered, target, settings)
    for ops in legal_groups(lowered):
        group = Group("tried", ops)
        floors = [floor(lowered, group, target, settings.tiling, settings.execution) for floor in FLOORS]
        ladder = [*floors, cost(ops)]
        assert all(lower <= higher * (1 + 1e-9) for lower, higher in pairwise(ladder)), (ops, ladder)


def test_a_chain_that_no_cut_divides_is_floored_at_the_speed_of_one_core() -> None:
    # The second product needs all columns of the first and the first all of its rows: rows alone may be cut, here 1.
    lowered = tiny.two_gemms(1, 64, 4096, 64)
    target = replace(MACHINE, cores=64)
    group = tiny.everything(lowered)
    settings = Settings()
    flops = sum(op.flops for op in lowered.ops)
    floor = tiled_floor_ns(lowered, group, target, settings.tiling, settings.execution)
    assert floor >= flops / 512.0  # 2 x 256 multiply-accumulates a ns on one core, not on 64
    assert floor > bound_floor_ns(lowered, group, target, settings.tiling, settings.execution)


def test_views_cost_nothing_and_fallback_ops_their_own_price() -> None:
    ops = [
        tiny.op("v", "view", {"m": 8}, {"x": "m"}, {"y": "m"}),
        tiny.op("f", "fallback", {"m": 8}, {"y": "m"}, {"z": "m"}),
    ]
    lowered = tiny.world(ops, dict.fromkeys("xyz", (8,)))
    cost, settings = group_cost(lowered, MACHINE, Settings()), Settings()
    for floor in FLOORS:
        assert floor(lowered, Group("v", (0,)), MACHINE, settings.tiling, settings.execution) == cost((0,)) == 0.0
        assert floor(lowered, Group("f", (1,)), MACHINE, settings.tiling, settings.execution) == cost((1,)) > 0.0

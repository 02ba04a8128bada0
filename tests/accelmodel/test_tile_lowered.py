"""Regions, tiles and bounds of what the real lowering makes, on blocks small enough to enumerate."""

from pathlib import Path

import numpy as np
import pytest

from accelmodel.boundary import boundary, storage_of
from accelmodel.bounds import bound
from accelmodel.cost import kernel_cost
from accelmodel.fuse import fuse
from accelmodel.generate import write_model
from accelmodel.importers.onnx import read_graph
from accelmodel.lower import lower
from accelmodel.plan import Group, Lowered, TilePlan
from accelmodel.regions import make_tiles, nest_of, propagate, tile_elements
from accelmodel.settings import ExecutionSettings, FusionSettings, LoweringSettings, TilingSettings
from accelmodel.tile import needs_tiles, tile_group
from tests.accelmodel import brute, tiny

TARGET = tiny.machine(cores=2, native=(4, 4, 4), lanes=4, sram_bytes=4096, l2_bytes=8192)
PLAIN = ExecutionSettings()


def lowered_block(folder: Path, kind: str) -> Lowered:
    if kind == "transformer_block":
        sizes = {"hidden": 8, "heads": 2, "feed_forward": 16}
        path, shapes = write_model(kind, folder / "block.onnx", **sizes), {"batch": 2, "sequence": 4}
    else:
        path, shapes = write_model(kind, folder / "block.onnx", channels=8, size=6, blocks=1, stride=2), {"batch": 1}
    return lower(read_graph(path, shapes), LoweringSettings(), TARGET)


@pytest.fixture(scope="module", params=["transformer_block", "convolution_block"])
def block(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lowered:
    return lowered_block(tmp_path_factory.mktemp("block"), request.param)


def groups(block: Lowered, policy: str) -> list[Group]:
    grouping = fuse(block, FusionSettings(policy=policy), lambda ops: 100.0 + len(ops))
    return [group for group in grouping.groups if needs_tiles(block, group)]


@pytest.mark.parametrize("policy", ["none", "pattern", "aggressive"])
def test_no_tile_touches_more_than_its_regions(block: Lowered, policy: str) -> None:
    for group in groups(block, policy):
        nest = nest_of(boundary(block, group))
        sizes = [max(1, n // 2) if cut else n for n, cut in zip(nest.sizes, nest.tileable, strict=True)]
        regions = propagate(nest, make_tiles(nest, np.array([sizes], np.int64).reshape(1, len(sizes)), None))
        root = group.ops[nest.edge.root]
        tile = dict(zip(nest.dims, sizes, strict=True))
        counted: dict[str, float] = {}
        for step in regions.reads:
            for access, touch in regions.reads[step]:
                held = tile_elements(touch, 1)[0]
                counted[access.tensor] = counted.get(access.tensor, 0.0) + held
        for box in brute.tiles(block.ops[root], tile):
            reads, makes = brute.touched(block, group, root, box)
            for tensor, elements in reads.items():
                assert len(elements) <= counted[tensor], (group.name, tensor)
            for tensor, elements in makes.items():
                held = tile_elements(regions.makes[storage_of(block, tensor)], 1)[0]
                assert len(elements) <= held, (group.name, tensor)


@pytest.mark.parametrize("policy", ["none", "pattern", "aggressive"])
@pytest.mark.parametrize("double_buffer", [False, True])
def test_every_group_is_tiled_within_its_bounds(block: Lowered, policy: str, double_buffer: bool) -> None:
    for group in groups(block, policy):
        plan = tile_group(block, group, TARGET, TilingSettings(double_buffer=double_buffer), PLAIN)
        assert isinstance(plan, TilePlan), group.name
        cost, least = kernel_cost(block, group, plan, TARGET, PLAIN), bound(block, group, TARGET)
        assert cost.dram_bytes >= least.dram_bytes, group.name
        assert cost.busy_ns >= least.latency_ns, group.name
        assert cost.padded_flops >= cost.flops, group.name
        assert cost.spill_bytes <= cost.dram_bytes, group.name


def test_unfused_ops_ask_for_at_least_what_they_move(block: Lowered) -> None:
    """Alone, with room for everything and caches that share, no op moves more than it asks for."""
    roomy = tiny.machine(native=(4, 4, 4), lanes=4, sram_bytes=1 << 24)
    for group in groups(block, "none"):
        plan = tile_group(block, group, roomy, TilingSettings(double_buffer=False), PLAIN)
        assert isinstance(plan, TilePlan)
        cost = kernel_cost(block, group, plan, roomy, PLAIN)
        assert cost.dram_bytes <= cost.requested_bytes, group.name

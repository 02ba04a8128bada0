"""How fusion can win alone and lose in a burst: a fused chain that is faster by itself and moves more bytes.

Under double buffering a compute-bound kernel hides its traffic, so the launch that fusion saves makes it faster alone.
But the fused chain holds whole rows of its result in partial sums: its row tiles are smaller or spill, and the weights
pass by more often. When other requests ask for DRAM too, that traffic is what is slow.
"""

import pytest

from accelmodel.cost import kernel_cost
from accelmodel.plan import Group, KernelCost, Lowered, TilePlan
from accelmodel.settings import ExecutionSettings, TilingSettings
from accelmodel.target import Target
from accelmodel.tile import tile_group
from tests.accelmodel import tiny

ONE_CORE = TilingSettings(cores=1)


def npu(dram_bytes_per_ns: float = 34.0) -> Target:
    """Sixteen cores of 1 MiB that share one DRAM, one core a request."""
    return tiny.machine(
        cores=16, macs_per_ns=256.0, sram_bytes=1 << 20, accumulator_bytes=1 << 16, dram_bytes_per_ns=dram_bytes_per_ns,
        launch_ns=10_000.0, barrier_ns=1000.0, lanes=64, sram_bytes_per_ns=128.0,
    )  # fmt: skip


def feed_forward(rows: int, width: int) -> tuple[Lowered, Group, tuple[Group, Group]]:
    """width -> 4 width -> width: as one kernel, and as two (the activation with the first)."""
    block = tiny.two_gemms(rows, width, 4 * width, width, gelu=True, dtype="float16", accumulator="float32")
    return block, tiny.everything(block), (Group("first", (0, 1)), tiny.alone(2))


def planned(lowered: Lowered, group: Group) -> TilePlan:
    plan = tile_group(lowered, group, npu(), ONE_CORE, ExecutionSettings())
    assert isinstance(plan, TilePlan)
    return plan


def fused_and_not(rows: int, width: int, *, tenants: int = 1) -> tuple[KernelCost, tuple[KernelCost, ...]]:
    """Costs of the plans made for a machine of one's own, with this many tenants sharing its DRAM evenly."""
    block, fused, parts = feed_forward(rows, width)
    target = npu(34.0 / tenants)
    costs = [kernel_cost(block, g, planned(block, g), target, ExecutionSettings()) for g in (fused, *parts)]
    return costs[0], tuple(costs[1:])


@pytest.mark.parametrize(("rows", "width"), [(512, 768), (512, 1024), (1024, 1024)])
def test_a_fused_block_is_faster_alone_and_moves_far_more_bytes(rows: int, width: int) -> None:
    fused, parts = fused_and_not(rows, width)
    assert fused.total_ns < sum(part.total_ns for part in parts)
    assert fused.dram_bytes > 1.3 * sum(part.dram_bytes for part in parts)
    assert fused.bottleneck == "compute"  # alone nothing of it shows


@pytest.mark.parametrize(("rows", "width"), [(512, 768), (512, 1024), (1024, 1024)])
def test_among_sixteen_tenants_the_same_fused_block_is_the_slower_one(rows: int, width: int) -> None:
    fused, parts = fused_and_not(rows, width, tenants=16)
    assert fused.total_ns > 1.1 * sum(part.total_ns for part in parts)
    assert fused.bottleneck in ("dram", "spill")


@pytest.mark.parametrize(("rows", "width"), [(128, 512), (256, 512), (512, 256)])
def test_where_the_working_set_fits_fusion_saves_both(rows: int, width: int) -> None:
    fused, parts = fused_and_not(rows, width)
    assert fused.total_ns < sum(part.total_ns for part in parts)
    assert fused.dram_bytes < sum(part.dram_bytes for part in parts)
    assert fused.spill_bytes == 0

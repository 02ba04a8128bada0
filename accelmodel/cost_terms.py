"""The terms of the cost model, one small formula each. Arrays are [C], one entry a candidate; floats work as well.

Units are in the names: ns, bytes, bytes_per_ns, flops (2 x multiply-accumulates). Terms that sum over a kernel say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from accelmodel.target import Target

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# --- engines ---


def padded(extent: FloatArray, native: int) -> FloatArray:
    """Extent rounded up to whole native blocks: ceil(e / n) n. An engine spends a full block on a partial one."""
    return np.ceil(extent / native) * native


def padded_macs(
    m: FloatArray, n: FloatArray, k: FloatArray, batch: FloatArray, native: tuple[int, int, int]
) -> FloatArray:
    """Iteration points of a contraction with m, n and k padded to the engine's native block, for each of `batch`."""
    return batch * padded(m, native[0]) * padded(n, native[1]) * padded(k, native[2])


def engine_ns(flops: FloatArray, flops_per_ns: float, efficiency: float, clock_fraction: float) -> FloatArray:
    """Time of one core's engine: flops / (peak x sustained share x share of the clock that is left)."""
    return flops / (flops_per_ns * efficiency * clock_fraction)


def wave_count(tiles: FloatArray, cores: FloatArray) -> FloatArray:
    """Rounds in which `cores` cores work off `tiles` tiles, the tail wave included: ceil(tiles / cores)."""
    return np.ceil(tiles / cores)


def idle_share(tiles: FloatArray, cores: FloatArray) -> FloatArray:
    """Share of core time that the tail wave leaves idle: 1 - tiles / (waves x cores)."""
    idle: FloatArray = 1.0 - tiles / (wave_count(tiles, cores) * cores)
    return idle


# --- transfers ---


def effective_bandwidth(peak_bytes_per_ns: FloatArray, run_bytes: FloatArray, half_transfer_bytes: float) -> FloatArray:
    """Bandwidth reached by contiguous runs: peak x s / (s + half), the latency-bandwidth model (Hockney's n_1/2)."""
    return peak_bytes_per_ns * run_bytes / (run_bytes + half_transfer_bytes)


def dram_peak(target: Target, cores: FloatArray) -> FloatArray:
    """DRAM bandwidth open to a kernel on `cores` cores: the device's, or what the cores can draw, bytes/ns."""
    return np.minimum(target.dram.bandwidth_bytes_per_ns, cores * target.core_dram_bytes_per_ns)


def reuse_span(trips: IntArray, loops: Sequence[int], mask: int) -> FloatArray:
    """Consecutive tiles that use the same region of an operand. trips: [C, loops]; loops: outermost first.

    The product of the trips of the loops inside the innermost one that the operand depends on (bit set in `mask`);
    loops of one trip change nothing.
    """
    span = np.ones(len(trips))
    inside = np.ones(len(trips), np.bool_)
    for loop in reversed(loops):
        if mask >> loop & 1:
            inside &= trips[:, loop] <= 1
        else:
            span = np.where(inside, span * trips[:, loop], span)
    return span


def retained_fetches(tiles: FloatArray, cores: FloatArray, span: FloatArray) -> FloatArray:
    """Region fetches of all cores where each keeps a region for `span` consecutive tiles.

    Each core works off ceil(tiles / cores) consecutive tiles. A run that neither divides the span nor is a multiple of
    it may begin inside one, which costs one more fetch. Never more than one a tile.
    """
    run = np.ceil(tiles / cores)
    straddles = (np.mod(run, span) > 0) & (np.mod(span, run) > 0)
    fetches: FloatArray = np.minimum(tiles, cores * (np.ceil(run / span) + straddles))
    return fetches


def wave_coverage(trips: IntArray, loops: Sequence[int], cores: FloatArray) -> FloatArray:
    """Distinct indices that one wave of consecutive tiles covers on each loop. [C, loops]

    A wave of w tiles covers min(trips, w) of the innermost loop, then the rest, rounded up, of the next one out.
    """
    covered = np.ones(trips.shape)
    left = cores.astype(np.float64)
    for loop in reversed(loops):
        covered[:, loop] = np.minimum(trips[:, loop], left)
        left = np.ceil(left / trips[:, loop])
    return covered


def shared_fetches(tiles: FloatArray, cores: FloatArray, regions: FloatArray, distinct: FloatArray) -> FloatArray:
    """Region fetches from DRAM where the cores of a wave share one L2: `distinct` regions a wave, at least each of
    `regions` once, at most one a tile."""
    return np.maximum(regions, np.minimum(tiles, distinct * tiles / cores))


def kept_in_l2(
    whole_bytes: Sequence[FloatArray], wave_bytes: Sequence[FloatArray], capacity_bytes: int
) -> list[BoolArray]:
    """Which operands stay in L2 from wave to wave: all share it with one wave of every operand; what is left holds
    whole operands, smallest first."""
    free = float(capacity_bytes) - np.sum(np.array(wave_bytes), axis=0)
    kept: dict[int, BoolArray] = {}
    for i in sorted(range(len(whole_bytes)), key=lambda i: (float(np.min(whole_bytes[i])), i)):
        more = np.maximum(whole_bytes[i] - wave_bytes[i], 0.0)
        kept[i] = more <= free
        free = np.where(kept[i], free - more, free)
    return [kept[i] for i in range(len(whole_bytes))]


def partial_sum_spill(blocks: FloatArray) -> FloatArray:
    """DRAM bytes moved for each byte of partial sums that does not stay on chip, in one tile: 2 (blocks - 1). The first
    block starts from zero, and the last writes the result itself."""
    return 2.0 * np.maximum(blocks - 1.0, 0.0)


# --- time of a kernel ---


def overlapped_ns(parts_ns: Sequence[FloatArray], stages: FloatArray) -> FloatArray:
    """Resources that work on successive stages at once: the slowest, plus one stage of each other to fill and drain.

    max + (sum - max) / stages. One stage (no double buffering, or one block in all): the plain sum.
    """
    slowest = np.maximum.reduce(list(parts_ns))
    total = np.add.reduce(list(parts_ns))
    busy: FloatArray = slowest + (total - slowest) / stages
    return busy


def launch_ns(launches: int, target: Target, mode: str) -> float:
    """Host time of all launches, hidden or not, in launch mode `host` or `graph`."""
    return launches * target.launch_ns(mode)


def barrier_ns(barriers: int, target: Target) -> float:
    """Fixed cost of device-wide barriers; every launch ends in one."""
    return barriers * target.barrier_ns


def fallback_ns(flops: int, moved_bytes: int, target: Target) -> float:
    """An op on the host: round trip + operands and results over the host link + arithmetic."""
    transfer_ns = moved_bytes / target.host_bytes_per_ns
    return target.fallback_launch_ns + transfer_ns + flops / target.host_flops_per_ns


def bottleneck_class(times_ns: Mapping[str, float], idle: float, spill_share: float) -> str:
    """The class that explains most of a kernel alone on the machine.

    times_ns: launch, sync, fallback, compute, sram and dram; the largest wins, the first among equals. Compute is
    `imbalance` where the tail wave leaves more than half of the core time idle. DRAM is `spill` where it would not be
    the largest without the spilled share of its bytes, or where most of its bytes are spill. `queue` needs traffic:
    a kernel alone never waits.
    """
    first = max(times_ns, key=lambda name: times_ns[name])
    if first == "compute" and idle > 0.5:
        return "imbalance"
    if first != "dram" or spill_share <= 0:
        return first
    others = max((time for name, time in times_ns.items() if name != "dram"), default=0.0)
    unspilled_ns = times_ns["dram"] * (1.0 - spill_share)
    return "spill" if unspilled_ns < others or spill_share > 0.5 else "dram"

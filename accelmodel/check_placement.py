"""Independent checker of placements: no overlap, aligned, below the capacity, figures as they must be. See check.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from accelmodel.plan import Buffer, Placement


def check_placement(placement: Placement, alignment_bytes: int = 1) -> tuple[str, ...]:
    """No two buffers in one place at one time, all aligned and below the capacity, and the figures as they must be."""
    return tuple(
        f"placement: group {placement.group}: {text}" for text in placement_problems(placement, alignment_bytes)
    )


def placement_problems(placement: Placement, alignment_bytes: int) -> Iterator[str]:
    for item in placement.placed:
        name, top = item.buffer.name, item.offset_bytes + item.buffer.size_bytes
        if item.offset_bytes < 0 or item.offset_bytes % alignment_bytes:
            yield f"buffer {name} at {item.offset_bytes}: expected a multiple of {alignment_bytes}, 0 or more"
        if top > placement.capacity_bytes:
            yield f"buffer {name} ends at {top}, above the capacity of {placement.capacity_bytes}"
        if item.buffer.size_bytes < 0 or item.buffer.end < item.buffer.start:
            yield f"buffer {name}: size {item.buffer.size_bytes}, lifetime {item.buffer.start} to {item.buffer.end}"
    for a, b in combinations(placement.placed, 2):
        together = max(a.buffer.start, b.buffer.start) < min(a.buffer.end, b.buffer.end)
        low = max(a.offset_bytes, b.offset_bytes)
        high = min(a.offset_bytes + a.buffer.size_bytes, b.offset_bytes + b.buffer.size_bytes)
        if together and low < high:
            yield f"buffers {a.buffer.name} and {b.buffer.name} share bytes {low} to {high} while both live"
    yield from _placement_figures(placement)


def _placement_figures(placement: Placement) -> Iterator[str]:
    tops = [item.offset_bytes + item.buffer.size_bytes for item in placement.placed]
    if placement.height_bytes != max(tops, default=0):
        yield f"height {placement.height_bytes}, but the highest buffer ends at {max(tops, default=0)}"
    kept = peak_bytes([item.buffer for item in placement.placed])
    everything = peak_bytes([*(item.buffer for item in placement.placed), *placement.spilled])
    if placement.lower_bound_bytes != everything:
        yield f"lower bound {placement.lower_bound_bytes}, but {everything} bytes live at once"
    if placement.height_bytes < kept:
        yield f"height {placement.height_bytes} is below the {kept} bytes that live at once"
    if placement.placement_spill_bytes < 0 or (placement.placement_spill_bytes and not placement.spilled):
        yield f"spill traffic of {placement.placement_spill_bytes} bytes with {len(placement.spilled)} buffers spilled"
    if placement.spilled and everything <= placement.capacity_bytes and not placement.placement_spill_bytes:
        yield "buffers are spilled and nothing is charged for them"


def peak_bytes(buffers: list[Buffer]) -> int:
    """The most bytes live at one step, counted step by step."""
    steps = {b.start for b in buffers}
    return max((sum(b.size_bytes for b in buffers if b.start <= step < b.end) for step in steps), default=0)

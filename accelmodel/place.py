"""Placement: where each buffer of a kernel lies in a core's SRAM.

Lifetimes are half-open, so a buffer may take the place of one that ends when it starts. Greedy: buffers are taken in
some order, each at the lowest aligned offset that is free during its whole life; of several orders the lowest wins.

What finds no place below the capacity is spilled: it lives in DRAM and is written and read once a tile. Which ones, by
rule: blocks that stream in and results on their way out are placed first, since without them nothing moves; of the
others, of all the greedy orders, the choice that spills the fewest bytes. Where the tile search has already counted
overflow in its own traffic, only what goes beyond that is charged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from accelmodel.errors import InputError
from accelmodel.plan import Buffer, PlacedBuffer, Placement
from accelmodel.settings import PlacementSettings

# Greedy orders; all keep the given order among equals.
ORDERS: dict[str, Callable[[Buffer], tuple[int, ...]]] = {
    "size": lambda buffer: (-buffer.size_bytes,),
    "lifetime": lambda buffer: (buffer.start - buffer.end, -buffer.size_bytes),
    "area": lambda buffer: (-buffer.size_bytes * (buffer.end - buffer.start),),
    "start": lambda buffer: (buffer.start, -buffer.size_bytes),
}
_MOVING = ("stream", "output")


def place(
    buffers: tuple[Buffer, ...],
    capacity_bytes: int,
    alignment_bytes: int,
    settings: PlacementSettings,
    group: str,
    tiles: int,
    counted_spill_bytes: int = 0,
) -> Placement:
    """Offsets below capacity minus `reserve_bytes` for all buffers that fit; the rest is spilled.

    tiles: how often the kernel goes through its buffers; a spilled buffer costs 2 x size x tiles bytes of DRAM traffic.
    counted_spill_bytes: spill traffic that the tile plan already counts; it is not charged twice.
    Raises InputError for an unknown order.
    """
    room_bytes = max(0, capacity_bytes - settings.reserve_bytes)
    orders = _orders(settings)
    attempts = [(name, _greedy(sorted(buffers, key=ORDERS[name]), alignment_bytes, None)) for name in orders]
    method, placed = min(attempts, key=lambda attempt: _height(attempt[1]))
    if _height(placed) > room_bytes:
        method, placed = _within(buffers, room_bytes, alignment_bytes, orders)
    spilled = _left_out(buffers, placed)
    traffic_bytes = 2 * tiles * sum(buffer.size_bytes for buffer in spilled)
    return Placement(
        group=group,
        placed=tuple(sorted(placed, key=lambda item: (item.buffer.start, item.offset_bytes, item.buffer.name))),
        spilled=spilled,
        height_bytes=_height(placed),
        capacity_bytes=room_bytes,
        lower_bound_bytes=peak_live_bytes(buffers),
        placement_spill_bytes=max(0, traffic_bytes - counted_spill_bytes),
        method=method,
    )


def peak_live_bytes(buffers: Iterable[Buffer]) -> int:
    """The most bytes that are live at one step: no placement of all buffers is lower."""
    changes = sorted(
        change for b in buffers if b.end > b.start for change in ((b.start, 1, b.size_bytes), (b.end, 0, -b.size_bytes))
    )  # what ends at a step makes room before what starts there
    live = peak = 0
    for _, _, bytes_more in changes:
        live += bytes_more
        peak = max(peak, live)
    return peak


def _orders(settings: PlacementSettings) -> tuple[str, ...]:
    if settings.order == "best":
        return tuple(ORDERS)
    if settings.order not in ORDERS:
        raise InputError(
            stage="placement", where="order", expected=f"best or one of {', '.join(ORDERS)}",
            found=repr(settings.order), remedy="Name one of these orders.",
        )  # fmt: skip
    return (settings.order,)


def _within(
    buffers: tuple[Buffer, ...], room_bytes: int, alignment_bytes: int, orders: tuple[str, ...]
) -> tuple[str, list[PlacedBuffer]]:
    """The order that spills the fewest bytes, then the lowest; streamed blocks and results come first in each."""
    attempts = []
    for name in orders:
        key = ORDERS[name]
        ranked = sorted(buffers, key=lambda buffer, key=key: (buffer.role not in _MOVING, *key(buffer)))  # type: ignore[misc]
        attempts.append((f"{name}, moving first", _greedy(ranked, alignment_bytes, room_bytes)))
    return min(attempts, key=lambda attempt: (-_placed_bytes(attempt[1]), _height(attempt[1])))


def _greedy(ranked: list[Buffer], alignment_bytes: int, room_bytes: int | None) -> list[PlacedBuffer]:
    """Each buffer at the lowest free offset, in the given order; those that would end above the room are left out."""
    placed: list[PlacedBuffer] = []
    for buffer in ranked:
        offset = _lowest_offset(buffer, placed, alignment_bytes)
        if room_bytes is None or offset + buffer.size_bytes <= room_bytes:
            placed.append(PlacedBuffer(buffer, offset))
    return placed


def _lowest_offset(buffer: Buffer, placed: list[PlacedBuffer], alignment_bytes: int) -> int:
    neighbours = sorted(
        (item.offset_bytes, item.buffer.size_bytes)
        for item in placed
        if item.buffer.start < buffer.end and buffer.start < item.buffer.end
    )
    offset = 0
    for start_bytes, size_bytes in neighbours:
        if offset + buffer.size_bytes <= start_bytes:
            break
        offset = max(offset, -(-(start_bytes + size_bytes) // alignment_bytes) * alignment_bytes)
    return offset


def _left_out(buffers: tuple[Buffer, ...], placed: list[PlacedBuffer]) -> tuple[Buffer, ...]:
    left = list(buffers)
    for item in placed:
        left.remove(item.buffer)
    return tuple(left)


def _height(placed: Iterable[PlacedBuffer]) -> int:
    return max((item.offset_bytes + item.buffer.size_bytes for item in placed), default=0)


def _placed_bytes(placed: Iterable[PlacedBuffer]) -> int:
    return sum(item.buffer.size_bytes for item in placed)

"""Settings of a side against what they are for: the target, the streams of the traffic, the ops of the models. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from accelmodel.graph import Graph
from accelmodel.target import Target
from schemas.candidate import SIDES, Candidate, Side
from schemas.errors import DocumentError

_BY_STREAM = ("priority", "weight", "deadline_us")
_MOST_NAMES = 10

Lines = Mapping[tuple[str | int, ...], int]


def require_target(document: Candidate, target: Target, source: str, lines: Lines) -> None:
    """DocumentError where a side withholds all memory of the target, or asks for more cores than it has."""
    for side in SIDES:
        settings = _side(document, side).settings
        limits = (
            ("placement", "reserve_bytes", settings.placement.reserve_bytes, target.sram.capacity_bytes - 1,
             f"less than the {target.sram.capacity_bytes:,} bytes of on-chip memory"),
            ("tiling", "cores", settings.tiling.cores, target.cores, f"at most the {target.cores:,} cores"),
        )  # fmt: skip
        for stage, field, value, most, said in limits:
            if value > most:
                where = (side, "settings", stage, field)
                raise DocumentError(
                    source=source, where=".".join(where), line=lines.get(where), found=f"{value:,}",
                    expected=f"{said} of target {target.name}", remedy="Give a smaller number, or another target.",
                )  # fmt: skip


def require_same_iterations(document: Candidate, most: int, source: str, lines: Lines) -> tuple[str, ...]:
    """What is to be said where requests have up to `most` iterations and no side runs them; DocumentError where one
    side runs them and the other does not, since the other would do less work for the same requests."""
    kinds = {side: _side(document, side).settings.scheduling.batching for side in SIDES}
    without = [side for side in SIDES if kinds[side] != "iteration"]
    if most <= 1 or not without:
        return ()
    if len(without) == len(SIDES):
        return (f"Requests have up to {most:,} iterations; only batching `iteration` runs them, each side runs one.",)
    where = (without[0], "settings", "scheduling", "batching")
    raise DocumentError(
        source=source, where=".".join(where), line=lines.get(where), found=repr(kinds[without[0]]),
        expected=f"batching `iteration`, as on the other side: requests have up to {most:,} iterations",
        remedy="Give both sides batching: iteration, or traffic without iterations.",
    )  # fmt: skip


def require_streams(document: Candidate, streams: Sequence[str], source: str, lines: Lines) -> None:
    """DocumentError where a side's scheduling names a stream that the traffic does not have."""
    for side in SIDES:
        scheduling = _side(document, side).settings.scheduling
        for field in _BY_STREAM:
            unknown = sorted(set(getattr(scheduling, field)) - set(streams))
            if unknown:
                where = (side, "settings", "scheduling", field, unknown[0])
                raise DocumentError(
                    source=source, where=".".join(where), line=lines.get(where), found=repr(unknown[0]),
                    expected=f"a stream of the traffic: {_listed(streams)}", remedy=_nearest(unknown[0], streams),
                )  # fmt: skip


def unused_no_kernel(document: Candidate, graphs: Iterable[Graph]) -> tuple[str, ...]:
    """A sentence for each name under `no_kernel` that no op of any workload has."""
    known = sorted({op.op_type for graph in graphs for op in graph.ops})
    return tuple(
        f"{side}: lowering.no_kernel names {name!r}, an op type that no workload has, so it changes nothing. "
        f"{_nearest(name, known)}"
        for side in SIDES
        for name in _side(document, side).settings.lowering.no_kernel
        if name not in known
    )


def _side(document: Candidate, side: str) -> Side:
    found: Side = getattr(document, side)
    return found


def _nearest(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Name one of: {_listed(known)}."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" if names[_MOST_NAMES:] else "")

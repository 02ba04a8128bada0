"""Independent checker of timelines: lanes are tiled, work follows its launch, bytes are conserved. See check.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from accelmodel.plan import Plan
from accelmodel.target import Target

_WHERE = {"launch": "host", "fallback": "host", "kernel": "slot", "barrier": "slot"}


class Event(Protocol):
    """What a timeline's event must say: a stretch [start_ps, end_ps) of one lane, `host N` or `slot N` of plan N."""

    @property
    def lane(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def start_ps(self) -> int: ...
    @property
    def end_ps(self) -> int: ...
    @property
    def dram_bytes(self) -> int: ...


def check_timeline(
    events: Sequence[Event], span_ps: int, plans: Sequence[Plan] = (), target: Target | None = None
) -> tuple[str, ...]:
    """Each lane tiles [0, span) without overlap; work is on its kind of lane, after its launch, each kernel directly
    followed by its barrier. With plans: all their kernels, in order, their bytes. With a target: no more bytes than its
    DRAM carries in the time."""
    lanes: dict[str, list[Event]] = {}
    for event in events:
        lanes.setdefault(event.lane, []).append(event)
    problems = [text for name, lane in lanes.items() for text in _lane_problems(name, lane, span_ps)]
    numbers = sorted({int(name.split()[1]) for name in lanes})
    for number in numbers:
        work = [e for kind in ("host", "slot") for e in lanes.get(f"{kind} {number}", ())]
        problems += _order_problems(number, sorted(work, key=lambda e: (e.start_ps, e.end_ps)))
    for number, plan in enumerate(plans):
        work = [e for kind in ("host", "slot") for e in lanes.get(f"{kind} {number}", ())]
        problems += _plan_problems(number, sorted(work, key=lambda e: (e.start_ps, e.end_ps)), plan)
    if target is not None:
        problems += _bandwidth_problems(events, span_ps, target)
    return tuple(f"timeline: {text}" for text in problems)


def _lane_problems(name: str, lane: list[Event], span_ps: int) -> Iterator[str]:
    reached = 0
    for event in sorted(lane, key=lambda e: (e.start_ps, e.end_ps)):
        if event.start_ps != reached:
            what = "overlaps" if event.start_ps < reached else "leaves a gap after"
            yield f"lane {name}: {event.kind} {event.group} at {event.start_ps} ps {what} what ends at {reached} ps"
        if event.end_ps < event.start_ps:
            yield f"lane {name}: {event.kind} {event.group} ends before it starts"
        if event.kind != "idle" and not name.startswith(_WHERE.get(event.kind, "?")):
            yield f"lane {name}: {event.kind} {event.group} does not belong on this lane"
        reached = max(reached, event.end_ps)
    if reached != span_ps:
        yield f"lane {name} ends at {reached} ps, the timeline at {span_ps} ps"


def _order_problems(number: int, work: list[Event]) -> Iterator[str]:
    launched = {event.group: event.end_ps for event in work if event.kind == "launch"}
    ended = {event.group: event.end_ps for event in work if event.kind in ("kernel", "fallback")}
    for event in work:
        if event.kind in ("kernel", "fallback") and event.start_ps < launched.get(event.group, 0):
            yield f"plan {number}: {event.group} starts at {event.start_ps} ps, before its launch ends"
        if event.kind == "barrier" and event.start_ps != ended.get(event.group):
            yield f"plan {number}: the barrier of {event.group} does not follow its kernel"


def _plan_problems(number: int, work: list[Event], plan: Plan) -> Iterator[str]:
    ran = [event.group for event in work if event.kind in ("kernel", "fallback")]
    busy = {kernel.group.name: kernel.cost for kernel in plan.kernels if kernel.cost.busy_ns or kernel.cost.dram_bytes}
    if ran != list(busy):
        yield f"plan {number}: ran {len(ran)} kernels, not the {len(busy)} of the plan in their order"
        return
    moved = sum(event.dram_bytes for event in work)
    if moved != plan.dram_bytes:
        yield f"plan {number}: moved {moved} bytes, the plan says {plan.dram_bytes}"
    for event in work:
        if (
            event.kind in ("kernel", "fallback")
            and event.end_ps - event.start_ps < 1000 * busy[event.group].busy_ns - 1
        ):
            yield f"plan {number}: {event.group} takes less time than alone on the machine"


def _bandwidth_problems(events: Sequence[Event], span_ps: int, target: Target) -> Iterator[str]:
    per_ps = target.dram.bandwidth_bytes_per_ns / 1000
    moved = sum(event.dram_bytes for event in events)
    if moved > per_ps * (span_ps + 1):
        yield f"{moved} bytes in {span_ps} ps are more than DRAM carries"
    for event in events:
        took_ps = event.end_ps - event.start_ps
        if event.dram_bytes > per_ps * (took_ps + 1):
            yield f"{event.group} moves {event.dram_bytes} bytes in {took_ps} ps: more than DRAM carries"

"""Timeline: when each launch, kernel and barrier of a plan runs, alone on the machine or beside other plans.

The rules are the runtime model's. The host issues launches back to back; a kernel starts when it is issued and the
kernel before it, with its barrier, has ended; kernels of several plans that run at the same moment share DRAM
bandwidth max-min; an op of the kind `fallback` runs on the host, which issues nothing meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accelmodel.errors import InputError
from accelmodel.plan import Plan
from accelmodel.program import PS_PER_NS, Program, program, within_dram
from accelmodel.settings import ExecutionSettings
from accelmodel.sharing import max_min_level
from accelmodel.target import Target

EVENT_KINDS = ("launch", "kernel", "barrier", "fallback", "idle")
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Event:
    """One stretch of time on one lane, [start_ps, end_ps).

    Invariants of a timeline. The events of a lane, in order, tile [0, span): none overlap, nothing is left out, and
    what is not work is `idle`; so busy + idle = span on every lane. kind: one of EVENT_KINDS. `launch` and `fallback`
    are on a `host` lane, `kernel` and `barrier` on a `slot` lane, `idle` on both. Every kernel and fallback starts no
    earlier than its group's launch ends; kernels of a slot are in plan order, each directly followed by its barrier if
    that takes time. dram_bytes: bytes moved, 0 but for `kernel` and `fallback`; their sum over a plan's lanes is the
    plan's. group: name of the group, "" for idle.
    """

    lane: str
    kind: str
    name: str
    group: str
    start_ps: int
    end_ps: int
    dram_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Events by lane, then start. span_ps: end of the last. completion_ps: end of each plan, in the order given."""

    events: tuple[Event, ...]
    span_ps: int
    completion_ps: tuple[int, ...]


def timeline(plans: Sequence[Plan], target: Target, execution: ExecutionSettings) -> Timeline:
    """Run the plans side by side, each on its own slot, all started at 0. One plan: that plan alone."""
    slots = [target.cores // plan.cores for plan in plans]
    if not plans or len(plans) > min(slots):
        raise InputError(
            stage="execution", where="timeline", expected="one or more plans that fit on the target side by side",
            found=f"{len(plans)} plans on {target.cores} cores", remedy="Give fewer plans, or plans of fewer cores.",
        )  # fmt: skip
    return run_programs([within_dram(program(plan, execution), target) for plan in plans], _bandwidth(target))


def exposed_launch_ns(plan: Plan, execution: ExecutionSettings) -> tuple[float, ...]:
    """Launch time of each kernel that nothing hides when the plan runs alone, ns, in the order of `plan.kernels`."""
    exposed = _exposed_ps(program(plan, execution))
    return tuple(exposed.get(kernel.group.name, 0) / PS_PER_NS for kernel in plan.kernels)


def _exposed_ps(alone: Program) -> dict[str, int]:
    """By group: what its start waited for the host beyond the end of the kernel before it."""
    issued, free, exposed = 0, 0, {}
    for name, launch, busy, barrier, on_host in zip(
        alone.groups, alone.launch_ps, alone.busy_ps, alone.barrier_ps, alone.on_host, strict=True
    ):
        issued = int((max(issued, free) if on_host else issued) + launch)
        start = max(issued, free)
        exposed[name] = start - free
        free = int(start + busy + barrier)
        issued = int(start + busy) if on_host else issued
    return exposed


def _bandwidth(target: Target) -> float:
    """Peak of DRAM in bytes per picosecond."""
    return target.dram.bandwidth_bytes_per_ns / PS_PER_NS


@dataclass(slots=True)
class _Lane:
    """One program on its slot while the clock runs."""

    number: int
    program: Program
    kernel: int = 0
    running: bool = False
    event_ps: int = 0
    issued_ps: int = 0
    began_ps: int = 0
    updated_ps: int = 0
    alone_ps: int = 0
    remaining_ps: float = 0.0
    rate: float = 1.0
    demand: float = 0.0
    done_ps: int = -1
    events: list[Event] = field(default_factory=list)


def run_programs(programs: Sequence[Program], bandwidth: float) -> Timeline:
    """Run the programs side by side from 0. `bandwidth`: of DRAM, bytes per picosecond."""
    lanes = [_Lane(number, each) for number, each in enumerate(programs)]
    for lane in lanes:
        _prepare(lane, 0)
    while True:
        now = min(lane.event_ps for lane in lanes)
        if now == _NEVER:
            break
        for lane in lanes:
            while lane.event_ps <= now:
                _step(lane, now)
        _share(lanes, now, bandwidth)
    span = max(lane.done_ps for lane in lanes)
    events = [event for lane in lanes for event in lane.events if event.end_ps > event.start_ps or event.dram_bytes]
    names = [name for lane in lanes for name in (_host(lane), _slot(lane))]
    filled = [event for name in names for event in _fill(name, [e for e in events if e.lane == name], span)]
    return Timeline(tuple(filled), span, tuple(lane.done_ps for lane in lanes))


def _prepare(lane: _Lane, free_ps: int) -> None:
    """The slot is free for the next kernel at free_ps: issue it, or end."""
    lane.running = False
    if lane.kernel == len(lane.program.groups):
        lane.event_ps, lane.done_ps = _NEVER, free_ps
        return
    k = lane.kernel
    begin = max(lane.issued_ps, free_ps) if lane.program.on_host[k] else lane.issued_ps
    lane.issued_ps = begin + int(lane.program.launch_ps[k])
    lane.event_ps = max(lane.issued_ps, free_ps)
    lane.events.append(_event(lane, _host(lane), "launch", begin, lane.issued_ps))


def _step(lane: _Lane, now: int) -> None:
    """Start the kernel that is issued, or end the one that runs."""
    k, base = lane.kernel, lane.program
    if not lane.running:
        lane.running, lane.began_ps, lane.updated_ps = True, now, now
        lane.alone_ps = int(base.busy_ps[k])
        lane.remaining_ps, lane.rate = float(lane.alone_ps), 1.0
        lane.demand = int(base.dram_bytes[k]) / lane.alone_ps if base.dram_bytes[k] else 0.0
        lane.event_ps = now + lane.alone_ps
        return
    on_host, barrier = bool(base.on_host[k]), int(base.barrier_ps[k])
    where, kind = (_host(lane), "fallback") if on_host else (_slot(lane), "kernel")
    lane.events.append(_event(lane, where, kind, lane.began_ps, now, int(base.dram_bytes[k])))
    lane.events.append(_event(lane, _slot(lane), "barrier", now, now + barrier))
    lane.issued_ps = now if on_host else lane.issued_ps
    lane.demand = 0.0
    lane.kernel += 1
    _prepare(lane, now + barrier)


def _share(lanes: Sequence[_Lane], now: int, bandwidth: float) -> None:
    """Give every running kernel its max-min share; move the ends of those whose share changed."""
    level = max_min_level(np.array([lane.demand for lane in lanes]), bandwidth)
    for lane in lanes:
        rate = 1.0 if lane.demand <= level else level / lane.demand
        if not lane.running or rate == lane.rate:
            continue
        lane.remaining_ps = max(0.0, lane.remaining_ps - lane.rate * (now - lane.updated_ps))
        lane.updated_ps, lane.rate = now, rate
        lane.event_ps = max(now + math.ceil(lane.remaining_ps / rate), lane.began_ps + lane.alone_ps)


def _host(lane: _Lane) -> str:
    return f"host {lane.number}"


def _slot(lane: _Lane) -> str:
    return f"slot {lane.number}"


def _event(lane: _Lane, where: str, kind: str, start: int, end: int, dram_bytes: int = 0) -> Event:
    group = lane.program.groups[lane.kernel]
    return Event(where, kind, f"{kind} {group}", group, start, end, dram_bytes)


def _fill(name: str, events: Sequence[Event], span: int) -> list[Event]:
    """The events of one lane with idle time between them, so that they tile [0, span)."""
    filled, reached = [], 0
    for event in sorted(events, key=lambda e: (e.start_ps, e.end_ps)):
        if event.start_ps > reached:
            filled.append(Event(name, "idle", "idle", "", reached, event.start_ps))
        filled.append(event)
        reached = event.end_ps
    if reached < span:
        filled.append(Event(name, "idle", "idle", "", reached, span))
    return filled


def chrome_trace(events: Sequence[Event]) -> dict[str, Any]:
    """The events as a trace that ui.perfetto.dev and chrome://tracing open: one track a lane, times in microseconds.

    Idle time is left blank. `correlation` joins the launch of a group to its kernel, with an arrow between them.
    """
    tracks = {name: number for number, name in enumerate(dict.fromkeys(event.lane for event in events))}
    launches = {key: number for number, key in enumerate(dict.fromkeys(_launch_key(event) for event in events))}
    trace: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": {"name": name}}
        for name, track in tracks.items()
    ]
    for event in events:
        if event.kind != "idle":
            trace.extend(_trace_rows(event, tracks[event.lane], launches[_launch_key(event)]))
    return {"displayTimeUnit": "ns", "traceEvents": trace}


def _launch_key(event: Event) -> tuple[str, str]:
    """What a launch and its kernel have in common: the number of the plan, and the group."""
    return event.lane.split()[-1], event.group


def _trace_rows(event: Event, track: int, correlation: int) -> list[dict[str, Any]]:
    begin_us = event.start_ps / 1e6
    place = {"pid": 0, "tid": track, "ts": begin_us}
    length_us = (event.end_ps - event.start_ps) / 1e6
    told = {"group": event.group, "dram_bytes": event.dram_bytes, "correlation": correlation}
    rows: list[dict[str, Any]] = [
        {"ph": "X", "name": event.name, "cat": event.kind, "dur": length_us, "args": told, **place}
    ]
    if event.kind == "launch":
        rows.append({"ph": "s", "id": correlation, "name": "launch", "cat": "launch", **place})
    if event.kind == "kernel":
        rows.append({"ph": "f", "bp": "e", "id": correlation, "name": "launch", "cat": "launch", **place})
    return rows

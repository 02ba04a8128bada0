"""A Profile out of what a profiler recorded: kernels joined with the calls that launched them, queues, iterations.

The readers of Kineto and of Nsight Systems end here, so that both sides of a pair mean the same by every column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accelmodel.profile import (
    Column,
    Flags,
    IterationRows,
    Labels,
    LaunchRows,
    Longs,
    Profile,
    ProfileMetadata,
    ProfileRows,
    TransferRows,
)
from accelmodel.profile_join import match_calls, number_iterations, queue_depths

NO_CALL = -1
WANTED_CALLS = re.compile(r"Launch|Mem(?:cpy|set)|urEnqueue")
_LAUNCH = re.compile(r"Launch|urEnqueueKernel")
_NO_LAUNCH = re.compile(r"HostFunc|CallConfiguration|Attribute|MaxActive")


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """Kernels as recorded. key: what joins them with a call; correlation is what is shown of it. [N] each."""

    device: Labels
    stream: Labels
    name: Labels
    start_ns: Longs
    duration_ns: Longs
    grid: Labels
    block: Labels
    registers: Column
    shared_bytes: Column
    local_bytes: Column
    correlation: Column
    key: Column


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Calls of the host into the runtime or driver, those that can launch or copy something. [C] each."""

    name: Labels
    process: Longs
    start_ns: Longs
    duration_ns: Longs
    key: Column


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """Copies, fills and whole graphs as recorded. [T] each."""

    device: Labels
    stream: Labels
    name: Labels
    start_ns: Longs
    duration_ns: Longs
    bytes: Column
    key: Column


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Spans by which the host marked iterations. [I] each."""

    process: Longs
    index: Longs
    start_ns: Longs
    duration_ns: Longs


def is_launch(name: str) -> bool:
    """Whether a call of that name launches kernels: cudaLaunchKernel_v7000, cuLaunchKernelEx, hipExtModuleLaunchKernel,
    cudaGraphLaunch and so on."""
    return bool(_LAUNCH.search(name)) and not _NO_LAUNCH.search(name)


def shared_codes(*columns: Labels) -> tuple[Longs, ...]:
    """Columns of texts as numbers: the same number wherever the same text stands. -1 where none does."""
    names = {name: code for code, name in enumerate(dict.fromkeys(name for each in columns for name in each.names))}
    tables = (np.array([*(names[name] for name in each.names), -1], np.int64) for each in columns)
    return tuple(table[each.codes] for table, each in zip(tables, columns, strict=True))


def build(
    kind: str,
    kernels: Kernels,
    calls: Calls | None,
    transfers: Transfers | None,
    marks: Marks,
    metadata: ProfileMetadata,
    findings: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Profile:
    """Join everything. calls, transfers: None where the profiler recorded none of their kind."""
    launches = None if calls is None else _only(calls, _launching(calls))
    found = np.full(len(kernels.start_ns), NO_CALL, np.int64)
    if launches is not None:
        found = match_calls(kernels.key, kernels.start_ns, launches.key.values, launches.start_ns)
    rows = _rows(kernels, launches, found, marks)
    return Profile(
        kind=kind,
        rows=rows,
        launches=None if launches is None else _launch_rows(launches, found, marks),
        transfers=None if transfers is None else _transfer_rows(transfers, calls),
        iterations=_iteration_rows(marks),
        metadata=metadata,
        findings=findings,
        warnings=(*warnings, *_warnings(rows, launches)),
    )


def _launching(calls: Calls) -> Longs:
    by_name = np.array([is_launch(name) for name in calls.name.names] or [False], bool)
    return np.flatnonzero(by_name[calls.name.codes] & (calls.name.codes >= 0) & calls.key.known)


def _only(calls: Calls, rows: Longs) -> Calls:
    key = Column(calls.key.values[rows], calls.key.known[rows])
    name = Labels(calls.name.codes[rows], calls.name.names)
    return Calls(name, calls.process[rows], calls.start_ns[rows], calls.duration_ns[rows], key)


def _rows(kernels: Kernels, launches: Calls | None, found: Longs, marks: Marks) -> ProfileRows:
    joined = found != NO_CALL
    count = len(found)
    call_start, call_duration, process = np.zeros((3, count), np.int64)
    if launches is not None:
        at = found[joined]
        call_start[joined], call_duration[joined] = launches.start_ns[at], launches.duration_ns[at]
        process[joined] = launches.process[at]
    depth = np.zeros(count, np.int64)
    if joined.any():
        lane = _lanes(kernels.device, kernels.stream)[joined]
        depth[joined] = queue_depths(lane, call_start[joined], kernels.start_ns[joined])
    return ProfileRows(
        device=kernels.device, stream=kernels.stream, name=kernels.name, start_ns=Column.of(kernels.start_ns),
        duration_ns=kernels.duration_ns, launch_start_ns=Column.partly(call_start, joined),
        launch_duration_ns=Column.partly(call_duration, joined),
        launch_delay_ns=Column.partly(kernels.start_ns - call_start - call_duration, joined),
        queue_depth=Column(depth, joined), grid=kernels.grid, block=kernels.block, registers=kernels.registers,
        shared_bytes=kernels.shared_bytes, local_bytes=kernels.local_bytes, dram_bytes=Column.none(count),
        correlation=kernels.correlation, iteration=_number(process, call_start, joined, marks),
    )  # fmt: skip


def _lanes(device: Labels, stream: Labels) -> Longs:
    """One number for each pair of device and stream. [N]"""
    return (device.codes.astype(np.int64) + 1) * (len(stream.names) + 1) + stream.codes + 1


def _number(process: Longs, start_ns: Longs, known: Flags, marks: Marks) -> Column:
    end_ns = marks.start_ns + marks.duration_ns
    return number_iterations(process, start_ns, known, marks.process, marks.index, marks.start_ns, end_ns)


def _launch_rows(launches: Calls, found: Longs, marks: Marks) -> LaunchRows:
    made = np.bincount(found[found != NO_CALL], minlength=len(launches.start_ns)).astype(np.int64)
    every = np.ones(len(launches.start_ns), bool)
    iteration = _number(launches.process, launches.start_ns, every, marks)
    return LaunchRows(launches.name, launches.start_ns, launches.duration_ns, made, iteration)


def _transfer_rows(transfers: Transfers, calls: Calls | None) -> TransferRows:
    found = np.full(len(transfers.start_ns), NO_CALL, np.int64)
    issued = np.zeros(len(found), np.int64)
    if calls is not None:
        usable = _only(calls, np.flatnonzero(calls.key.known))
        found = match_calls(transfers.key, transfers.start_ns, usable.key.values, usable.start_ns)
        joined = found != NO_CALL
        issued[joined] = (usable.start_ns + usable.duration_ns)[found[joined]]
    return TransferRows(
        transfers.device, transfers.stream, transfers.name, transfers.start_ns, transfers.duration_ns,
        transfers.bytes, Column.partly(issued, found != NO_CALL),
    )  # fmt: skip


def _iteration_rows(marks: Marks) -> IterationRows | None:
    if not len(marks.start_ns):
        return None
    order = np.argsort(marks.start_ns, kind="stable")
    return IterationRows(marks.index[order], marks.start_ns[order], marks.duration_ns[order])


def _warnings(rows: ProfileRows, launches: Calls | None) -> Iterator[str]:
    count = len(rows)
    if not count:
        return
    apart = int(np.count_nonzero(~rows.launch_start_ns.known))
    if launches is not None and apart:
        yield (
            f"{apart:,} of {count:,} kernels join no launch: they were launched before recording began, or by a call "
            "that was not recorded. They are in no iteration."
        )
    early = int(np.count_nonzero(rows.launch_delay_ns.present() < 0))
    if early:
        yield (
            f"{early:,} of {count:,} kernels start before their launch call returns: negative launch delays are real "
            "and are kept."
        )
    if launches is not None and len(np.unique(launches.key.values)) < len(launches.start_ns):
        yield "Several launches share a correlation: each kernel joins the last one before it."
    if not (rows.duration_ns % 1000).any() and not (rows.start_ns.values % 1000).any():
        zero = int(np.count_nonzero(rows.duration_ns == 0))
        short = f"; {zero:,} of {count:,} kernels are shorter than that and read 0" if zero else ""
        yield f"Times are whole microseconds: a short kernel's duration is known to 1 µs only{short}."

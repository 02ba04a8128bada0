"""Nsight Systems: the SQLite file that `nsys export --type sqlite` writes. Times are ns.

Tables are made lazily: one that is absent means that nothing of its kind was recorded. Columns differ by version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accelmodel.errors import InputError
from accelmodel.importers.loose_columns import MAX_NS, Pile, Texts, three_sizes, whole_numbers
from accelmodel.importers.nsys_metadata import physical_devices, read_metadata
from accelmodel.importers.nsys_names import STRINGS, Names, read_names
from accelmodel.importers.profile_build import WANTED_CALLS, Calls, Kernels, Marks, Transfers, build
from accelmodel.importers.profile_file import wrong
from accelmodel.importers.sqlite_file import Tables, opened_tables
from accelmodel.profile import Column, Labels, Longs, Profile

KERNEL, RUNTIME, NVTX = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
MEMCPY, MEMSET, GRAPH = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("MEMCPY", "MEMSET", "GRAPH_TRACE"))
# CUpti_ActivityMemcpyKind
COPY_KINDS = dict(enumerate(("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"), start=1))
ITERATION_WORDS = ("profilerstep", "iteration", "iter", "train_step", "step", "batch")
ITERATION = re.compile(rf"({'|'.join(ITERATION_WORDS)})[\s_#:=-]*(\d{{0,18}})", re.IGNORECASE)

_LANE = ("start", "end", "correlationId", "deviceId", "streamId", "globalPid")
_KERNEL = (
    *_LANE, "demangledName", "shortName", "mangledName", "name", "gridX", "gridY", "gridZ", "blockX", "blockY",
    "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread",
)  # fmt: skip
NO_NAME, NO_LANE = "(no name)", "(not said)"
_NO_KERNELS = (
    "it records none when no kernel ran while it recorded, or when CUDA was not traced. Record with --trace=cuda."
)


def read_nsys(path: Path) -> Profile:
    """An export as a Profile. Iterations are NVTX ranges such as `iteration 3`, `step 3` or `ProfilerStep#3`."""
    with opened_tables(path) as tables:
        if STRINGS not in tables:
            raise wrong(
                path, "", f"an Nsight Systems export, with a table {STRINGS}", "a database of another kind",
                "Give what `nsys export --type sqlite` wrote.",
            )  # fmt: skip
        export = _Export(tables, read_names(tables), _has_processes(tables), physical_devices(tables))
        kernels, calls, marks, transfers = _kernels(export), _calls(export), _marks(export), _transfers(export)
        metadata = read_metadata(tables)
    findings = () if len(kernels.start_ns) else (_no_kernel(KERNEL in tables),)
    return build("nsys", kernels, calls, transfers, marks, metadata, findings, _graph_warnings(transfers))


@dataclass(frozen=True, slots=True)
class _Export:
    """processes: whether every table says which process a row is of; correlations are unique in one process only."""

    tables: Tables
    names: Names
    processes: bool
    devices: dict[tuple[int, int], int]

    def full(self, table: str) -> Callable[[], InputError]:
        def error() -> InputError:
            return wrong(self.tables.path, table, "an export within the limits", "more rows", "Record a shorter span.")

        return error

    def process(self, values: Sequence[object]) -> Longs:
        """A globalTid or globalPid holds the thread in its low 24 bits and the process above."""
        if not self.processes:
            return np.zeros(len(values), np.int64)
        return whole_numbers(values).values >> 24

    def key(self, process: Longs, correlation: Column) -> Column:
        known = correlation.known & (correlation.values >= 0) & (correlation.values < 2**32)
        return Column.partly(((process & 0x7FFFFFFF) << 32) + np.where(known, correlation.values, 0), known)


def _has_processes(tables: Tables) -> bool:
    wanted = {KERNEL: "globalPid", MEMCPY: "globalPid", MEMSET: "globalPid", GRAPH: "globalPid", RUNTIME: "globalTid"}
    return all(column in tables.columns(table) for table, column in wanted.items() if table in tables)


def _no_kernel(has_table: bool) -> str:
    missing = f"The table {KERNEL} holds no row" if has_table else f"The export has no table {KERNEL}"
    return f"{missing}: {_NO_KERNELS}"


def _graph_warnings(transfers: Transfers) -> tuple[str, ...]:
    graphs = sum(1 for name in transfers.name.listed() if str(name).startswith("graph "))
    if not graphs:
        return ()
    return (
        f"{graphs:,} graph executions were recorded as a whole: the kernels in them are not seen. Record with "
        "--cuda-graph-trace=node to see them.",
    )


class _Lanes:
    """Columns that kernels and transfers share, grown piece by piece."""

    def __init__(self, export: _Export) -> None:
        self._export = export
        self.pile = Pile(export.full(KERNEL))
        self._device, self._stream, self._name = (Texts(export.full(KERNEL)) for _ in range(3))

    def add(self, table: str, columns: Sequence[Sequence[object]], names: Sequence[str], **more: Column) -> None:
        """columns: those of _LANE."""
        start, end, correlation, device, stream, process = columns
        start_ns, duration_ns = _times(self._export.tables.path, table, start, end)
        whole = whole_numbers(correlation)
        owner = self._export.process(process)
        key = self._export.key(owner, whole)
        self.pile.add(start_ns=start_ns, duration_ns=duration_ns, correlation=whole, key=key, **more)
        pids = owner & 0xFFFFFF
        physical = self._export.devices
        self._device.add(
            physical.get((pid, number), number) if isinstance(number, int) else NO_LANE
            for pid, number in zip(pids.tolist(), device, strict=True)
        )
        self._stream.add(NO_LANE if number is None else str(number) for number in stream)
        self._name.add(names)

    def texts(self) -> tuple[Labels, Labels, Labels]:
        """Device, stream, name."""
        return self._device.labels(), self._stream.labels(), self._name.labels()


def _times(path: Path, table: str, start: Sequence[object], end: Sequence[object]) -> tuple[Longs, Longs]:
    """Start and duration in ns."""
    first, last = whole_numbers(start), whole_numbers(end)
    sound = first.known & last.known & (np.abs(first.values) < MAX_NS) & (last.values < MAX_NS)
    sound &= last.values >= first.values
    if not sound.all():
        row = int(np.argmin(sound))
        found = f"{start[row]!r} to {end[row]!r}"
        raise wrong(
            path, f"table {table}", "times in ns, the end no earlier than the start", found[:80], "Export it again."
        )
    return first.values, last.values - first.values


def _kernels(export: _Export) -> Kernels:
    lanes, grid, block = _Lanes(export), Texts(export.full(KERNEL)), Texts(export.full(KERNEL))
    for rows in export.tables.rows(KERNEL, _KERNEL):
        columns = list(zip(*rows, strict=True))
        names = [export.names.of(*each) or NO_NAME for each in zip(*columns[6:10], strict=True)]
        static, dynamic = whole_numbers(columns[17]), whole_numbers(columns[18])
        shared = Column.partly(static.values + dynamic.values, static.known & dynamic.known)
        registers, local = whole_numbers(columns[16]), whole_numbers(columns[19])
        lanes.add(KERNEL, columns[:6], names, registers=registers, shared=shared, local=local)
        grid.add(zip(*columns[10:13], strict=True), three_sizes)
        block.add(zip(*columns[13:16], strict=True), three_sizes)
    device, stream, name = lanes.texts()
    pile = lanes.pile
    return Kernels(
        device=device, stream=stream, name=name, start_ns=pile.values("start_ns"),
        duration_ns=pile.values("duration_ns"), grid=grid.labels(), block=block.labels(),
        registers=pile.column("registers"), shared_bytes=pile.column("shared"), local_bytes=pile.column("local"),
        correlation=pile.column("correlation"), key=pile.column("key"),
    )  # fmt: skip


def _transfers(export: _Export) -> Transfers:
    """Copies, fills, and graphs recorded as a whole."""
    lanes = _Lanes(export)
    wanted = {MEMCPY: ("bytes", "copyKind"), MEMSET: ("bytes", "value"), GRAPH: ("bytes", "graphId")}
    for table, more in wanted.items():
        for rows in export.tables.rows(table, (*_LANE, *more)):
            columns = list(zip(*rows, strict=True))
            names = [_transfer_name(table, value) for value in columns[7]]
            lanes.add(table, columns[:6], names, bytes=whole_numbers(columns[6]))
    device, stream, name = lanes.texts()
    pile = lanes.pile
    return Transfers(
        device, stream, name, pile.values("start_ns"), pile.values("duration_ns"), pile.column("bytes"),
        pile.column("key"),
    )  # fmt: skip


def _transfer_name(table: str, value: object) -> str:
    if table == MEMSET:
        return "memset"
    if table == GRAPH:
        return f"graph {value}"
    return f"memcpy {COPY_KINDS.get(value, value)}" if isinstance(value, int) else "memcpy"


def _calls(export: _Export) -> Calls | None:
    """Calls that launch or copy; None where no call was recorded at all."""
    if RUNTIME not in export.tables:
        return None
    wanted = {number for number, text in export.names.texts.items() if WANTED_CALLS.search(text)}
    pile, name = Pile(export.full(RUNTIME)), Texts(export.full(RUNTIME))
    for rows in export.tables.rows(RUNTIME, ("start", "end", "correlationId", "globalTid", "nameId")):
        kept = [row for row in rows if row[4] in wanted]
        if not kept:
            continue
        start, end, correlation, thread, number = zip(*kept, strict=True)
        start_ns, duration_ns = _times(export.tables.path, RUNTIME, start, end)
        process = export.process(thread)
        key = export.key(process, whole_numbers(correlation))
        pile.add(start_ns=start_ns, duration_ns=duration_ns, process=process, key=key)
        name.add(export.names.of(each) for each in number)
    start_ns, duration_ns, process = (pile.values(column) for column in ("start_ns", "duration_ns", "process"))
    return Calls(name.labels(), process, start_ns, duration_ns, pile.column("key"))


def _marks(export: _Export) -> Marks:
    """NVTX ranges that mark iterations: those of the first of ITERATION_WORDS of which there is any."""
    pile = Pile(export.full(NVTX))
    for rows in export.tables.rows(NVTX, ("start", "end", "globalTid", "text", "textId")):
        matched = ((row, _iteration(export.names, *row[3:])) for row in rows if row[1] is not None)
        kept = [(row, found) for row, found in matched if found]
        if not kept:
            continue
        start, end, thread = zip(*(row[:3] for row, _ in kept), strict=True)
        start_ns, duration_ns = _times(export.tables.path, NVTX, start, end)
        word = np.array([ITERATION_WORDS.index(found[1].lower()) for _, found in kept], np.int64)
        number = whole_numbers([found[2] or None for _, found in kept])
        pile.add(start_ns=start_ns, duration_ns=duration_ns, process=export.process(thread), word=word, number=number)
    word, number = pile.values("word"), pile.column("number")
    chosen = np.flatnonzero(word == word.min()) if len(word) else np.zeros(0, np.int64)
    index = np.where(number.known[chosen], number.values[chosen], np.arange(len(chosen)))
    return Marks(
        pile.values("process")[chosen], index, pile.values("start_ns")[chosen], pile.values("duration_ns")[chosen]
    )


def _iteration(names: Names, *values: object) -> re.Match[str] | None:
    text = names.of(*values)
    return ITERATION.fullmatch(text.strip()) if text else None

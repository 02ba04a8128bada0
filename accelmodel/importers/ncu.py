"""Nsight Compute: CSV of `ncu --csv`, one line a metric (`--page details`) or one line a kernel (`--page raw`).

Lines that begin with == are the profiler's own remarks. Numbers are read in the form of the C locale only, with or
without commas between thousands: what another locale writes is refused, since 1.234 would be read a thousandfold off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from accelmodel.errors import InputError
from accelmodel.importers.loose_columns import three_sizes
from accelmodel.importers.ncu_lines import Table, open_table
from accelmodel.importers.ncu_values import METRICS, check_locale, read_value
from accelmodel.importers.profile_file import Source, wrong
from accelmodel.profile import Column, Device, Labels, Profile, ProfileMetadata, ProfileRows

MAX_KERNELS = 200_000
MAX_TEXT_CHARS, MAX_VALUE = 2_000, 2.0**60
MAX_REMARKS = 5
NO_LANE = "(not said)"
_METRIC, _VALUE, _UNIT, _KERNEL, _ID = "Metric Name", "Metric Value", "Metric Unit", "Kernel Name", "ID"
_DEVICE_NAME, _DEVICE_CORES = "device__attribute_display_name", "device__attribute_multiprocessor_count"
_APART = (
    "Nsight Compute runs each kernel by itself, its clocks locked and its caches flushed unless told otherwise: "
    "durations are not those of the whole run, and there are no launches, gaps or iterations."
)


@dataclass(slots=True)
class _Kernel:
    """One kernel while it is read. values: what METRICS reads each metric as -> value in the base unit."""

    line: int
    name: str
    device: str
    stream: str
    grid: str | None
    block: str | None
    values: dict[str, float] = field(default_factory=dict)


def read_ncu(source: Source) -> Profile:
    """A CSV as a Profile. Every kernel needs its duration; other metrics may be absent."""
    table = open_table(source, (_KERNEL,))
    long_form = _METRIC in table.columns
    kernels, facts = _read_long(table) if long_form else _read_raw(table)
    for kernel in kernels:
        if "duration_ns" not in kernel.values:
            raise wrong(
                source.path, f"line {kernel.line:,}", "gpu__time_duration.sum of every kernel",
                f"none of {kernel.name[:60]!r}",
                "Record with --section SpeedOfLight or --metrics gpu__time_duration.sum.",
            )  # fmt: skip
    clocks = [kernel.values["clock_hz"] for kernel in kernels if "clock_hz" in kernel.values]
    labels = dict.fromkeys(kernel.device for kernel in kernels)
    cores = facts.get(_DEVICE_CORES, "").replace(",", "")
    devices = tuple(
        Device(label, facts.get(_DEVICE_NAME), cores=int(cores) if cores.isascii() and cores.isdigit() else None)
        for label in labels
    )
    findings = () if kernels else ("The export holds no kernel: nothing was profiled. Widen the kernel filter of ncu.",)
    return Profile(
        kind="ncu", rows=_rows(kernels), findings=findings,
        metadata=ProfileMetadata(
            devices=devices if len(labels) == 1 else (), tool="Nsight Compute",
            clock_mhz=median(clocks) / 1e6 if clocks else None,
            others=tuple(("compute capability", facts["CC"]) for _ in range("CC" in facts)),
        ),
        warnings=(*((_APART,) if kernels else ()), *(remark[:200] for remark in table.remarks[:MAX_REMARKS])),
    )  # fmt: skip


def _read_long(table: Table) -> tuple[list[_Kernel], dict[str, str]]:
    """One line a metric. A kernel's lines share ID and process."""
    if missing := [name for name in (_ID, _VALUE, _UNIT) if name not in table.columns]:
        raise wrong(
            table.source.path, "header", f"the columns {_ID}, {_METRIC}, {_UNIT} and {_VALUE}",
            f"no {', '.join(missing)}", "Give the CSV as ncu wrote it.",
        )  # fmt: skip
    place = {name: index for index, name in enumerate(table.columns)}
    number, metric, unit, value = (place[name] for name in (_ID, _METRIC, _UNIT, _VALUE))
    process = place.get("Process ID", number)
    kernels: dict[tuple[str, str], _Kernel] = {}
    facts: dict[str, str] = {}
    for line, cells in table.rows():
        kernel = kernels.get((cells[process], cells[number]))
        if kernel is None:
            row = dict(zip(table.columns, cells, strict=True))
            kernel = kernels[cells[process], cells[number]] = _kernel(table, line, row, len(kernels))
            _note(facts, row, ("CC",))
        if cells[metric] in (_DEVICE_NAME, _DEVICE_CORES):
            facts.setdefault(cells[metric], cells[value][:MAX_TEXT_CHARS])
        _keep(table, line, kernel, cells[metric], cells[unit], cells[value])
    return list(kernels.values()), facts


def _read_raw(table: Table) -> tuple[list[_Kernel], dict[str, str]]:
    """One line a kernel, below a line of units."""
    rows = table.rows()
    line, units = next(rows, (0, []))
    measured = [index for index, name in enumerate(table.columns) if name in METRICS or (units and units[index])]
    named = {name: index for index, name in enumerate(table.columns)}
    if units and units[named[_KERNEL]]:
        raise table.wrong(
            line, "a line of units below the header", "a kernel", "Give the CSV as `ncu --csv --page raw` wrote it."
        )
    kernels: list[_Kernel] = []
    facts: dict[str, str] = {}
    for line, cells in rows:
        row = dict(zip(table.columns, cells, strict=True))
        kernel = _kernel(table, line, row, len(kernels))
        for index in measured:
            _keep(table, line, kernel, table.columns[index], units[index], cells[index])
        kernels.append(kernel)
        _note(facts, row, ("CC", _DEVICE_NAME, _DEVICE_CORES))
    return kernels, facts


def _note(facts: dict[str, str], row: Mapping[str, str], names: Sequence[str]) -> None:
    """Keep the first value that is said of each."""
    for name in names:
        if row.get(name):
            facts.setdefault(name, row[name][:MAX_TEXT_CHARS])


def _kernel(table: Table, line: int, row: Mapping[str, str], already: int) -> _Kernel:
    if already >= MAX_KERNELS:
        raise table.wrong(line, f"at most {MAX_KERNELS:,} kernels", "more", "Record fewer with --launch-count.")
    if not row[_KERNEL]:
        raise table.wrong(line, "the name of a kernel", "an empty cell", "Export it again.")
    return _Kernel(
        line, row[_KERNEL][:MAX_TEXT_CHARS], row.get("Device") or NO_LANE, row.get("Stream") or NO_LANE,
        three_sizes(row.get("Grid Size")), three_sizes(row.get("Block Size")),
    )  # fmt: skip


def _keep(table: Table, line: int, kernel: _Kernel, metric: str, unit: str, text: str) -> None:
    """Check the number, and keep the value where the metric is one that is read. The first of a kernel counts."""

    def refuse(expected: str, found: str, remedy: str) -> InputError:
        return wrong(table.source.path, f"line {line:,}, {metric[:60]}", expected, found, remedy)

    if metric not in METRICS:
        if unit:
            check_locale(text, refuse)
        return
    name, value = METRICS[metric][0], read_value(metric, unit, text, refuse)
    if value is None or name in kernel.values:
        return
    if not 0 <= value < MAX_VALUE:
        raise refuse("a value within 64 bits, not negative", repr(text[:40]), "Export it again.")
    kernel.values[name] = value


def _rows(kernels: Sequence[_Kernel]) -> ProfileRows:
    count = len(kernels)
    none = Column.none(count)
    parts = _sum(kernels, "dram_read_bytes", "dram_write_bytes")
    dram = _sum(kernels, "dram_bytes")
    return ProfileRows(
        device=Labels.of(kernel.device for kernel in kernels), stream=Labels.of(kernel.stream for kernel in kernels),
        name=Labels.of(kernel.name for kernel in kernels), start_ns=none,
        duration_ns=_sum(kernels, "duration_ns").values, launch_start_ns=none, launch_duration_ns=none,
        launch_delay_ns=none, queue_depth=none, grid=Labels.of(kernel.grid for kernel in kernels),
        block=Labels.of(kernel.block for kernel in kernels), registers=_sum(kernels, "registers"),
        shared_bytes=_sum(kernels, "static_bytes", "dynamic_bytes"), local_bytes=none,
        dram_bytes=Column(np.where(dram.known, dram.values, parts.values), dram.known | parts.known), correlation=none,
        iteration=none,
    )  # fmt: skip


def _sum(kernels: Sequence[_Kernel], *names: str) -> Column:
    """The sum of the values by those names, known where all of them are. [N]"""
    known = np.array([all(name in kernel.values for name in names) for kernel in kernels], bool)
    sums = [round(sum(kernel.values.get(name, 0.0) for name in names)) for kernel in kernels]
    return Column.partly(np.array(sums, np.int64), known)

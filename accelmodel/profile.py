"""Vocabulary of measured profiles: kernels, launches, transfers and iterations as columns, one entry an event.

What a profile does not hold is not known, never zero: a `Column` says for each entry whether it is known, a `Labels`
has code -1, and a whole table that the profiler did not record is None. Times are whole ns on the profile's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

KINDS = ("kineto", "nsys", "ncu", "onnxruntime", "table")


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Whole numbers, some of them not known. values: int64 [N], 0 where not known. known: [N]."""

    values: Longs
    known: Flags

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, values: Longs) -> Column:
        return cls(values, np.ones(len(values), bool))

    @classmethod
    def none(cls, count: int) -> Column:
        return cls(np.zeros(count, np.int64), np.zeros(count, bool))

    @classmethod
    def partly(cls, values: Longs, known: Flags) -> Column:
        return cls(np.where(known, values, 0), known)

    def listed(self) -> list[int | None]:
        pairs = zip(self.values.tolist(), self.known.tolist(), strict=True)
        return [value if known else None for value, known in pairs]

    def present(self) -> Longs:
        """Only the values that are known, in order."""
        return self.values[self.known]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Texts, each distinct one held once. codes: int32 [N], an index into names, -1 where not known."""

    codes: NDArray[np.int32]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Labels:
        seen: dict[str, int] = {}
        codes = [-1 if text is None else seen.setdefault(text, len(seen)) for text in texts]
        return cls(np.array(codes, np.int32), tuple(seen))

    @classmethod
    def none(cls, count: int) -> Labels:
        return cls(np.full(count, -1, np.int32), ())

    def listed(self) -> list[str | None]:
        return [None if code < 0 else self.names[code] for code in self.codes.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class ProfileRows:
    """Kernels: the columns of the table `profile_kernels` after `side` and `workload`, in its order. [N] each.

    queue_depth: kernels of the same device and stream that were launched before this one's launch began and had not
    started by then. launch_delay_ns: start - end of the launch call; negative ones are real. start_ns is not known
    where the profiler ran every kernel by itself.
    """

    device: Labels
    stream: Labels
    name: Labels
    start_ns: Column
    duration_ns: Longs
    launch_start_ns: Column
    launch_duration_ns: Column
    launch_delay_ns: Column
    queue_depth: Column
    grid: Labels
    block: Labels
    registers: Column
    shared_bytes: Column
    local_bytes: Column
    dram_bytes: Column
    correlation: Column
    iteration: Column

    def __len__(self) -> int:
        return len(self.duration_ns)


@dataclass(frozen=True, slots=True, eq=False)
class LaunchRows:
    """Calls by which the host launches kernels. kernels: how many each launched (a graph launch: many; 0 where none
    of them was recorded). [L] each."""

    name: Labels
    start_ns: Longs
    duration_ns: Longs
    kernels: Longs
    iteration: Column

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True, eq=False)
class TransferRows:
    """What a device does besides kernels: copies, fills, and graphs that were recorded as a whole. [T] each.

    issued_ns: end of the host's call that asked for it.
    """

    device: Labels
    stream: Labels
    name: Labels
    start_ns: Longs
    duration_ns: Longs
    bytes: Column
    issued_ns: Column

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True, eq=False)
class IterationRows:
    """Iterations as the host marked them, in order of start. index: their own numbers. [I] each."""

    index: Longs
    start_ns: Longs
    duration_ns: Longs

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator as the profile describes it; None where it does not say."""

    label: str
    name: str | None = None
    memory_bytes: int | None = None
    cores: int | None = None
    clock_mhz: float | None = None
    bandwidth_bytes_per_ns: float | None = None


@dataclass(frozen=True, slots=True)
class ProfileMetadata:
    """What the profile says of its own circumstances: the evidence lock compares it with the candidate file.

    devices: all that are listed, used or not. versions: as (what, version), e.g. ("cuda runtime", "12.0").
    clock_mhz: while kernels ran, measured. others: further plain facts, as (name, value).
    """

    devices: tuple[Device, ...] = ()
    driver: str | None = None
    runtime: str | None = None
    tool: str | None = None
    rank: int | None = None
    world_size: int | None = None
    clock_mhz: float | None = None
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One measured profile.

    kind: one of KINDS. launches, transfers, iterations: None where the profiler does not record such a thing.
    findings: why it is no evidence of kernels, where it is not. warnings: what a reader of its figures must know.
    """

    kind: str
    rows: ProfileRows
    launches: LaunchRows | None = None
    transfers: TransferRows | None = None
    iterations: IterationRows | None = None
    metadata: ProfileMetadata = field(default_factory=ProfileMetadata)
    findings: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def kernels(self) -> int:
        return len(self.rows)

    @property
    def launch_calls(self) -> int | None:
        return None if self.launches is None else len(self.launches)

    @property
    def unjoined_kernels(self) -> int | None:
        """Kernels that join no launch of the profile; None where it has no launches at all."""
        return None if self.launches is None else int(np.count_nonzero(~self.rows.launch_start_ns.known))

    def devices_used(self) -> tuple[Device, ...]:
        """The devices on which a kernel ran; of one that is not described only the label is known."""
        described = {device.label: device for device in self.metadata.devices}
        labels = self.rows.device
        used: Sequence[int] = np.unique(labels.codes[labels.codes >= 0]).tolist()
        return tuple(described.get(labels.names[code], Device(labels.names[code])) for code in used)


def empty_rows() -> ProfileRows:
    """No kernels."""
    labels, column, longs = Labels.none(0), Column.none(0), np.zeros(0, np.int64)
    return ProfileRows(
        labels, labels, labels, column, longs, column, column, column, column, labels, labels, column, column, column,
        column, column, column,
    )  # fmt: skip

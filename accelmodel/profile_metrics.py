"""Measured metrics of one profile. What the profile does not hold is None, never 0.

Sums are over all kernels of the profile unless a name says otherwise; times in ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelmodel.profile import Column, Labels, Longs, Profile, ProfileRows
from accelmodel.profile_classes import kernel_class
from accelmodel.profile_times import (
    DeviceTime,
    IterationTime,
    LaunchTime,
    QueueDepth,
    device_time,
    iteration_time,
    launch_time,
    launches_of,
    queue_depth,
)

SHOWN_KERNELS = 20


@dataclass(frozen=True, slots=True)
class KernelTotal:
    """All runs of the kernels of one name. share: of the kernel time of the profile."""

    name: str
    kernel_class: str
    runs: int
    total_ns: int
    share: float

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.runs


@dataclass(frozen=True, slots=True)
class ClassTotal:
    """All kernels of one class, by name (see profile_classes)."""

    kernel_class: str
    runs: int
    total_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class TransferTotal:
    """All copies or fills of one name. bytes: None where not every one says its size."""

    name: str
    runs: int
    total_ns: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class ProfileMetrics:
    """What one profile measures.

    kernels_per_iteration, launches_per_iteration: means over the iterations in which anything was launched.
    spilling_kernels: those that use local memory, of the `spilling_known` ones for which the profile says it.
    """

    kernels: int
    kernel_ns: int
    unjoined_kernels: int | None
    iterations: int | None
    kernels_per_iteration: float | None
    launches_per_iteration: float | None
    launch: LaunchTime | None
    device: DeviceTime | None
    queue: QueueDepth | None
    spilling_kernels: int | None
    spilling_known: int
    dram_bytes: int | None
    iteration: IterationTime | None
    classes: tuple[ClassTotal, ...]
    transfers: tuple[TransferTotal, ...] | None
    top: tuple[KernelTotal, ...]
    names: int


def profile_metrics(profile: Profile, shown: int = SHOWN_KERNELS) -> ProfileMetrics | None:
    """The metrics of a profile; None where it holds no kernel. shown: how many kernel names `top` has."""
    rows = profile.rows
    if not len(rows):
        return None
    launches = profile.launches if profile.launches is not None else launches_of(rows)
    totals = kernel_totals(rows)
    local = rows.local_bytes
    return ProfileMetrics(
        kernels=len(rows), kernel_ns=int(rows.duration_ns.sum()), unjoined_kernels=profile.unjoined_kernels,
        iterations=None if profile.iterations is None else len(profile.iterations),
        kernels_per_iteration=_per_iteration(rows.iteration),
        launches_per_iteration=None if launches is None else _per_iteration(launches.iteration),
        launch=None if launches is None else launch_time(rows, launches), device=device_time(profile),
        queue=queue_depth(rows.queue_depth),
        spilling_kernels=int((local.present() > 0).sum()) if local.known.any() else None,
        spilling_known=int(local.known.sum()),
        dram_bytes=int(rows.dram_bytes.values.sum()) if rows.dram_bytes.known.all() else None,
        iteration=iteration_time(profile), classes=_class_totals(totals), transfers=_transfer_totals(profile),
        top=totals[:shown], names=len(totals),
    )  # fmt: skip


def kernel_totals(rows: ProfileRows) -> tuple[KernelTotal, ...]:
    """One entry a kernel name, the longest total first, then by name."""
    runs, total_ns = _by_label(rows.name, rows.duration_ns)
    whole = max(1, int(total_ns.sum()))
    found = [
        KernelTotal(name, kernel_class(name), int(runs[code]), int(total_ns[code]), int(total_ns[code]) / whole)
        for code, name in enumerate(rows.name.names)
        if runs[code]
    ]
    return tuple(sorted(found, key=lambda each: (-each.total_ns, each.name)))


def _by_label(labels: Labels, weights: Longs) -> tuple[Longs, Longs]:
    """Entries and summed weights of each label. [names] each"""
    known = labels.codes >= 0
    codes = labels.codes[known]
    sums = np.zeros(len(labels.names), np.int64)
    np.add.at(sums, codes, weights[known])
    return np.bincount(codes, minlength=len(labels.names)).astype(np.int64), sums


def _per_iteration(iteration: Column) -> float | None:
    present = iteration.present()
    return len(present) / len(np.unique(present)) if len(present) else None


def _class_totals(totals: Sequence[KernelTotal]) -> tuple[ClassTotal, ...]:
    """One entry a class that occurs, the longest total first."""
    found = []
    for name in dict.fromkeys(each.kernel_class for each in totals):
        own = [each for each in totals if each.kernel_class == name]
        time_ns = sum(each.total_ns for each in own)
        found.append(ClassTotal(name, sum(each.runs for each in own), time_ns, sum(each.share for each in own)))
    return tuple(sorted(found, key=lambda each: (-each.total_ns, each.kernel_class)))


def _transfer_totals(profile: Profile) -> tuple[TransferTotal, ...] | None:
    transfers = profile.transfers
    if transfers is None:
        return None
    runs, total_ns = _by_label(transfers.name, transfers.duration_ns)
    _, size = _by_label(transfers.name, transfers.bytes.values)
    _, told = _by_label(transfers.name, transfers.bytes.known.astype(np.int64))
    found = [
        TransferTotal(name, int(runs[code]), int(total_ns[code]), int(size[code]) if told[code] == runs[code] else None)
        for code, name in enumerate(transfers.name.names)
        if runs[code]
    ]
    return tuple(sorted(found, key=lambda each: (-each.total_ns, each.name)))

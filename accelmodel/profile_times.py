"""What a profile says of time: launches, queues, devices busy and idle, iterations. Times in ns.

What the profile does not hold is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np

from accelmodel.profile import Column, Labels, LaunchRows, Longs, Profile, ProfileRows
from accelmodel.profile_join import covered

KERNEL_WAIT_NS = 5_000  # what a device takes to start a kernel that is issued and waits for nothing else, at most
PERCENTILE_CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Time from first to last activity (kernels, copies, fills), summed over the devices, and what it was spent on.

    Idle is when no stream of the device is busy. host_wait_ns: the call of what ended the idle time had not returned
    yet. kernel_wait_ns: it had, and the kernel started within KERNEL_WAIT_NS. other_ns: the rest, such as waiting for
    another stream, another device or memory; also where the call is not recorded.
    """

    devices: int
    window_ns: int
    busy_ns: int
    host_wait_ns: int
    kernel_wait_ns: int
    other_ns: int

    @property
    def idle_ns(self) -> int:
        return self.window_ns - self.busy_ns


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """Calls that launch. mean_delay_ns: from the end of the call to the start of the kernel, negative ones included.

    bound_share: of the kernels that join a launch, those that run no longer than their part of the launch call took:
    issued one after another they cannot keep the device busy.
    """

    calls: int
    total_ns: int
    joined_kernels: int
    mean_delay_ns: float | None
    bound_share: float | None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Kernels already waiting on the stream when one is launched, over the kernels that join a launch."""

    mean: float
    largest: int
    empty_share: float


@dataclass(frozen=True, slots=True)
class IterationTime:
    """Host time of the iterations. A percentile is None where there are too few iterations for it; `needed` says how
    many it takes (as `(percentile, iterations)`)."""

    iterations: int
    mean_ns: float
    p50_ns: float | None
    p95_ns: float | None
    p99_ns: float | None
    needed: tuple[tuple[str, int], ...]


def launches_of(rows: ProfileRows) -> LaunchRows | None:
    """The launches that kernels join, where only the table of kernels is at hand; None where none joins any."""
    joined = np.flatnonzero(rows.launch_start_ns.known)
    if not len(joined):
        return None
    columns = rows.launch_start_ns, rows.launch_duration_ns, rows.correlation
    keys = np.stack([column.values[joined] for column in columns])
    _, first, runs = np.unique(keys, axis=1, return_index=True, return_counts=True)
    at = joined[first]
    iteration = Column(rows.iteration.values[at], rows.iteration.known[at])
    start_ns, duration_ns = rows.launch_start_ns.values[at], rows.launch_duration_ns.values[at]
    return LaunchRows(Labels.none(len(at)), start_ns, duration_ns, runs.astype(np.int64), iteration)


def iterations_needed(quantile: float) -> int:
    """Fewest iterations of which the longest lies above the quantile with PERCENTILE_CONFIDENCE: 1 - q^n >= c.

    A floor even for independent iterations: 7 for the median, 90 for the 95th and 459 for the 99th percentile.
    """
    return ceil(log(1 - PERCENTILE_CONFIDENCE) / log(quantile))


def launch_time(rows: ProfileRows, launches: LaunchRows) -> LaunchTime:
    joined = rows.launch_start_ns.known
    delays = rows.launch_delay_ns.present()
    bound = None
    if joined.any():
        # The kernels of one launch have the same call: each takes its part of it.
        keys = np.stack([rows.launch_start_ns.values[joined], rows.correlation.values[joined]])
        _, place, runs = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
        part_ns = rows.launch_duration_ns.values[joined] / runs[place.reshape(-1)]
        bound = float(np.mean(rows.duration_ns[joined] <= part_ns))
    return LaunchTime(
        len(launches), int(launches.duration_ns.sum()), int(joined.sum()),
        float(delays.mean()) if len(delays) else None, bound,
    )  # fmt: skip


def device_time(profile: Profile) -> DeviceTime | None:
    """None where the profiler ran every kernel by itself: then there is no time between them."""
    rows, transfers = profile.rows, profile.transfers
    if not rows.start_ns.known.all():
        return None
    devices = dict.fromkeys(rows.device.names)
    device, start_ns, duration_ns = _codes(rows.device, devices), rows.start_ns.values, rows.duration_ns
    issued = Column.partly(rows.launch_start_ns.values + rows.launch_duration_ns.values, rows.launch_start_ns.known)
    issued_ns, known = issued.values, issued.known
    if transfers is not None:
        device = np.concatenate([device, _codes(transfers.device, devices)])
        start_ns = np.concatenate([start_ns, transfers.start_ns])
        duration_ns = np.concatenate([duration_ns, transfers.duration_ns])
        issued_ns = np.concatenate([issued_ns, transfers.issued_ns.values])
        known = np.concatenate([known, transfers.issued_ns.known])
    end_ns = start_ns + duration_ns
    ends, gap_start_ns, gap_ns = covered(device, start_ns, end_ns)
    host_ns = np.where(known[ends], np.clip(issued_ns[ends] - gap_start_ns, 0, gap_ns), 0)
    kernel_ns = np.where(known[ends], np.minimum(gap_ns - host_ns, KERNEL_WAIT_NS), 0)
    window_ns = _windows(device, start_ns, end_ns)
    host, kernel, idle = int(host_ns.sum()), int(kernel_ns.sum()), int(gap_ns.sum())
    used = len(np.unique(device))
    return DeviceTime(used, window_ns, window_ns - idle, host, kernel, idle - host - kernel)


def _codes(labels: Labels, numbers: dict[str, None]) -> Longs:
    """Codes that are the same for the same text in every column that shares `numbers`, which grows."""
    numbers.update(dict.fromkeys(labels.names))
    places = {name: place for place, name in enumerate(numbers)}
    return np.array([*(places[name] for name in labels.names), -1], np.int64)[labels.codes]


def _windows(device: Longs, start_ns: Longs, end_ns: Longs) -> int:
    """Time from first start to last end of each device, summed."""
    numbers, place = np.unique(device, return_inverse=True)
    first, last = np.full(len(numbers), np.iinfo(np.int64).max), np.full(len(numbers), np.iinfo(np.int64).min)
    np.minimum.at(first, place, start_ns)
    np.maximum.at(last, place, end_ns)
    return int((last - first).sum())


def queue_depth(depth: Column) -> QueueDepth | None:
    present = depth.present()
    if not len(present):
        return None
    return QueueDepth(float(present.mean()), int(present.max()), float(np.mean(present == 0)))


def iteration_time(profile: Profile) -> IterationTime | None:
    if profile.iterations is None:
        return None
    times = profile.iterations.duration_ns
    found: dict[str, float | None] = {}
    needed = []
    for name, quantile in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99)):
        enough = len(times) >= iterations_needed(quantile)
        found[name] = float(np.quantile(times, quantile, method="higher")) if enough else None
        if not enough:
            needed.append((name, iterations_needed(quantile)))
    return IterationTime(len(times), float(times.mean()), found["p50"], found["p95"], found["p99"], tuple(needed))

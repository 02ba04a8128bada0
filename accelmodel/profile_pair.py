"""Two profiles of the same work, before and after: what differs in their circumstances, kernels and fusion.

Where both profiles mark iterations, everything is per iteration and kernels outside of them are left out; else it is
of the whole profile, which only compares where both ran as often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelmodel.profile import LaunchRows, Profile, ProfileRows
from accelmodel.profile_classes import is_named_fusion, kernel_class
from accelmodel.profile_times import launches_of

PER_ITERATION, WHOLE = "iteration", "whole profile"


@dataclass(frozen=True, slots=True)
class Difference:
    """A circumstance in which the two profiles differ; None where one does not say."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class KernelUse:
    """Runs and ns of the kernels of one name, per unit of the comparison."""

    name: str
    kernel_class: str
    runs: float
    total_ns: float


@dataclass(frozen=True, slots=True)
class KernelChange:
    """A kernel that both sides have, per unit of the comparison."""

    name: str
    kernel_class: str
    runs_before: float
    runs_after: float
    before_ns: float
    after_ns: float

    @property
    def change_ns(self) -> float:
        return self.after_ns - self.before_ns


@dataclass(frozen=True, slots=True)
class FusionState:
    """How the work is cut into kernels, per unit of the comparison.

    launches: calls; None where none is recorded. kernels_per_launch: above 1 where graphs are launched.
    named_fusions: kernels whose own name says that they fuse several ops. names: different kernels.
    """

    kernels: float
    launches: float | None
    kernels_per_launch: float | None
    named_fusions: float
    names: int
    kernel_ns: float


@dataclass(frozen=True, slots=True)
class ClassChange:
    """Kernels of one class, per unit of the comparison."""

    kernel_class: str
    runs_before: float
    runs_after: float
    before_ns: float
    after_ns: float


@dataclass(frozen=True, slots=True)
class ProfileComparison:
    """unit: PER_ITERATION or WHOLE. differences: of circumstances, with which times cannot be laid to software.

    only_before, only_after: kernels that only one side has; what fusion replaced and what it put there is among them.
    """

    unit: str
    differences: tuple[Difference, ...]
    before: FusionState
    after: FusionState
    classes: tuple[ClassChange, ...]
    only_before: tuple[KernelUse, ...]
    only_after: tuple[KernelUse, ...]
    changed: tuple[KernelChange, ...]


def compare_profiles(before: Profile, after: Profile) -> ProfileComparison | None:
    """What changed between two profiles; None where one of them holds no kernel."""
    if not before.kernels or not after.kernels:
        return None
    each = before.rows.iteration.known.any() and after.rows.iteration.known.any()
    first, second = _uses(before, bool(each)), _uses(after, bool(each))
    common = [name for name in first if name in second]
    changed = [
        KernelChange(name, first[name].kernel_class, first[name].runs, second[name].runs, first[name].total_ns,
                     second[name].total_ns)
        for name in common
    ]  # fmt: skip
    return ProfileComparison(
        unit=PER_ITERATION if each else WHOLE,
        differences=circumstances(before, after),
        before=_state(before, first, bool(each)),
        after=_state(after, second, bool(each)),
        classes=_classes(list(first.values()), list(second.values())),
        only_before=_sorted([use for name, use in first.items() if name not in second]),
        only_after=_sorted([use for name, use in second.items() if name not in first]),
        changed=tuple(sorted(changed, key=lambda change: (-abs(change.change_ns), change.name))),
    )


def circumstances(before: Profile, after: Profile) -> tuple[Difference, ...]:
    """What the files themselves say differently: tool, devices, driver, runtime, clock, ranks."""
    found = [
        Difference("kind", before.kind, after.kind),
        Difference("device", _devices(before), _devices(after)),
        *(
            Difference(field, _text(getattr(before.metadata, field)), _text(getattr(after.metadata, field)))
            for field in ("driver", "runtime", "clock_mhz", "world_size")
        ),
    ]
    return tuple(each for each in found if each.before != each.after)


def _devices(profile: Profile) -> str | None:
    return ", ".join(dict.fromkeys(device.name for device in profile.devices_used() if device.name)) or None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _uses(profile: Profile, each: bool) -> dict[str, KernelUse]:
    """Kernel name -> its use; per iteration only of kernels that are in one."""
    rows = profile.rows
    kept = rows.iteration.known if each else np.ones(len(rows), bool)
    unit = len(np.unique(rows.iteration.present())) if each else 1
    codes = rows.name.codes[kept]
    runs = np.bincount(codes, minlength=len(rows.name.names))
    total_ns = np.bincount(codes, weights=rows.duration_ns[kept], minlength=len(rows.name.names))
    return {
        name: KernelUse(name, kernel_class(name), int(runs[code]) / unit, float(total_ns[code]) / unit)
        for code, name in enumerate(rows.name.names)
        if runs[code]
    }


def _state(profile: Profile, uses: dict[str, KernelUse], each: bool) -> FusionState:
    launches = profile.launches if profile.launches is not None else launches_of(profile.rows)
    kernels = sum(use.runs for use in uses.values())
    calls = None if launches is None else _calls(launches, profile.rows, each)
    joined = profile.rows.launch_start_ns.known & (profile.rows.iteration.known | (not each))
    units = len(np.unique(profile.rows.iteration.present())) if each else 1
    return FusionState(
        kernels=kernels, launches=calls, kernels_per_launch=float(joined.sum()) / units / calls if calls else None,
        named_fusions=sum(use.runs for name, use in uses.items() if is_named_fusion(name)), names=len(uses),
        kernel_ns=sum(use.total_ns for use in uses.values()),
    )  # fmt: skip


def _calls(launches: LaunchRows, rows: ProfileRows, each: bool) -> float:
    if not each:
        return float(len(launches))
    return float(launches.iteration.known.sum()) / len(np.unique(rows.iteration.present()))


def _classes(first: Sequence[KernelUse], second: Sequence[KernelUse]) -> tuple[ClassChange, ...]:
    names = dict.fromkeys(use.kernel_class for use in (*first, *second))
    found = [
        ClassChange(name, *(sum(use.runs for use in side if use.kernel_class == name) for side in (first, second)),
                    *(sum(use.total_ns for use in side if use.kernel_class == name) for side in (first, second)))
        for name in names
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda each: (-max(each.before_ns, each.after_ns), each.kernel_class)))


def _sorted(uses: Sequence[KernelUse]) -> tuple[KernelUse, ...]:
    return tuple(sorted(uses, key=lambda use: (-use.total_ns, use.name)))

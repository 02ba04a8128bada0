"""Measured metrics in the terminal. Times in µs; what a profile does not hold is `missing`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelmodel.importers.profile_file import printable
from accelmodel.profile import Profile
from accelmodel.profile_metrics import ProfileMetrics
from accelmodel.profile_pair import PER_ITERATION, FusionState, KernelUse, ProfileComparison

MISSING = "missing"
MAX_NAME_CHARS, LEAST_NAME_CHARS = 100, 16
NUMBERS_CHARS = 60  # what stands beside a kernel's name at most
SHOWN_KERNELS = 10


def print_profile(console: Console, name: str, profile: Profile, metrics: ProfileMetrics | None) -> None:
    """One profile: what it is, its metrics, its kernels; findings and warnings last, where they are read."""
    devices = ", ".join(device.name or f"device {device.label}" for device in profile.devices_used())
    says = [f"{key} {value}" for key, value in _says(profile) if value is not None]
    title = "; ".join([f"{name}: {profile.kind}", *filter(None, [devices]), *says])
    console.print(Text(printable(title), style="bold"))
    if metrics is not None:
        console.print(_grid(_lines(metrics)))
        console.print(_classes(metrics))
        console.print(_kernels(console, metrics))
    for finding in profile.findings:
        console.print(printable(finding), style="red", markup=False, highlight=False)
    for warning in profile.warnings:
        console.print(printable(warning), style="yellow", markup=False, highlight=False)


def print_comparison(console: Console, comparison: ProfileComparison) -> None:
    """The later profile against the earlier one."""
    per = "an iteration" if comparison.unit == PER_ITERATION else "the whole profile"
    console.print(Text(f"Before and after, per {per.removeprefix('an ').removeprefix('the ')}", style="bold"))
    if comparison.unit != PER_ITERATION:
        note = "Iterations are not marked on both sides: figures only compare where both ran as often."
        console.print(note, style="yellow", markup=False)
    for each in comparison.differences:
        text = f"{each.field}: {each.before or MISSING} before, {each.after or MISSING} after"
        console.print(
            f"{printable(text)}: times cannot be laid to software alone.", style="yellow", markup=False, highlight=False
        )
    console.print(_fusion(comparison.before, comparison.after))
    table = _table("class", "kernels before", "after", "µs before", "after")
    for row in comparison.classes:
        table.add_row(
            row.kernel_class, _number(row.runs_before), _number(row.runs_after), _us(row.before_ns), _us(row.after_ns)
        )
    console.print(table)
    _print_uses(console, "only before", comparison.only_before)
    _print_uses(console, "only after", comparison.only_after)
    _print_changes(console, comparison)


def _says(profile: Profile) -> Iterator[tuple[str, object]]:
    metadata = profile.metadata
    yield "driver", metadata.driver
    yield "runtime", metadata.runtime
    yield "rank", None if metadata.rank is None else f"{metadata.rank} of {metadata.world_size or '?'}"
    yield "clock, MHz:", None if metadata.clock_mhz is None else f"{metadata.clock_mhz:,.0f}"


def _lines(metrics: ProfileMetrics) -> Iterator[tuple[str, str]]:
    yield "kernels", f"{metrics.kernels:,} of {metrics.names:,} names, {_us(metrics.kernel_ns)} µs"
    yield "iterations", _number(metrics.iterations)
    yield "kernels an iteration", _number(metrics.kernels_per_iteration)
    yield "launches an iteration", _number(metrics.launches_per_iteration)
    yield from _launch_lines(metrics)
    yield from _device_lines(metrics)
    spilled = metrics.spilling_kernels
    known = f"of the {metrics.spilling_known:,} that say it"
    yield "spilling kernels", MISSING if spilled is None else f"{spilled:,} {known}"
    yield "DRAM traffic", MISSING if metrics.dram_bytes is None else f"{metrics.dram_bytes / 1e6:,.3f} MB"
    yield from _transfer_lines(metrics)
    yield from _iteration_lines(metrics)


def _launch_lines(metrics: ProfileMetrics) -> Iterator[tuple[str, str]]:
    launch, queue = metrics.launch, metrics.queue
    yield "launches", MISSING if launch is None else f"{launch.calls:,}, {_us(launch.total_ns)} µs in the calls"
    yield "kernels that join no launch", _number(metrics.unjoined_kernels)
    yield "mean launch delay", MISSING if launch is None else _with_unit(launch.mean_delay_ns)
    bound = None if launch is None else launch.bound_share
    yield "launch-bound kernels", MISSING if bound is None else f"{_share(bound)} run no longer than their launch takes"
    if queue is None:
        yield "queue at launch", MISSING
        return
    most = f"{queue.largest:,} at most, empty for {_share(queue.empty_share)}"
    yield "queue at launch", f"{queue.mean:.1f} kernels on average, {most}"


def _device_lines(metrics: ProfileMetrics) -> Iterator[tuple[str, str]]:
    device = metrics.device
    if device is None:
        yield "device busy", MISSING
        return
    busy = f"{_us(device.busy_ns)} of {_us(device.window_ns)} µs"
    yield "device busy", f"{busy}, {_share_of(device.busy_ns, device.window_ns)}"
    for words, value in (
        ("idle: host not there yet", device.host_wait_ns), ("idle: kernel starting", device.kernel_wait_ns),
        ("idle: other waits", device.other_ns),
    ):  # fmt: skip
        yield words, f"{_us(value)} µs, {_share_of(value, device.window_ns)}"


def _transfer_lines(metrics: ProfileMetrics) -> Iterator[tuple[str, str]]:
    if metrics.transfers is None:
        yield "copies", MISSING
        return
    if not metrics.transfers:
        yield "copies", "none"
    for each in metrics.transfers:
        size = MISSING if each.bytes is None else f"{each.bytes / 1e6:,.3f} MB"
        yield printable(each.name[:MAX_NAME_CHARS]), f"{each.runs:,}, {_us(each.total_ns)} µs, {size}"


def _iteration_lines(metrics: ProfileMetrics) -> Iterator[tuple[str, str]]:
    found = metrics.iteration
    if found is None:
        yield "iteration time", MISSING
        return
    yield "iteration time, mean", f"{_us(found.mean_ns)} µs"
    needed = dict(found.needed)
    for name, value in (("p50", found.p50_ns), ("p95", found.p95_ns), ("p99", found.p99_ns)):
        few = f"too few iterations: {found.iterations} of the {needed.get(name)} that it takes"
        yield f"iteration time, {name}", few if value is None else f"{_us(value)} µs"


def _classes(metrics: ProfileMetrics) -> Table:
    table = _table("class, by name", "kernels", "µs", "share")
    for each in metrics.classes:
        table.add_row(each.kernel_class, f"{each.runs:,}", _us(each.total_ns), _share(each.share))
    return table


def _kernels(console: Console, metrics: ProfileMetrics) -> Table:
    table = _table("kernel", "class", "runs", "µs", "mean µs", "share", words=2)
    for each in metrics.top[:SHOWN_KERNELS]:
        table.add_row(
            _short(console, each.name), each.kernel_class, f"{each.runs:,}", _us(each.total_ns), _us(each.mean_ns),
            _share(each.share),
        )  # fmt: skip
    return table


def _fusion(before: FusionState, after: FusionState) -> Table:
    table = _table("", "before", "after", "change")
    for words, first, second in (
        ("kernels", before.kernels, after.kernels), ("launches", before.launches, after.launches),
        ("kernels a launch", before.kernels_per_launch, after.kernels_per_launch),
        ("kernels named as fused", before.named_fusions, after.named_fusions),
        ("different kernels", before.names, after.names),
        ("kernel time, µs", before.kernel_ns / 1e3, after.kernel_ns / 1e3),
    ):  # fmt: skip
        change = f"{second / first - 1:+.1%}" if first and second is not None else ""
        table.add_row(words, _number(first), _number(second), change)
    return table


def _print_uses(console: Console, title: str, uses: Sequence[KernelUse]) -> None:
    total_ns = sum(use.total_ns for use in uses)
    console.print(f"{len(uses):,} kernels {title}, {_us(total_ns)} µs", highlight=False)
    table = _table("kernel", "class", "runs", "µs", words=2)
    for use in uses[:SHOWN_KERNELS]:
        table.add_row(_short(console, use.name), use.kernel_class, _number(use.runs), _us(use.total_ns))
    if uses:
        console.print(table)


def _print_changes(console: Console, comparison: ProfileComparison) -> None:
    console.print(f"{len(comparison.changed):,} kernels on both sides", highlight=False)
    table = _table("kernel", "runs before", "after", "µs before", "after", "change, µs")
    for each in comparison.changed[:SHOWN_KERNELS]:
        table.add_row(
            _short(console, each.name), _number(each.runs_before), _number(each.runs_after), _us(each.before_ns),
            _us(each.after_ns), f"{each.change_ns / 1e3:+,.1f}",
        )  # fmt: skip
    if comparison.changed:
        console.print(table)


def _grid(lines: Iterator[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in lines:
        table.add_row(Text(name, style="dim"), Text(value))
    return table


def _table(*headers: str, words: int = 1) -> Table:
    """A table whose first columns hold words and the rest numbers."""
    table = Table(*headers, box=None)
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[words:]:
        column.justify = "right"
    return table


def _short(console: Console, name: str) -> Text:
    """A kernel's name without what most share, cut so that the numbers beside it keep their place."""
    read = printable(name).removeprefix("void ").replace("(anonymous namespace)::", "").replace("at::native::", "")
    most = max(LEAST_NAME_CHARS, console.width - NUMBERS_CHARS)
    return Text(read if len(read) <= most else f"{read[: most - 1]}…")


def _us(value_ns: float) -> str:
    return f"{value_ns / 1e3:,.1f}"


def _with_unit(value_ns: float | None) -> str:
    return MISSING if value_ns is None else f"{_us(value_ns)} µs"


def _number(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _share_of(part: float, whole: float) -> str:
    return _share(part / whole) if whole else MISSING

"""PyTorch profiler (Kineto) traces: NVIDIA, AMD, Triton; old and new spellings of categories and keys."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from accelmodel.importers.kineto_events import CALL, KERNEL, MARK, NO_ARGS, TRANSFER, Args, Event, Sorter, Spans
from accelmodel.importers.kineto_metadata import read_metadata
from accelmodel.importers.loose_columns import three_sizes, whole_numbers
from accelmodel.importers.profile_build import Calls, Kernels, Marks, Transfers, build, shared_codes
from accelmodel.importers.profile_file import Source, wrong
from accelmodel.importers.trace_events import walk_events
from accelmodel.profile import Column, Labels, Longs, Profile

NO_NAME, NO_LANE = "(no name)", "(not said)"
_STEP_NUMBER = re.compile(r"ProfilerStep\D*(\d{1,18})")


def read_kineto(source: Source) -> Profile:
    """A trace as a Profile. Spans that no column rests on (operators, flows, stacks) are read over.

    Launches are by name (`is_launch`), iterations the host's spans `ProfilerStep#N`.
    """
    sorter = Sorter(source)
    spans = {kind: Spans(source, kind) for kind in (KERNEL, TRANSFER, CALL, MARK)}

    def add(piece: bytes, at: int) -> None:
        found = sorter.sort(piece, at)
        for kind, append in _ADD.items():
            if found[kind]:
                append(spans[kind], found[kind], at)

    metadata = walk_events(source, add)
    if not sorter.is_trace:
        found = f"{sorter.events:,} entries, none with a phase (ph)" if sorter.events else "an empty list"
        raise wrong(
            source.path, "traceEvents", "events of a trace", found,
            "Give the file that the profiler exported; if this is it, it recorded nothing: record it again.",
        )  # fmt: skip
    findings = () if len(spans[KERNEL]) else (_no_kernel(sorter.events, len(spans[CALL])),)
    rates = f"{sorter.not_finite:,} rates are inf or nan, which is no JSON: read as missing."
    host, marked = shared_codes(spans[CALL].labels("process"), spans[MARK].labels("process"))
    return build(
        "kineto", _kernels(spans[KERNEL]), _calls(spans[CALL], host), _transfers(spans[TRANSFER]),
        _marks(spans[MARK], marked), read_metadata(metadata), findings, (rates,) if sorter.not_finite else (),
    )  # fmt: skip


def _no_kernel(events: int, calls: int) -> str:
    launched = f", though the host made {calls:,} calls that launch or copy" if calls else ""
    return (
        f"The trace has {events:,} events and no kernel{launched}: nothing was measured on a device. Record it with "
        "the device's activity (ProfilerActivity.CUDA) switched on."
    )


def _args(events: Sequence[Event]) -> list[Args]:
    return [event.args or NO_ARGS for event in events]


def _add_kernels(spans: Spans, events: Sequence[Event], at: int) -> None:
    args = _args(events)
    spans.add(
        events, at, correlation=whole_numbers([each.correlation for each in args]),
        registers=whole_numbers([each.registers for each in args]),
        shared=whole_numbers([each.shared for each in args]),
    )  # fmt: skip
    _add_lanes(spans, events, args)
    spans.label("grid", [each.grid for each in args], three_sizes)
    spans.label("block", [each.block for each in args], three_sizes)


def _add_transfers(spans: Spans, events: Sequence[Event], at: int) -> None:
    args = _args(events)
    correlation = whole_numbers([each.correlation for each in args])
    spans.add(events, at, correlation=correlation, bytes=whole_numbers([each.bytes for each in args]))
    _add_lanes(spans, events, args)


def _add_lanes(spans: Spans, events: Sequence[Event], args: Sequence[Args]) -> None:
    pairs = list(zip(events, args, strict=True))
    spans.label("name", [_said(event.name, NO_NAME) for event in events])
    spans.label("process", [_said(event.pid, NO_LANE) for event in events])
    spans.label("device", [_said(each.device, event.pid, NO_LANE) for event, each in pairs])
    spans.label("stream", [_said(each.stream, event.tid, NO_LANE) for event, each in pairs])


def _said(*values: object) -> object:
    """The first that is there."""
    return next(value for value in values if value is not None and value != "")


def _add_calls(spans: Spans, events: Sequence[Event], at: int) -> None:
    spans.add(events, at, correlation=whole_numbers([each.correlation for each in _args(events)]))
    spans.label("name", [event.name for event in events])
    spans.label("process", [event.pid for event in events])


def _add_marks(spans: Spans, events: Sequence[Event], at: int) -> None:
    numbers = [_STEP_NUMBER.match(str(event.name)) for event in events]
    index = [int(found[1]) if found else len(spans) + place for place, found in enumerate(numbers)]
    spans.add(events, at, index=Column.of(np.array(index, np.int64)))
    spans.label("process", [event.pid for event in events])


_ADD = {KERNEL: _add_kernels, TRANSFER: _add_transfers, CALL: _add_calls, MARK: _add_marks}


def _kernels(spans: Spans) -> Kernels:
    correlation = spans.column("correlation")
    return Kernels(
        device=_devices(spans), stream=spans.labels("stream"), name=spans.labels("name"),
        start_ns=spans.column("start_ns").values, duration_ns=spans.column("duration_ns").values,
        grid=spans.labels("grid"), block=spans.labels("block"), registers=spans.column("registers"),
        shared_bytes=spans.column("shared"), local_bytes=Column.none(len(spans)), correlation=correlation,
        key=correlation,
    )  # fmt: skip


def _devices(spans: Spans) -> Labels:
    """Device of each span. Several processes in one file may each have a device 0: these are told apart."""
    device, process = spans.labels("device"), spans.labels("process")
    pairs, codes = np.unique(np.stack([device.codes, process.codes]), axis=1, return_inverse=True)
    if pairs.shape[1] == len(device.names):
        return device
    names = tuple(f"{device.names[first]} of {process.names[second]}" for first, second in pairs.T.tolist())
    return Labels(codes.reshape(-1).astype(np.int32), names)


def _transfers(spans: Spans) -> Transfers:
    return Transfers(
        device=_devices(spans), stream=spans.labels("stream"), name=spans.labels("name"),
        start_ns=spans.column("start_ns").values, duration_ns=spans.column("duration_ns").values,
        bytes=spans.column("bytes"), key=spans.column("correlation"),
    )  # fmt: skip


def _calls(spans: Spans, process: Longs) -> Calls | None:
    """None where the trace holds no call at all: then it was recorded without the host's side."""
    if not len(spans):
        return None
    return Calls(
        spans.labels("name"), process, spans.column("start_ns").values, spans.column("duration_ns").values,
        spans.column("correlation"),
    )  # fmt: skip


def _marks(spans: Spans, process: Longs) -> Marks:
    columns = (spans.column(name).values for name in ("index", "start_ns", "duration_ns"))
    return Marks(process, *columns)

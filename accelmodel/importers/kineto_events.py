"""Events of a Kineto trace as typed structs: which of them matter, and columns out of one kind of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from accelmodel.errors import InputError
from accelmodel.importers.loose_columns import EXACT_BELOW, Pile, Texts, hashable, microseconds_to_ns
from accelmodel.importers.profile_build import WANTED_CALLS
from accelmodel.importers.profile_file import Source, wrong
from accelmodel.importers.trace_events import DecodeErrors, decode
from accelmodel.profile import Column, Labels

KERNEL, TRANSFER, CALL, MARK, OTHER = "kernel", "transfer", "call", "mark", "other"
KINDS = (KERNEL, TRANSFER, CALL, MARK, OTHER)
_TRANSFERS = frozenset({"gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_HOST_SPANS = frozenset({"user_annotation", "cpu_op", "operator"})
# Kineto writes a rate over a time of 0 as inf or nan, which JSON does not know.
_NOT_FINITE = re.compile(rb'(?<!\\)":\s*-?(?:inf|nan|Infinity|NaN)\b')


class Args(msgspec.Struct, gc=False):
    """What a kernel, a copy or a call says of itself; anything may be absent or of another type."""

    device: Any = None
    stream: Any = None
    correlation: Any = None
    grid: Any = None
    block: Any = None
    registers: Any = msgspec.field(default=None, name="registers per thread")
    shared: Any = msgspec.field(default=None, name="shared memory")
    bytes: Any = None


class Event(msgspec.Struct, gc=False):
    """One entry of the list. ph: `X` is a span of time. ts, dur: µs."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


NO_ARGS = Args()


def kind_of(category: str) -> str:
    """Kind by category, in any spelling: `Kernel`, `cuda_runtime`, `Runtime`, `hip_runtime`, `cuda_driver`, ..."""
    folded = category.lower()
    if folded == "kernel":
        return KERNEL
    if folded in _TRANSFERS:
        return TRANSFER
    if folded.endswith(("runtime", "driver")):
        return CALL
    return MARK if folded in _HOST_SPANS else OTHER


class Sorter:
    """Decodes pieces of a trace and sorts their spans by kind."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._decoder = msgspec.json.Decoder(list[Event])
        self._kinds: dict[str, str] = {}
        self.events = self.not_finite = 0
        self.is_trace = False

    def sort(self, piece: bytes, at: int) -> dict[str, list[Event]]:
        """The spans of a piece, by kind; of calls and host spans only those that a column rests on."""
        events = self._decode(piece, at)
        self.events += len(events)
        self.is_trace = self.is_trace or any(isinstance(event.ph, str) for event in events)
        sorted_: dict[str, list[Event]] = {kind: [] for kind in KINDS}
        for event in events:
            if event.ph == "X":
                sorted_[self._kind(event)].append(event)
        return sorted_

    def _kind(self, event: Event) -> str:
        category, name = event.cat, event.name
        if type(category) is not str:
            return OTHER
        kind = self._kinds.get(category)
        if kind is None:
            kind = kind_of(category)
            if len(self._kinds) < 1_000:
                self._kinds[category] = kind
        if kind is CALL and not (type(name) is str and WANTED_CALLS.search(name)):
            return OTHER
        if kind is MARK and not (type(name) is str and name.startswith("ProfilerStep")):
            return OTHER
        return kind

    def _decode(self, piece: bytes, at: int) -> list[Event]:
        try:
            events = self._decoder.decode(piece)
        except DecodeErrors:
            piece, replaced = _NOT_FINITE.subn(b'":null', piece)
            self.not_finite += replaced
            events = decode(self._source, piece, at, self._decoder.decode)
        if any(type(event.ts) is float and event.ts >= EXACT_BELOW for event in events):
            # A float cannot hold µs since 1970 to the ns; the digits in the file can.
            self._decoder = msgspec.json.Decoder(list[Event], float_hook=Decimal)
            events = decode(self._source, piece, at, self._decoder.decode)
        return events


class Spans:
    """Columns of one kind of span, grown piece by piece: start_ns, duration_ns, further numbers, and texts."""

    def __init__(self, source: Source, kind: str) -> None:
        self._source, self._kind = source, kind
        self._numbers = Pile(self._too_many)
        self._texts: dict[str, Texts] = {}

    def __len__(self) -> int:
        return self._numbers.rows

    def add(self, events: Sequence[Event], at: int, **numbers: Column) -> None:
        """Append the spans of the piece that starts at byte `at`."""
        start_ns = microseconds_to_ns([event.ts for event in events], self._refusal(events, "ts", at))
        refuse = self._refusal(events, "dur", at)
        duration_ns = microseconds_to_ns([event.dur for event in events], refuse)
        for index in (duration_ns < 0).nonzero()[0][:1].tolist():
            raise refuse(index, events[index].dur)
        self._numbers.add(start_ns=start_ns, duration_ns=duration_ns, **numbers)

    def label(self, name: str, values: Sequence[object], write: Callable[[Any], str | None] = str) -> None:
        """Append to the column of texts of that name."""
        nested = (list, dict)
        keys: list[Hashable] = [hashable(value) if type(value) in nested else value for value in values]
        self._texts.setdefault(name, Texts(self._too_long)).add(keys, write)

    def column(self, name: str) -> Column:
        return self._numbers.column(name)

    def labels(self, name: str) -> Labels:
        return self._texts[name].labels() if name in self._texts else Labels.none(len(self))

    def _refusal(self, events: Sequence[Event], key: str, at: int) -> Callable[[int, object], InputError]:
        def refuse(index: int, value: object) -> InputError:
            where = f"{self._kind} {str(events[index].name)[:60]!r} after byte {at:,}"
            expected = f"{key}: a time in µs" + (", not negative" if key == "dur" else "")
            found = "nothing" if value is None else repr(value)[:60]
            return wrong(self._source.path, where, expected, found, "Record the trace again.")

        return refuse

    def _too_many(self) -> InputError:
        found = f"more than {len(self):,} of kind {self._kind}"
        return wrong(self._source.path, "", "a trace within the limits", found, "Record fewer iterations.")

    def _too_long(self) -> InputError:
        found = f"more text than fits in the names of kind {self._kind}"
        return wrong(self._source.path, "", "a trace within the limits", found, "Record fewer iterations.")

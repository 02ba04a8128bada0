"""Profiles that ONNX Runtime writes (`SessionOptions.enable_profiling`): a bare list of events, times in whole µs.

The file holds no version, no device but the name of the provider, and no launches: tags come from the candidate file.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from accelmodel.errors import InputError
from accelmodel.importers.loose_columns import Pile, Texts, hashable, microseconds_to_ns
from accelmodel.importers.profile_file import Source, wrong
from accelmodel.importers.trace_events import decode, walk_events
from accelmodel.profile import Column, IterationRows, Labels, Profile, ProfileMetadata, ProfileRows
from accelmodel.profile_join import number_iterations

SUFFIX, RUN = "_kernel_time", "model_run"
CATEGORIES = frozenset({"Node", "Session", "Api", "Kernel"})
NO_LANE = "(not said)"


class _Args(msgspec.Struct, gc=False):
    op_name: Any = None
    provider: Any = None


class _Event(msgspec.Struct, gc=False):
    cat: Any = None
    name: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: _Args | None = None


_NO_ARGS = _Args()


def read_onnxruntime_profile(source: Source) -> Profile:
    """Each run of a node is a kernel, named as the node; device: its provider, stream: its thread.

    The op type follows in brackets where the node's name does not say it. Iterations are the session's `model_run`s.
    """
    reader = _Reader(source)
    walk_events(source, reader.add)
    return reader.profile()


class _Reader:
    """Takes the events piece by piece and keeps the columns."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._decoder = msgspec.json.Decoder(list[_Event])
        self._nodes, self._runs = Pile(self._full), Pile(self._full)
        self._name, self._device, self._stream = (Texts(self._full) for _ in range(3))
        self._events = self._known = 0

    def add(self, piece: bytes, at: int) -> None:
        events = decode(self._source, piece, at, self._decoder.decode)
        self._events += len(events)
        self._known += len([event for event in events if type(event.cat) is str and event.cat in CATEGORIES])
        spans = [event for event in events if type(event.name) is str]
        nodes = [event for event in spans if event.cat == "Node" and event.name.endswith(SUFFIX)]
        runs = [event for event in spans if event.cat == "Session" and event.name == RUN]
        if nodes:
            self._add(self._nodes, nodes, at)
            args = [event.args or _NO_ARGS for event in nodes]
            self._name.add(_named(event.name, each.op_name) for event, each in zip(nodes, args, strict=True))
            self._device.add(hashable(each.provider or NO_LANE) for each in args)
            self._stream.add(hashable(NO_LANE if event.tid is None else event.tid) for event in nodes)
        if runs:
            self._add(self._runs, runs, at)

    def _add(self, pile: Pile, events: list[_Event], at: int) -> None:
        def refuse(index: int, value: object) -> InputError:
            where = f"{events[index].name[:60]!r} after byte {at:,}"
            return wrong(
                self._source.path,
                where,
                "ts and dur: times in µs, dur not negative",
                repr(value)[:60],
                "Record it again.",
            )

        start_ns = microseconds_to_ns([event.ts for event in events], refuse)
        duration_ns = microseconds_to_ns([event.dur for event in events], refuse)
        for index in (duration_ns < 0).nonzero()[0][:1].tolist():
            raise refuse(index, events[index].dur)
        pile.add(start_ns=start_ns, duration_ns=duration_ns)

    def profile(self) -> Profile:
        if not self._known:
            found = f"{self._events:,} entries of other kinds" if self._events else "an empty list"
            raise wrong(
                self._source.path, "", "events of ONNX Runtime, such as of cat Node", found,
                "Give the file that end_profiling() named.",
            )  # fmt: skip
        findings = () if self._nodes.rows else ("The profile holds no run of a node: the session ran nothing.",)
        return Profile(
            kind="onnxruntime", rows=self._rows(), iterations=self._iterations(),
            metadata=ProfileMetadata(tool="ONNX Runtime"), findings=findings, warnings=self._warnings(),
        )  # fmt: skip

    def _rows(self) -> ProfileRows:
        count = self._nodes.rows
        none, texts = Column.none(count), Labels.none(count)
        start, duration = self._nodes.column("start_ns"), self._nodes.values("duration_ns")
        runs, one = self._runs.values("start_ns"), np.zeros(self._runs.rows, np.int64)
        iteration = number_iterations(
            np.zeros(count, np.int64), start.values, start.known, one, np.arange(len(runs)), runs,
            runs + self._runs.values("duration_ns"),
        )  # fmt: skip
        return ProfileRows(
            device=self._device.labels(), stream=self._stream.labels(), name=self._name.labels(), start_ns=start,
            duration_ns=duration, launch_start_ns=none, launch_duration_ns=none, launch_delay_ns=none, queue_depth=none,
            grid=texts, block=texts, registers=none, shared_bytes=none, local_bytes=none, dram_bytes=none,
            correlation=none, iteration=iteration,
        )  # fmt: skip

    def _iterations(self) -> IterationRows | None:
        start, duration = self._runs.values("start_ns"), self._runs.values("duration_ns")
        return IterationRows(np.arange(len(start)), start, duration) if len(start) else None

    def _warnings(self) -> tuple[str, ...]:
        zero = int(np.count_nonzero(self._nodes.values("duration_ns") == 0))
        short = f"; {zero:,} of {self._nodes.rows:,} runs of nodes are shorter than that and read 0" if zero else ""
        host = (
            "Nodes are timed on the host: with an accelerator such a time may be that of the call, not of its kernels."
        )
        return (f"Times are whole microseconds{short}.", host) if self._nodes.rows else ()

    def _full(self) -> InputError:
        found = "more events or names"
        return wrong(self._source.path, "", "a profile within the limits", found, "Record fewer runs.")


def _named(name: str, op_type: object) -> str:
    node = name.removesuffix(SUFFIX)
    if not isinstance(op_type, str) or op_type.lower() in node.lower():
        return node or "(no name)"
    return f"{node} [{op_type}]".strip()

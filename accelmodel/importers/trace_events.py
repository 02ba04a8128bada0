"""Trace-event JSON in pieces: a trace of any size is decoded a few megabytes at a time.

Two forms: an object with a list `traceEvents` among other keys, or the bare list. The list is cut where one event ends,
which a count of the brackets outside strings tells exactly; what is cut is decoded by msgspec, which checks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from accelmodel.errors import InputError
from accelmodel.importers.profile_file import Source, wrong

MAX_EVENT_BYTES = 4 * 2**20
MAX_HEAD_BYTES = 64 * 2**20
MAX_TRIES = 100  # places that look like the list's key and are not, before a file is given up
KEY_BYTES = 256  # the key, its colon and its bracket stand within so many bytes
LIST_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BLANK = b" \t\r\n"
_QUOTE, _BACKSLASH, _CASE, _OPEN, _CLOSE = 0x22, 0x5C, 0x20, 0x7B, 0x7D  # [ and ] differ from { and } by _CASE

DecodeErrors = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
Decoded = TypeVar("Decoded")
OnPiece = Callable[[bytes, int], None]
"""Called with a JSON list of whole events and where it starts in the unpacked file."""


def walk_events(source: Source, on_piece: OnPiece) -> dict[str, object]:
    """Hand every event to `on_piece`, in order, and give back what stands beside the list (nothing for a bare list)."""
    head = source.read()
    first = head.lstrip(_BLANK)[:1]
    if first == b"[":
        start = head.index(b"[") + 1
        tail, at = _walk_list(source, head[start:], start, on_piece)
        if tail.strip(_BLANK):
            raise _broken(source, at, "the end of the file after the list", repr(tail.strip(_BLANK)[:40]))
        return {}
    if first != b"{":
        raise _no_trace(source, repr(head.lstrip(_BLANK)[:20]))
    metadata, rest, at = _read_head(source, head)
    tail, at = _walk_list(source, rest, at, on_piece)
    after = _read_object(source, b'{"traceEvents":null' + tail, at)
    after.pop("traceEvents")
    return metadata | after


def decode(source: Source, data: bytes, at: int, decoder: Callable[[bytes], Decoded]) -> Decoded:
    """What `decoder` makes of the bytes that stand at `at`; its refusal as an InputError."""
    try:
        return decoder(data)
    except msgspec.ValidationError as error:
        raise _no_trace(source, f"{error} after byte {at:,}") from error
    except DecodeErrors as error:
        raise _broken(source, at, "JSON", str(error)) from error


def _read_head(source: Source, head: bytes) -> tuple[dict[str, object], bytes, int]:
    """What stands before the list, the bytes after its bracket, and where these start."""
    searched, tries = 0, MAX_TRIES
    while True:
        for match in islice(LIST_KEY.finditer(head, searched), tries):
            tries -= 1
            try:  # decoding proves that the key belongs to the outermost object and to no string
                found = msgspec.json.decode(head[: match.start()] + b'"traceEvents":null}')
            except DecodeErrors:
                continue
            found.pop("traceEvents")
            return found, head[match.end() :], match.end()
        searched = max(searched, len(head) - KEY_BYTES)
        more = source.read()
        if not more:
            _read_object(source, head, 0)
            raise _no_trace(source, "JSON without such a list")
        head += more
        if len(head) > MAX_HEAD_BYTES:
            raise _no_trace(source, f"no such list in the first {MAX_HEAD_BYTES:,} bytes")


def _read_object(source: Source, data: bytes, at: int) -> dict[str, object]:
    found: Any = decode(source, data, at, msgspec.json.decode)
    if not isinstance(found, dict):
        raise _no_trace(source, f"a JSON {type(found).__name__}")
    return found


def _walk_list(source: Source, buffer: bytes, at: int, on_piece: OnPiece) -> tuple[bytes, int]:
    """Walk to the end of the list; gives what follows its bracket, up to the end of the file, and where that starts."""
    first = True
    while True:
        ends, close = cut_points(buffer)
        piece = buffer[: ends if close is None else close]
        if piece.strip(_BLANK):
            on_piece(b"[" + (piece if first else _after_comma(source, piece, at)) + b"]", at)
            first = False
        if close is not None:
            return _read_tail(source, buffer[close + 1 :]), at + close + 1
        at, buffer = at + ends, buffer[ends:]
        if len(buffer) > MAX_EVENT_BYTES:
            raise _broken(source, at, f"events of at most {MAX_EVENT_BYTES:,} bytes", "a longer one")
        more = source.read()
        if not more:
            raise _broken(source, at + len(buffer), "the end of the list of events", "the end of the file")
        buffer += more


def _after_comma(source: Source, piece: bytes, at: int) -> bytes:
    """The events of a later piece, which starts with the comma that parts them from those before."""
    comma, _, events = piece.partition(b",")
    if comma.strip(_BLANK) or not events.strip(_BLANK):
        raise _broken(source, at, "one comma and an event", repr(piece[:40]))
    return events


def _read_tail(source: Source, tail: bytes) -> bytes:
    while more := source.read():
        tail += more
        if len(tail) > MAX_HEAD_BYTES:
            raise _no_trace(source, f"more than {MAX_HEAD_BYTES:,} bytes after the list of events")
    return tail


def cut_points(buffer: bytes) -> tuple[int, int | None]:
    """Where the last whole event ends (0: nowhere), and the place of the bracket that closes the list, if it is there.

    The buffer starts inside the list and outside every event.
    """
    data = np.frombuffer(buffer, np.uint8)
    folded = data | _CASE
    brackets = np.flatnonzero((folded == _OPEN) | (folded == _CLOSE))
    step = np.where(folded[brackets] == _OPEN, 1, -1)
    step[np.searchsorted(_quotes(data), brackets) % 2 == 1] = 0  # an odd number of quotes before it: inside a string
    depth = np.cumsum(step)
    closing = np.flatnonzero((depth < 0) & (step < 0))
    if len(closing):
        return 0, int(brackets[closing[0]])
    whole = np.flatnonzero((depth == 0) & (step < 0))
    return (int(brackets[whole[-1]]) + 1 if len(whole) else 0), None


def _quotes(data: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Places of the quotes that begin or end a string: those behind an even number of backslashes."""
    quotes = np.flatnonzero(data == _QUOTE)
    slashes = np.flatnonzero(data == _BACKSLASH)
    if not len(slashes):
        return quotes
    starts = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    lengths = np.diff(starts, append=len(slashes))
    escaped = slashes[starts][lengths % 2 == 1] + lengths[lengths % 2 == 1]
    return quotes[~np.isin(quotes, escaped, assume_unique=True)]


def _no_trace(source: Source, found: str) -> InputError:
    return wrong(
        source.path, "", "a trace: a list of events, or an object whose traceEvents is one", found,
        "Give the file that the profiler exported.",
    )  # fmt: skip


def _broken(source: Source, at: int, expected: str, found: str) -> InputError:
    return wrong(
        source.path, f"after byte {at:,}", expected, found, "The file is cut off or damaged: export or copy it again."
    )

"""Columns out of loose values, as JSON and SQLite give them: whole numbers, times in ns, texts. Numbers may be text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelmodel.profile import Column, Labels, Longs

MAX_LONG = 2**63 - 1
MAX_NS = 2**61  # 73 years; the difference of two ends stays within 64 bits
MAX_ROWS = 2_000_000  # of one kind of event: some 500 MB of columns
MAX_TEXT_CHARS = 32 * 2**20
TEXT_OVERHEAD_CHARS = 100  # what holding a text costs beside its characters
EXACT_BELOW = 2.0**53 / 1000.0  # a float of µs beyond this no longer tells one ns from the next


def whole_numbers(values: Sequence[object]) -> Column:
    """Each value as a 64-bit integer; what is no whole number (nothing, a word, a list) is not known. [N]"""
    if not values:
        return Column.none(0)
    kinds = set(map(type, values))
    if kinds == {NoneType}:
        return Column.none(len(values))
    if kinds == {int}:
        try:
            return Column.of(np.array(values, np.int64))
        except OverflowError:
            pass
    parsed = [_whole(value) for value in values]
    known = np.array([value is not None for value in parsed], bool)
    return Column(np.array([value or 0 for value in parsed], np.int64), known)


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        value = _from_text(value)
    if isinstance(value, float | Decimal):
        return _from_real(float(value))
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -MAX_LONG <= value <= MAX_LONG else None


def _from_real(value: float) -> int | None:
    return int(value) if abs(value) < 2.0**63 and value.is_integer() else None


def _from_text(text: str) -> int | None:
    if len(text) > 20:
        return None
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None


def microseconds_to_ns(values: Sequence[object], refuse: Callable[[int, object], Exception]) -> Longs:
    """Times in µs, whole or fractional, numbers or text, as whole ns, rounded to the nearest. [N]

    refuse: makes the error for the value at an index that is no time within 64 bits of ns.
    """
    if not values:
        return np.zeros(0, np.int64)
    if set(map(type, values)) <= {int, float}:
        try:
            numbers = np.array(values)
        except OverflowError:
            numbers = np.array(values, object)
        if numbers.dtype == np.int64 and np.abs(numbers).max() < MAX_NS // 1000:
            return numbers * 1000
        if numbers.dtype == np.float64 and np.abs(numbers).max() < EXACT_BELOW:
            whole = np.floor(numbers)
            ns: Longs = whole.astype(np.int64) * 1000 + np.rint((numbers - whole) * 1000.0).astype(np.int64)
            return ns
    return np.array([_exact_ns(value, index, refuse) for index, value in enumerate(values)], np.int64)


def _exact_ns(value: object, index: int, refuse: Callable[[int, object], Exception]) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise refuse(index, value)
    if isinstance(value, int):
        ns = value * 1000 if abs(value) < MAX_NS else MAX_NS
    else:
        try:
            exact = Decimal(value[:40] if isinstance(value, str) else value)
            ns = round(exact * 1000) if exact.is_finite() and abs(exact) < MAX_NS else MAX_NS
        except InvalidOperation:
            raise refuse(index, value) from None
    if abs(ns) >= MAX_NS:
        raise refuse(index, value)
    return ns


class Texts:
    """Collects labels over pieces: each distinct text once, held for the whole profile.

    The texts that are held have at most `max_chars` characters together; past that `on_full` makes the error.
    """

    def __init__(self, on_full: Callable[[], Exception], max_chars: int = MAX_TEXT_CHARS) -> None:
        self._codes: dict[str, int] = {}
        self._known: dict[Hashable, int] = {None: -1}
        self._parts: list[NDArray[np.int32]] = []
        self._on_full, self._left = on_full, max_chars

    def add(self, values: Iterable[Hashable], write: Callable[[Any], str | None] = str) -> None:
        """Append one text a value, None for none. write: how a value is written; None where it says nothing."""
        known, codes = self._known, []
        for value in values:
            code = known.get(value)
            codes.append(self._new(value, write(value)) if code is None else code)
        self._parts.append(np.array(codes, np.int32))

    def _new(self, value: Hashable, text: str | None) -> int:
        code = -1
        if text is not None:
            self._left -= len(text) + TEXT_OVERHEAD_CHARS
            if self._left < 0:
                raise self._on_full()
            code = self._codes.setdefault(text, len(self._codes))
        self._known[value] = code
        return code

    def labels(self) -> Labels:
        codes = np.concatenate(self._parts) if self._parts else np.zeros(0, np.int32)
        return Labels(codes, tuple(self._codes))


class Pile:
    """Named columns that grow piece by piece. At most `max_rows` rows, past which `on_full` makes the error."""

    def __init__(self, on_full: Callable[[], Exception], max_rows: int = MAX_ROWS) -> None:
        self._parts: dict[str, list[Column]] = {}
        self._on_full, self._max_rows, self.rows = on_full, max_rows, 0

    def add(self, **columns: Column | Longs) -> None:
        """Append one piece: columns of the same length."""
        for name, part in columns.items():
            self._parts.setdefault(name, []).append(part if isinstance(part, Column) else Column.of(part))
        self.rows += len(next(iter(columns.values())))
        if self.rows > self._max_rows:
            raise self._on_full()

    def column(self, name: str) -> Column:
        parts = self._parts.get(name)
        if not parts:
            return Column.none(self.rows)
        return Column(np.concatenate([part.values for part in parts]), np.concatenate([part.known for part in parts]))

    def values(self, name: str) -> Longs:
        return self.column(name).values


def hashable(value: Any) -> Hashable:
    """A value as a key: a list of plain things as a tuple, anything deeper as its text."""
    if isinstance(value, list):
        return tuple(map(hashable, value))
    found: Hashable = str(value) if isinstance(value, dict) else value
    return found


def three_sizes(value: object) -> str | None:
    """A grid or block size as `x,y,z`: [x, y, z], or a text such as `(x, y, z)`. None where it is neither."""
    if isinstance(value, str):
        value = value.strip("() []{}").replace(" ", "").split(",")
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 3:
        return None
    sizes = [_whole(each) for each in value]
    if any(size is None or size < 0 for size in sizes):
        return None
    return ",".join(str(size) for size in (*sizes, *(1,) * (3 - len(sizes))))

"""Names in an Nsight Systems export: most stand once in StringIds, and the tables hold their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accelmodel.importers.loose_columns import MAX_TEXT_CHARS, TEXT_OVERHEAD_CHARS
from accelmodel.importers.profile_file import wrong
from accelmodel.importers.sqlite_file import Tables

STRINGS = "StringIds"
KERNEL_NAMES = ("demangledName", "shortName", "mangledName", "name")
_USED_BY = {
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_NAMES,
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("nameId",),
    "NVTX_EVENTS": ("textId",),
}


@dataclass(frozen=True, slots=True)
class Names:
    """The texts that kernels, calls and ranges refer to, by number."""

    texts: dict[int, str]

    def of(self, *values: object) -> str | None:
        """The first value that is a text, or the number of one."""
        for value in values:
            text = value if isinstance(value, str) else self.texts.get(value) if isinstance(value, int) else None
            if text:
                return text
        return None


def read_names(tables: Tables) -> Names:
    """Only those texts that the tables use: an export holds many more, such as the names of all system calls."""
    used = {value for table in _USED_BY for value in _numbers(tables, table)}
    texts: dict[int, str] = {}
    left = MAX_TEXT_CHARS
    for rows in tables.rows(STRINGS, ("id", "value")):
        for number, text in rows:
            if not isinstance(number, int) or number not in used or not isinstance(text, str):
                continue
            texts[number] = text
            left -= len(text) + TEXT_OVERHEAD_CHARS
        if left < 0:
            found = f"names of more than {MAX_TEXT_CHARS:,} characters"
            raise wrong(tables.path, STRINGS, "an export within the limits", found, "Record a shorter span.")
    return Names(texts)


def _numbers(tables: Tables, table: str) -> Iterator[int]:
    held = tables.columns(table)
    for column in _USED_BY[table]:
        if column in held:
            yield from _whole(value for rows in tables.rows(table, (column,), distinct=True) for (value,) in rows)


def _whole(values: Iterable[object]) -> Iterator[int]:
    return (value for value in values if isinstance(value, int))

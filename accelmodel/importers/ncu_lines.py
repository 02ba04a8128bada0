"""Lines of a CSV that a profiler wrote between its own remarks and, at times, the program's output."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelmodel.errors import InputError
from accelmodel.importers.ncu_values import LOCALE_REMEDY
from accelmodel.importers.profile_file import Source, wrong

MAX_LINE_BYTES = 2**20
MAX_PREAMBLE_LINES = 100_000
MAX_COLUMNS = 20_000
REMARK = "=="
_TROUBLE = ("==ERROR==", "==WARNING==")


@dataclass(slots=True)
class Table:
    """columns: of the header, in order. remarks: errors and warnings of the profiler, filled while rows are read."""

    source: Source
    columns: tuple[str, ...]
    lines: _Lines
    remarks: list[str]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number, one text a column) of every row; empty lines and remarks are passed over."""
        reader = csv.reader(self.lines, strict=True)
        try:
            for row in reader:
                if row and len(row) != len(self.columns):
                    raise self.wrong(
                        self.lines.number, f"{len(self.columns)} columns as in the header", f"{len(row)}",
                        "It is cut off or mixed with other output: export it again, with --log-file.",
                    )  # fmt: skip
                if row:
                    yield self.lines.number, row
        except csv.Error as error:
            raise self.wrong(self.lines.number, "CSV", str(error), "Export it again.") from error

    def wrong(self, line: int, expected: str, found: str, remedy: str) -> InputError:
        return wrong(self.source.path, f"line {line:,}", expected, found, remedy)


def open_table(source: Source, needed: Sequence[str]) -> Table:
    """The table whose header has all the needed columns; what stands above it is passed over."""
    lines = _Lines(source)
    for line in lines:
        columns = _split(line, ",")
        if set(needed) <= set(columns):
            if len(columns) > MAX_COLUMNS or len(set(columns)) < len(columns):
                found = f"{len(columns)} columns, {len(set(columns))} different"
                raise wrong(
                    source.path, f"line {lines.number:,}", "a header of different columns", found, "Export again."
                )
            return Table(source, columns, lines, lines.remarks)
        if set(needed) <= set(_split(line, ";")):
            raise wrong(
                source.path, f"line {lines.number:,}", "columns parted by commas", "columns parted by semicolons",
                LOCALE_REMEDY,
            )  # fmt: skip
        if lines.number > MAX_PREAMBLE_LINES:
            break
    expected = f"a header with {', '.join(map(repr, needed))}"
    raise wrong(source.path, "", expected, "no such line", "Give what `ncu --csv --page raw` wrote.")


def _split(line: str, parting: str) -> tuple[str, ...]:
    try:
        return tuple(cell.strip() for cell in next(csv.reader([line], delimiter=parting), []))
    except csv.Error:
        return ()


class _Lines:
    """Lines of the file, each at most MAX_LINE_BYTES, without the profiler's remarks."""

    def __init__(self, source: Source) -> None:
        self._source, self.number = source, 0
        self.remarks: list[str] = []
        self._texts = self._read()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while (line := next(self._texts)).startswith(REMARK):
            if line.startswith(_TROUBLE) and len(self.remarks) < 100:
                self.remarks.append(line.strip())
        return line

    def _read(self) -> Iterator[str]:
        rest = b""
        while block := self._source.read(MAX_LINE_BYTES):
            *whole, rest = (rest + block).split(b"\n")
            yield from map(self._text, whole)
            if len(rest) > MAX_LINE_BYTES:
                raise self._too_long()
        if rest:
            yield self._text(rest)

    def _text(self, line: bytes) -> str:
        self.number += 1
        if len(line) > MAX_LINE_BYTES:
            raise self._too_long()
        try:
            return line.removeprefix(b"\xef\xbb\xbf").decode() + "\n"
        except UnicodeDecodeError as error:
            raise wrong(
                self._source.path, f"line {self.number:,}", "UTF-8 text", str(error), "Convert the file to UTF-8."
            ) from error

    def _too_long(self) -> InputError:
        expected = f"lines of at most {MAX_LINE_BYTES:,} bytes"
        return wrong(self._source.path, f"line {self.number:,}", expected, "a longer one", "Export it again.")

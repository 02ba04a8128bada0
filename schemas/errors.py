"""The exception of this room: a document or a table that breaks its contract, said so that a reader can mend it."""

from __future__ import annotations

from functools import partial
from typing import Any


class DocumentError(ValueError):
    """A document or table that breaks its contract.

    source: the file (or table) it stands in. where: field path or column. line: line of the file, where known.
    row: row of the table, counted from 0, where one is to blame. expected, found, remedy: plain words.
    others: further problems of the same input, one line each, capped.
    """

    def __init__(
        self,
        *,
        source: str,
        where: str,
        expected: str,
        found: str,
        remedy: str,
        line: int | None = None,
        row: int | None = None,
        others: tuple[str, ...] = (),
    ) -> None:
        self.source, self.where, self.expected, self.found, self.remedy = source, where, expected, found, remedy
        self.line, self.row, self.others = line, row, others
        super().__init__(self._message())

    def __reduce__(self) -> tuple[Any, ...]:
        """How it goes from one process to another: its parts have names."""
        names = ("source", "where", "expected", "found", "remedy", "line", "row", "others")
        return partial(type(self), **{name: getattr(self, name) for name in names}), ()

    @property
    def table(self) -> str:
        """The table's name, where the input is a table (the same as source)."""
        return self.source

    @property
    def column(self) -> str:
        """The column, where the input is a table (the same as where)."""
        return self.where

    def _message(self) -> str:
        place = self.source if self.line is None else f"{self.source}, line {self.line}"
        spot = self.where if self.row is None else f"{self.where}, row {self.row}"
        message = f"{place}: {spot}: expected {self.expected}, found {self.found}. {self.remedy}".rstrip()
        if self.others:
            message += "\n" + "\n".join(f"also: {other}" for other in self.others)
        return message


class TableError(DocumentError):
    """A table that breaks its schema. Whoever read it from a user's file says so as a DocumentError of that file;
    elsewhere the table is our own, and the fault too."""

"""An SQLite file that nobody vouches for, opened to be read: plain tables only, bounded values, rows and time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from accelmodel.importers.profile_file import MAX_FILE_BYTES, wrong

MAGIC = b"SQLite format 3\0"
MAX_VALUE_BYTES = 2**20
MAX_SECONDS = 120.0
LOCK_WAIT_S = 1.0
ROWS_AT_ONCE = 32_768
_OPS_BETWEEN_LOOKS = 100_000

Row = tuple[object, ...]


class Tables:
    """The plain tables of the file, with their columns in order."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self.path = connection, path
        listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        # A virtual table runs code of its own when it is read.
        plain = {str(name) for name, sql in listed if not str(sql).upper().lstrip().startswith("CREATE VIRTUAL")}
        self._plain = plain
        self._columns: dict[str, tuple[str, ...]] = {}

    def __contains__(self, table: str) -> bool:
        return table in self._plain

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of the table's columns; none where there is no such table."""
        if table not in self._plain:
            return ()
        if table not in self._columns:
            rows = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
            self._columns[table] = tuple(str(row[1]) for row in rows)
        return self._columns[table]

    def rows(self, table: str, columns: Sequence[str], *, distinct: bool = False) -> Iterator[list[Row]]:
        """Rows a few thousand at a time, in the order of the file; none where there is no such table. A column that the
        table lacks is None throughout."""
        if table not in self._plain:
            return
        held = set(self.columns(table))
        listed = ", ".join(_quoted(name) if name in held else "NULL" for name in columns)
        cursor = self._connection.execute(f"SELECT {'DISTINCT ' * distinct}{listed} FROM {_quoted(table)}")
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield rows

    def pairs(self, tables: Collection[str]) -> Iterator[tuple[str, str]]:
        """(name, value) of every row of those of the tables that are there."""
        for table in tables:
            if {"name", "value"} <= set(self.columns(table)):
                for rows in self.rows(table, ("name", "value")):
                    yield from ((str(name), str(value)) for name, value in rows)


@contextmanager
def opened_tables(path: Path) -> Iterator[Tables]:
    """Open read-only; what SQLite refuses, then or later, is an InputError. Nothing is written, beside it neither."""
    if path.stat().st_size > MAX_FILE_BYTES:
        found = f"{path.stat().st_size:,} bytes"
        raise wrong(path, "", f"at most {MAX_FILE_BYTES:,} bytes", found, "Record a shorter span.")
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro{_immutable(path)}"
        with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_WAIT_S)) as connection:
            _guard(connection)
            yield Tables(connection, path)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: a damaged name of a table or column
        if "locked" in str(error) or "busy" in str(error):
            remedy = "Close the program that is writing it, or copy the file once it is done."
            raise wrong(path, "", "a database that nobody is writing", str(error), remedy) from error
        if "interrupted" in str(error):
            raise wrong(
                path, "", f"a database read within {MAX_SECONDS:g} s", "a longer read", "Record a shorter span."
            ) from error
        raise wrong(
            path, "", "a sound SQLite database", str(error), "Export it again: it is damaged or cut off."
        ) from error


def _immutable(path: Path) -> str:
    """A database in write-ahead mode wants a file beside it even to be read: where no log waits to be read with it,
    it is read as one that never changes."""
    with path.open("rb") as stream:
        write_ahead = stream.read(20)[18:20] == b"\x02\x02"
    if not write_ahead:
        return ""
    if path.with_name(path.name + "-wal").exists():
        remedy = "Close the program that is writing it; what it wrote last stands in the log beside it."
        raise wrong(path, "", "a database that nobody is writing", "a write-ahead log beside it", remedy)
    return "&immutable=1"


def _guard(connection: sqlite3.Connection) -> None:
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    deadline = time.monotonic() + MAX_SECONDS
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _OPS_BETWEEN_LOOKS)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

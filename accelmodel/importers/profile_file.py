"""The bytes behind a profile: opened once, unpacked if gzip, never more than its limits, and errors that say where."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from typing import IO

from accelmodel.errors import InputError

MAX_FILE_BYTES = 4 * 2**30
MAX_UNPACKED_BYTES = 4 * 2**30
MAX_GZIP_RATIO = 200  # real traces pack 10 to 40 times; a bomb of blanks or of one repeated event 1,000 times
RATIO_FROM_BYTES = 64 * 2**20
BLOCK_BYTES = 2**21
GZIP_MAGIC = b"\x1f\x8b"


def wrong(path: Path, where: str, expected: str, found: str, remedy: str) -> InputError:
    """The error of every profile reader. where: the place in the file, "" for the file as a whole."""
    place = printable(f"profile {path}" + (f", {where}" if where else ""))
    return InputError(stage="ingress", where=place, expected=expected, found=printable(found), remedy=remedy)


def printable(text: str) -> str:
    """A text of an untrusted file without what would command a terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


class Source:
    """The unpacked bytes of a profile, read in order."""

    def __init__(self, path: Path, raw: IO[bytes], packed: bool) -> None:
        self.path, self.packed = path, packed
        self._raw = raw
        self._bytes: IO[bytes] | GzipFile = GzipFile(fileobj=raw) if packed else raw
        self._read_bytes = 0
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """The next bytes, at most `size`, without moving on."""
        while len(self._ahead) < size:
            more = self._fetch(size - len(self._ahead))
            if not more:
                break
            self._ahead += more
        return self._ahead[:size]

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        """The next bytes, at most about `size`; empty at the end."""
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        return self._fetch(size)

    def _fetch(self, size: int) -> bytes:
        try:
            found = self._bytes.read(size)
        except (EOFError, BadGzipFile, zlib.error) as error:
            raise wrong(
                self.path, f"unpacked byte {self._read_bytes:,}", "a whole gzip file", str(error) or "damaged data",
                "Copy the file again or record it again: it was cut off or damaged.",
            ) from error  # fmt: skip
        except OSError as error:
            raise wrong(self.path, "", "a file that can be read", str(error), "Check the disk and copy it.") from error
        self._read_bytes += len(found)
        self._guard()
        return found

    def _guard(self) -> None:
        if self._read_bytes > MAX_UNPACKED_BYTES:
            raise wrong(
                self.path, "", f"at most {MAX_UNPACKED_BYTES:,} unpacked bytes", "more",
                "Record fewer iterations, or without stacks and shapes.",
            )  # fmt: skip
        if self.packed and self._read_bytes > RATIO_FROM_BYTES:
            ratio = self._read_bytes / max(1, self._raw.tell())
            if ratio > MAX_GZIP_RATIO:
                raise wrong(
                    self.path, "", f"gzip data that unpacks to at most {MAX_GZIP_RATIO} times its size",
                    f"{ratio:.0f} times after {self._read_bytes:,} bytes", "Unpack it first if it is a real trace.",
                )  # fmt: skip


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """The file as a Source, once it may be read at all."""
    try:
        if not path.is_file():
            found = "a folder" if path.is_dir() else "none"
            raise wrong(path, "", "a file", found, "Correct the path of the profile.")
        size = path.stat().st_size
        if not 0 < size <= MAX_FILE_BYTES:
            remedy = "Record it again." if not size else "Record fewer iterations."
            raise wrong(path, "", f"1 to {MAX_FILE_BYTES:,} bytes", f"{size:,} bytes", remedy)
        raw = path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a path that no file system takes, and InputError
        if isinstance(error, InputError):
            raise
        raise wrong(path, "", "a file that can be read", str(error), "Correct the path or its permissions.") from error
    with raw:
        packed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        yield Source(path, raw, packed)

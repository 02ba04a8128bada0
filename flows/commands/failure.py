"""What a user reads when a command fails: the message of bad input, or one plain sentence and a log file."""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from accelmodel.errors import InputError
from accelmodel.importers.profile_file import printable
from flows.embedded import NoServerError, OrchestrationError
from flows.store import Store, StoreError
from schemas.errors import DocumentError, TableError

INVALID_INPUT, INTERNAL_ERROR = 3, 4
_BAD_INPUT = (InputError, DocumentError, StoreError)


def explain(error: Exception, arguments: Sequence[str]) -> int:
    """Say what happened on standard error and give the exit code."""
    if isinstance(error, _BAD_INPUT) and not isinstance(error, TableError):  # our own table is no input
        said = "\n".join(printable(line) for line in str(error).split("\n"))
        print(f"error: {said}", file=sys.stderr)
        return INVALID_INPUT
    if isinstance(error, OrchestrationError):
        print(f"error: {error}", file=sys.stderr)
        return INVALID_INPUT if isinstance(error, NoServerError) else INTERNAL_ERROR
    log = _write_log(error, arguments)
    where = f"The details are in {log}." if log else _without_log(error)
    print(f"error: tilegate failed inside ({type(error).__name__}). {where}", file=sys.stderr)
    return INTERNAL_ERROR


def _write_log(error: Exception, arguments: Sequence[str]) -> Path | None:
    moment = datetime.now(UTC)
    path = _store_of(arguments).logs / f"error-{moment:%Y%m%dT%H%M%S%f}.log"
    text = f"{moment.isoformat()}\ntilegate {' '.join(arguments)}\n\n{''.join(traceback.format_exception(error))}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        return None
    return path


def _without_log(error: Exception) -> str:
    """What is known of a failure whose details could be kept nowhere: no traceback, that is for a log."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" at {Path(frame.filename).name}, line {frame.lineno}" for frame in last)
    said = printable(str(error).split("\n")[0][:200])
    return f"It said {said!r}{place}; the store takes no log with more. Try again with another --store."


def _store_of(arguments: Sequence[str]) -> Store:
    """The store that the command named, if it named one."""
    given = next((after for name, after in itertools.pairwise(arguments) if name == "--store"), None)
    return Store.at(given)

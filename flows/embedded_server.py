"""The child that `flows.embedded` starts: Prefect's server on its parent's socket, for as long as the parent lives."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import sqlite3
import sys
import threading
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    """Serve until standard input closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    listener = socket.socket(fileno=int(sys.argv[1]))
    import uvicorn
    from prefect.server.api.server import create_app

    asyncio.run(_migrate(Path(os.environ["PREFECT_HOME"])))
    config = uvicorn.Config(create_app, factory=True, log_level="error", access_log=False, lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])


async def _migrate(home: Path) -> None:
    """Bring the database up to date, one process at a time: two that start on a new one would both create it.

    A new database goes through every migration that Prefect ever had, which takes seconds: the result is kept for the
    next new home on this machine.
    """
    from prefect.server.database import provide_database_interface

    database, kept = home / "prefect.db", _kept_database()
    with (home / "migration.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if database.is_file() and not sound(database):
            _remove(database)  # flow runs of finished commands: no one needs them
        new = not database.exists()
        if new and kept.is_file() and sound(kept):
            part = database.with_suffix(".part")
            shutil.copyfile(kept, part)
            part.replace(database)  # all of it or none, even when this process is killed here
        await provide_database_interface().create_db()
        if new and not (kept.is_file() and sound(kept)):
            with contextlib.suppress(OSError):  # nothing but time is lost where no cache can be written
                _keep(database, kept)


def sound(database: Path) -> bool:
    """Whether SQLite can read all of it. One that is merely busy is sound."""
    try:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.OperationalError:
        return True
    except sqlite3.DatabaseError:
        return False


def _remove(database: Path) -> None:
    for end in ("", "-wal", "-shm"):
        database.with_name(database.name + end).unlink(missing_ok=True)


def _kept_database() -> Path:
    """An empty database as the installed Prefect wants it, in the user's cache."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return caches / "tilegate" / f"prefect-{version('prefect')}.db"


def _keep(database: Path, kept: Path) -> None:
    """Copy a database that others may have open; a reader sees all of the copy or none."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{os.getpid()}.part")
    with contextlib.closing(sqlite3.connect(database)) as source, contextlib.closing(sqlite3.connect(part)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
    part.replace(kept)


def _end_with_parent() -> None:
    """Wait for the end of standard input and end this process: SQLite has committed all that it confirmed."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()

"""The child that `flows.embedded` starts: Prefect's server on its parent's socket, for as long as the parent lives."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import sys
import threading
import time
from pathlib import Path

GRACE_S = 5.0


def main() -> None:
    """Serve until standard input closes."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    import uvicorn
    from prefect.server.api.server import create_app

    asyncio.run(_migrate(Path(os.environ["PREFECT_HOME"])))
    server = uvicorn.Server(
        uvicorn.Config(create_app, factory=True, log_level="error", access_log=False, lifespan="on")
    )
    threading.Thread(target=_watch_parent, args=[server], daemon=True).start()
    server.run(sockets=[listener])


async def _migrate(home: Path) -> None:
    """Bring the database up to date, one process at a time: two that start on a new one would both create it."""
    from prefect.server.database import provide_database_interface

    with (home / "migration.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        await provide_database_interface().create_db()


def _watch_parent(server: object) -> None:
    sys.stdin.buffer.read()
    server.should_exit = True  # type: ignore[attr-defined]
    time.sleep(GRACE_S)
    os._exit(0)  # an open connection may keep it from ending; SQLite loses nothing by it


if __name__ == "__main__":
    main()

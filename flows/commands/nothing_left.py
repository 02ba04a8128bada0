"""Bad input leaves nothing behind: a store that a command made only to fail is taken away again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelmodel.errors import InputError
from flows.embedded import NoServerError
from flows.store import Store, StoreError
from schemas.errors import DocumentError


@contextmanager
def nothing_left(store: Store) -> Iterator[None]:
    """Inside, the store's folder exists. Where it did not before and the input is bad, it is gone afterwards.

    Every command inside holds the folder, shared: what another process uses, or has a run in, stays.
    """
    missing = [folder for folder in (store.root, *store.root.parents) if not folder.exists()]
    store.make()
    descriptor = os.open(store.root, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    except (InputError, DocumentError, StoreError, NoServerError):
        if missing and not store.run_ids():
            _remove(descriptor, missing)
        raise
    finally:
        os.close(descriptor)


def _remove(descriptor: int, made: list[Path]) -> None:
    """Take away the folders that were made, the innermost with all in it; not while another process holds it."""
    with contextlib.suppress(OSError):  # held by another, or filled by another meanwhile: then it is theirs
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(made[0])
        for folder in made[1:]:
            folder.rmdir()

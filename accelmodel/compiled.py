"""How this room compiles its hot loops: numba, cached on disk, without reference counting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# `_nrt` off: what is compiled here allocates nothing, and counting references to the arrays that every step of an event
# loop is given takes three quarters of its time. Compilation fails, by name, where something does allocate.
# `nogil`: what touches no Python object needs no lock, so replications run side by side in threads.
# `forceinline`: a call hands on every array as seven words, which took two thirds of the time of an event.
_OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False, "nogil": True, "forceinline": True}


def _stamp() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every source whose functions may be inlined into another's."""
    room = Path(__file__).parent
    paths = sorted((*(room / "replay").glob("*.py"), room / "sharing.py", Path(__file__)))
    return tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in paths)


_STAMP = _stamp()


def compiled(function: Function) -> Function:
    """Compile a function of numbers, arrays and tuples of them that allocates nothing.

    Numba keeps code until the file of the function itself changes; code that holds another file's functions must go
    when any of them does, or an old engine would run on silently.
    """
    dispatcher = numba.njit(**_OPTIONS)(function)
    kept = dispatcher._cache._cache_file
    kept._source_stamp = (kept._source_stamp, _STAMP)
    return cast("Function", dispatcher)

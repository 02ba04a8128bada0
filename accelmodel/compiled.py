"""How this room compiles its hot loops: numba, cached on disk, without reference counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# `_nrt` off: what is compiled here allocates nothing, and counting references to the arrays that every step of an event
# loop is given takes three quarters of its time. Compilation fails, by name, where something does allocate.
# `nogil`: what touches no Python object needs no lock, so replications run side by side in threads.
_OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False, "nogil": True}


def compiled(function: Function) -> Function:
    """Compile a function of numbers, arrays and tuples of them that allocates nothing."""
    return cast("Function", numba.njit(**_OPTIONS)(function))

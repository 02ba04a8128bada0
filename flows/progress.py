"""Who wants to know how far a run is: the terminal, a test, nobody."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar

Watcher = Callable[[str, int, int], None]
"""Called with a stage, how many of its items are done, and how many there are."""


def nobody(stage: str, done: int, total: int) -> None:
    """Nobody watches."""


watcher: ContextVar[Watcher] = ContextVar("watcher", default=nobody)


def warn(sentence: str) -> None:
    """Tell the user on standard error what was mended and need not stop the run."""
    print(f"warning: {sentence}", file=sys.stderr)

"""The one exception of this room: an input that cannot be used, said so that a reader can mend it."""

from __future__ import annotations

from functools import partial
from typing import Any


class InputError(ValueError):
    """Bad input. The message names stage, object, what was expected, what was found and the remedy.

    Infeasible and undecidable outcomes are not errors: stages return them as values with numbers.
    """

    def __init__(self, *, stage: str, where: str, expected: str, found: str, remedy: str) -> None:
        self.stage, self.where, self.expected, self.found, self.remedy = stage, where, expected, found, remedy
        super().__init__(f"{stage}: {where}: expected {expected}, found {found}. {remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        """How it goes from one process to another: its parts have names."""
        names = ("stage", "where", "expected", "found", "remedy")
        return partial(type(self), **{name: getattr(self, name) for name in names}), ()

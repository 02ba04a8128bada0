"""How much of a run goes at once on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

from schemas.errors import DocumentError

WORKERS_VARIABLE = "TILEGATE_WORKERS"


def workers_of(environment: Mapping[str, str] = os.environ) -> int:
    """How many stages, or replications of one stage, go at once; 2 where nothing is said."""
    said = environment.get(WORKERS_VARIABLE, "2")
    if not (said.isascii() and said.isdigit() and 1 <= int(said) <= 1024):
        raise refused(WORKERS_VARIABLE, "a whole number from 1 to 1024", repr(said), "Correct or unset it.")
    return int(said)


def refused(variable: str, expected: str, found: str, remedy: str) -> DocumentError:
    """An environment variable that says what cannot be."""
    return DocumentError(source="environment", where=variable, expected=expected, found=found, remedy=remedy)

"""Words of the report: numbers as everywhere else in tilegate, the stages, and names of the contract as words."""

from __future__ import annotations

from typing import Final

from schemas.words import (
    MISSING,
    NEARLY_NONE,
    NO_BREAK,
    PLAIN,
    Scale,
    bytes_scale,
    bytes_text,
    count,
    listed,
    number,
    percent,
    points,
    signed_percent,
    spaced,
    stated_percent,
    time_scale,
    time_text,
    whole,
    worsening,
)

__all__ = [
    "MISSING", "NEARLY_NONE", "NO_BREAK", "PLAIN", "STAGES", "Scale", "bytes_scale", "bytes_text", "count", "listed",
    "number", "percent", "points", "severity_words", "signed_percent", "spaced", "stated_percent", "time_scale",
    "time_text", "verdict_word", "whole", "worsening",
]  # fmt: skip

STAGES: Final = ("ingress", "lowering", "fusion", "tiling", "placement", "execution", "scheduling", "assembly")
_SEVERITIES: Final[dict[str, str]] = {"blocking": "blocking", "warning": "not blocking"}


def verdict_word(verdict: str) -> str:
    return spaced(verdict)


def severity_words(severity: str) -> str:
    """How much a check weighs, for readers: a run has warnings of another sort."""
    return _SEVERITIES.get(severity, spaced(severity))

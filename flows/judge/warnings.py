"""Warnings of the replications of one side that differ only in their numbers, said once."""

from __future__ import annotations

import re
from collections.abc import Iterable

_REPLICATION = re.compile(r"(?P<side>\w+), replication \d+: (?P<text>.*)", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def folded(warnings: Iterable[str], replications: int) -> tuple[str, ...]:
    """`candidate, replication 3: TEXT` of several replications as `candidate, in 8 of 8 replications: TEXT`, with the
    range of each number that differs. replications: how many each side has. Other warnings stay as they are."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for warning in warnings:
        found = _REPLICATION.fullmatch(warning)
        key = (warning,) if found is None else (found["side"], _NUMBER.sub("#", found["text"]))
        groups.setdefault(key, []).append(warning if found is None else found["text"])
    return tuple(_one(key, texts, replications) for key, texts in groups.items())


def _one(key: tuple[str, ...], texts: list[str], replications: int) -> str:
    if len(key) == 1:
        return texts[0]
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ranges = iter([_range(numbers) for numbers in columns])
    said = _NUMBER.sub(lambda _: next(ranges), texts[0])
    return f"{key[0]}, in {len(texts)} of {replications} replications: {said}"


def _range(numbers: tuple[str, ...]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if float(low) == float(high) else f"{low} to {high}"

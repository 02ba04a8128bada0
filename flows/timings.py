"""Where the time of a run went: the stages' own work, and what orchestrating it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def worked_s(log: Iterable[Mapping[str, Any]], pid: int, since_s: float) -> float:
    """Wall time in which this process worked on at least one stage, from the lines of an execution log."""
    open_items: dict[tuple[str, str], float] = {}
    spans: list[tuple[float, float]] = []
    for line in log:
        if line["pid"] != pid or line["at_s"] < since_s:
            continue
        key = line["stage"], line["item"]
        if line["event"] == "started":
            open_items[key] = line["at_s"]
        elif key in open_items:
            spans.append((open_items.pop(key), line["at_s"]))
    return _union_s(spans)


def _union_s(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total

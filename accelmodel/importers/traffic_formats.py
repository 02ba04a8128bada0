"""Formats of recorded traffic, by their columns, and which column of a file is which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accelmodel.errors import InputError
from accelmodel.traffic import PS_PER_S

UNITS_PS = {"s": PS_PER_S, "ms": 10**9, "us": 10**6, "ns": 10**3, "ps": 1}


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is known by its columns. stream, iterations: "" where it has none. unit: of arrivals that are plain
    numbers. marks: further columns that tell it from formats of the same names."""

    name: str
    arrival: str
    size: str
    stream: str
    iterations: str
    unit: str
    marks: tuple[str, ...] = ()


FORMATS = (
    Format("tilegate", "arrival_s", "size", "stream", "iterations", "s"),
    Format("Azure LLM trace", "TIMESTAMP", "ContextTokens", "", "GeneratedTokens", "s"),
    Format("BurstGPT trace", "Timestamp", "Request tokens", "Model", "Response tokens", "s"),
    Format("Alibaba Bailian trace", "timestamp", "input_length", "type", "output_length", "s", ("chat_id",)),
    Format("Mooncake trace", "timestamp", "input_length", "", "output_length", "ms"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value stands in the file, for messages. first: number of the first row of data."""

    path: Path
    row: str
    first: int

    def wrong(self, index: int | None, expected: str, found: str, remedy: str) -> InputError:
        at = "" if index is None else f", {self.row} {self.first + index}"
        where = f"traffic {self.path}{at}"
        return InputError(stage="ingress", where=where, expected=expected, found=found, remedy=remedy)


def choose(source: Source, names: tuple[str, ...], columns: Mapping[str, str]) -> Format:
    """Columns given by name, else those of the known format whose arrival and size are both there."""
    known = next((f for f in FORMATS if {f.arrival, f.size, *f.marks} <= set(names)), None)
    arrival = columns.get("arrival", known.arrival if known else "")
    size = columns.get("size", known.size if known else "")
    stream = columns.get("stream", known.stream if known and known.stream in names else "")
    repeats = known.iterations if known and known.iterations in names else ""
    iterations = columns.get("iterations", repeats)
    roles = (("arrival", arrival), ("size", size), ("stream", stream), ("iterations", iterations))
    for role, name in roles:
        if role in ("stream", "iterations") and not name:
            continue
        if name not in names:
            found = f"{name!r} among the columns {', '.join(names)[:200]}" if name else f"only {', '.join(names)[:200]}"
            remedy = f"Name the column under traffic.file.columns.{role}."
            raise source.wrong(None, f"a column for {role}", found, remedy)
        if names.count(name) > 1:
            raise source.wrong(None, f"one column {name!r}", f"{names.count(name)}", "Rename the columns apart.")
    suffix = arrival.rpartition("_")[2]
    default = known.unit if known and arrival == known.arrival else suffix if suffix in UNITS_PS else "s"
    unit = columns.get("unit", default)
    if unit not in UNITS_PS:
        raise source.wrong(None, f"a unit of {', '.join(UNITS_PS)}", repr(unit), "Correct traffic.file.columns.unit.")
    return Format(known.name if known else "by column names", arrival, size, stream, iterations, unit)

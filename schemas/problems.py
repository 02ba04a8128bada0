"""One pydantic error in plain words: field path, what was expected, what was found, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Location = tuple[str | int, ...]

UNITS: Mapping[str, str] = {
    "ps": "picoseconds", "ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds",
    "hz": "Hz", "khz": "kHz", "mhz": "MHz", "ghz": "GHz",
    "c": "degrees Celsius", "f": "degrees Fahrenheit", "k": "kelvin", "w": "watts", "mw": "milliwatts",
    "kw": "kilowatts", "bytes": "bytes", "kb": "kB", "mb": "MB", "gb": "GB", "kib": "KiB", "mib": "MiB", "gib": "GiB",
    "flops": "flops", "bytes_per_ns": "bytes per ns", "gb_per_s": "GB per second", "flops_per_ns": "flops per ns",
    "tflops": "teraflops", "per_s": "events per second", "per_ms": "events per millisecond",
    "percent": "percent", "share": "a share between 0 and 1",
}  # fmt: skip
_LONGEST_FIRST = sorted(UNITS, key=len, reverse=True)
_MAX_FOUND = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """rank: what to say first; a wrong key explains a missing one, so it comes before. kind: pydantic's name of it."""

    location: Location
    where: str
    expected: str
    found: str
    remedy: str
    rank: int
    kind: str


def describe_error(model_type: type[BaseModel], error: Mapping[str, Any]) -> Problem:
    """A Problem from one entry of pydantic's `errors()`."""
    location: Location = tuple(error["loc"])
    where = field_path(location) or "document"
    kind, found = str(error["type"]), _shown(error.get("input"))
    if kind == "extra_forbidden":
        known = _fields_at(model_type, location[:-1])
        remedy = _unknown_key_remedy(str(location[-1]), known)
        return Problem(location, where, "a field of that part", f"unknown key {location[-1]!r}", remedy, 0, kind)
    if kind == "missing":
        return Problem(location, where, "a value", "nothing", f"Add {where}{_unit_words(location)}.", 3, kind)
    if kind == "value_error":
        return Problem(location, where, "parts that agree", f"a contradiction: {_plain_message(error)}", "", 2, kind)
    if kind == "finite_number":
        return Problem(location, where, "a finite number", found, f"Give a number{_unit_words(location)}.", 1, kind)
    if kind == "string_pattern_mismatch":
        expected = f"text of the form {error['ctx']['pattern']}"
        return Problem(location, where, expected, found, "", 1, kind)
    expected = _plain_message(error)
    return Problem(location, where, expected, found, _value_remedy(kind, location, error), 1, kind)


def field_path(location: Location) -> str:
    """`workloads[0].buckets[1].name`. Pydantic's own marks (`[key]`) are kept as they are."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part == "[key]":
            path += " (the key)"
        else:
            path += f".{part}" if path else str(part)
    return path


def split_unit(key: str) -> tuple[str, str]:
    """`clock_mhz` -> (`clock`, `mhz`); a key without a known unit at its end -> (key, "")."""
    for unit in _LONGEST_FIRST:
        if key.lower().endswith(f"_{unit}"):
            return key[: -len(unit) - 1], unit
    return key, ""


def _unknown_key_remedy(key: str, known: tuple[str, ...]) -> str:
    """The same quantity in another unit, else a near spelling, else what there is."""
    stem, unit = split_unit(key)
    for field in known:
        field_stem, field_unit = split_unit(field)
        if field_unit and field_stem == stem and field_unit != unit:
            return f"The unit expected is {UNITS[field_unit]}: write it as {field!r}, in {UNITS[field_unit]}."
    close = get_close_matches(key, known, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"The fields are {', '.join(known)}." if known else "Remove it."


def _value_remedy(kind: str, location: Location, error: Mapping[str, Any]) -> str:
    if kind == "literal_error":
        allowed = [part.strip("' ") for part in str(error["ctx"]["expected"]).replace(" or ", ", ").split(", ")]
        close = get_close_matches(str(error.get("input")), allowed, n=1, cutoff=0.8)
        return f"Did you mean {close[0]!r}?" if close else "Use one of these."
    if kind in ("float_type", "int_type", "int_from_float"):
        return f"Give a plain number{_unit_words(location)}, without quotes or unit."
    return ""


def _unit_words(location: Location) -> str:
    names = [part for part in location if isinstance(part, str)]
    unit = split_unit(names[-1])[1] if names else ""
    return f" in {UNITS[unit]}" if unit else ""


def _plain_message(error: Mapping[str, Any]) -> str:
    message = str(error["msg"])
    for prefix in ("Value error, ", "Input should be "):
        message = message.removeprefix(prefix)
    return message


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_FOUND else f"{text[:_MAX_FOUND]}…"


def _fields_at(model_type: type[BaseModel], location: Location) -> tuple[str, ...]:
    """Names (aliases where there are any) of the fields of the part of a document at `location`."""
    annotations: list[Any] = [model_type]
    for part in location:
        annotations = [inner for annotation in annotations for inner in _step(annotation, part)]
    return tuple(field.alias or name for annotation in annotations for name, field in _model_fields(annotation).items())


def _step(annotation: Any, part: str | int) -> Iterator[Any]:
    """What may stand below `part` in a value of this type."""
    if isinstance(part, str):
        for name, field in _model_fields(annotation).items():
            if part in (name, field.alias):
                yield from _unwrap(field.annotation)
    for argument in get_args(annotation):
        if argument is not Ellipsis and get_origin(annotation) in (tuple, dict, list):
            yield from _unwrap(argument)


def _unwrap(annotation: Any) -> Iterator[Any]:
    """The members of a union, without their Annotated wrapping."""
    if hasattr(annotation, "__metadata__"):
        yield from _unwrap(annotation.__origin__)
    elif get_origin(annotation) in (tuple, dict, list) or not get_args(annotation):
        yield annotation
    else:
        for member in get_args(annotation):
            yield from _unwrap(member)


def _model_fields(annotation: Any) -> Mapping[str, FieldInfo]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.model_fields
    return {}

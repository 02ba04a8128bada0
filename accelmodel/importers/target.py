"""Targets: plain values (as a YAML file holds them) into a `Target`, each wrong field named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

from accelmodel.errors import InputError
from accelmodel.graph import ELEMENT_BYTES
from accelmodel.target import Engine, Memory, Target

_REMEDY = "Correct the field in the target file; accelmodel/targets/README.md lists every field."
_SCOPES = {"sram": "core", "l2": "device", "dram": "device"}
_TEXT = ("name", "kind", "scope")
_LARGEST = 1e300  # beyond it a whole number may not fit a float
_WHOLE = ("cores", "accumulator_bytes", "capacity_bytes", "alignment_bytes")


def list_targets() -> tuple[str, ...]:
    """Names of the targets that come with the package, sorted."""
    names = (entry.name for entry in files("accelmodel.targets").iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def target_path(name: str) -> Path:
    """The YAML file of a target that comes with the package."""
    if name not in list_targets():
        raise InputError(
            stage="ingress", where=f"target {name!r}", expected=f"one of {', '.join(list_targets())}",
            found="no target of that name", remedy="Name one of these, or give the path of a target file.",
        )  # fmt: skip
    return Path(str(files("accelmodel.targets") / f"{name}.yaml"))


def read_target(mapping: Mapping[str, object]) -> Target:
    """A Target from plain values whose keys are the fields of `Target`, engines and memories nested.

    `sources` has a public source, or `assumed: why`, for every figure: keyed by its dotted path
    (`dram.bandwidth_bytes_per_ns`) or by a prefix of it that stands for all below (`engines.data`).
    """
    where = f"target {mapping.get('name', 'without a name')!r}"
    _same_keys(where, "", mapping, {field.name for field in fields(Target)})
    engines = _mapping(where, "engines", mapping["engines"])
    values: dict[str, object] = {
        key: _scalar(where, key, value) for key, value in mapping.items() if key not in ("engines", "sources", *_SCOPES)
    }
    values["engines"] = {str(name): _engine(where, str(name), value) for name, value in engines.items()}
    for level in _SCOPES:
        absent = level == "l2" and mapping["l2"] is None
        values[level] = None if absent else _memory(where, level, mapping[level])
    values["sources"] = _sources(where, mapping)
    return Target(**values)  # type: ignore[arg-type]  # every field was checked above


def _engine(where: str, name: str, value: object) -> Engine:
    path = f"engines.{name}"
    raw = _mapping(where, path, value)
    _same_keys(where, f"{path}.", raw, {field.name for field in fields(Engine)})
    _require(raw["name"] == name, where, f"{path}.name", repr(name), raw["name"])
    rates = _mapping(where, f"{path}.flops_per_ns", raw["flops_per_ns"])
    for precision in rates:
        known = precision in ELEMENT_BYTES
        _require(known, where, f"{path}.flops_per_ns", f"element types of {', '.join(ELEMENT_BYTES)}", precision)
    tile = raw["native_tile"]
    whole = isinstance(tile, list | tuple) and len(tile) == 3 and all(type(size) is int for size in tile)
    _require(whole, where, f"{path}.native_tile", "three whole numbers [m, n, k]", tile)
    return Engine(
        name=name,
        flops_per_ns={str(p): _number(where, f"{path}.flops_per_ns.{p}", rate) for p, rate in rates.items()},
        native_tile=(tile[0], tile[1], tile[2]),  # type: ignore[index]  # a sequence of three, as checked
        efficiency=_number(where, f"{path}.efficiency", raw["efficiency"]),
    )


def _memory(where: str, level: str, value: object) -> Memory:
    raw = _mapping(where, level, value)
    _same_keys(where, f"{level}.", raw, {field.name for field in fields(Memory)})
    _require(raw["name"] == level, where, f"{level}.name", repr(level), raw["name"])
    _require(raw["scope"] == _SCOPES[level], where, f"{level}.scope", repr(_SCOPES[level]), raw["scope"])
    return Memory(**{key: _scalar(where, f"{level}.{key}", item) for key, item in raw.items()})  # type: ignore[arg-type]


def _scalar(where: str, path: str, value: object) -> object:
    """One text, whole number or number, by what the field holds."""
    key = path.rpartition(".")[2]
    if key in _TEXT:
        _require(isinstance(value, str) and value != "", where, path, "a text", value)
        return value
    if key in _WHOLE:
        _require(type(value) is int, where, path, "a whole number", value)
        return value
    return _number(where, path, value)


def _number(where: str, path: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        raise _wrong(where, path, "a finite number", repr(value)[:80])
    return float(value)


def _sources(where: str, mapping: Mapping[str, object]) -> dict[str, str]:
    sources = _mapping(where, "sources", mapping["sources"])
    figures = tuple(_figures("", mapping))
    for key, text in sources.items():
        _require(isinstance(text, str) and text.strip() != "", where, f"sources.{key}", "a text", text)
        if not any(_covers(str(key), figure) for figure in figures):
            raise _wrong(where, f"sources.{key}", "the dotted path of a figure in this file", "no such figure")
    for figure in figures:
        if not any(_covers(str(key), figure) for key in sources):
            raise _wrong(where, f"sources.{figure}", "a public source, or 'assumed: why'", "none")
    return {str(key): str(text) for key, text in sources.items()}


def _figures(prefix: str, value: Mapping[str, object]) -> Iterator[str]:
    """Dotted paths of all figures: everything but texts, the sources and the map of names in front of engines."""
    for key, item in value.items():
        if key == "sources" or key in _TEXT or item is None:
            continue
        if isinstance(item, Mapping) and key != "flops_per_ns":
            yield from _figures(f"{prefix}{key}.", item)
        else:
            yield f"{prefix}{key}"


def _covers(key: str, figure: str) -> bool:
    return figure == key or figure.startswith(f"{key}.")


def _mapping(where: str, path: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _wrong(where, path, "a mapping of fields", repr(value)[:80])
    return value


def _same_keys(where: str, prefix: str, mapping: Mapping[str, object], expected: set[str]) -> None:
    for key in sorted(expected - set(mapping)):
        raise _wrong(where, f"{prefix}{key}", "a value", "nothing")
    for key in sorted(set(map(str, mapping)) - expected):
        raise _wrong(where, f"{prefix}{key}", f"one of the fields {', '.join(sorted(expected))}", "an unknown field")


def _require(holds: bool, where: str, path: str, expected: str, found: object) -> None:
    if not holds:
        raise _wrong(where, path, expected, repr(found)[:80])


def _wrong(where: str, path: str, expected: str, found: str) -> InputError:
    return InputError(stage="ingress", where=f"{where}, field {path}", expected=expected, found=found, remedy=_REMEDY)

"""A candidate file and everything it names, read and checked before a run exists.

The candidate file is its author's: it may name models, traffic and profiles anywhere. What a model names (external
data) is not trusted: it must lie in the model's own folder, which the importer enforces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from accelmodel.importers.target import list_targets, read_target, target_path
from accelmodel.settings import (
    AssemblySettings,
    ExecutionSettings,
    FusionSettings,
    IngressSettings,
    LoweringSettings,
    PlacementSettings,
    SchedulingSettings,
    Settings,
    TilingSettings,
)  # fmt: skip
from accelmodel.target import Target
from accelmodel.traffic import Traffic
from flows.digest import file_digest, value_digest
from flows.fit import require_streams, require_target
from flows.safe_yaml import YamlDocument, read_yaml
from schemas.candidate import Candidate
from schemas.decision import InputDigest
from schemas.documents import parse
from schemas.errors import DocumentError
from schemas.settings import StageSettings
from schemas.target import Target as TargetDocument

_MOST_SAID = 300  # characters of a path in a message
_SETTINGS = {
    "ingress": IngressSettings, "lowering": LoweringSettings, "fusion": FusionSettings, "tiling": TilingSettings,
    "placement": PlacementSettings, "execution": ExecutionSettings, "scheduling": SchedulingSettings,
    "assembly": AssemblySettings,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadedCandidate:
    """A candidate file, valid, with every file it names found and digested.

    models: workload -> ONNX file. profiles: (side, workload) -> Parquet file. traffic: recorded traffic, where there
    is any. inputs: digest of each file, the candidate file first. All paths are absolute.
    """

    path: Path
    document: Candidate
    target: Target
    models: Mapping[str, Path]
    traffic: Path | None
    profiles: Mapping[tuple[str, str], Path]
    inputs: tuple[InputDigest, ...]

    @property
    def digest(self) -> str:
        """Of all that the run's results follow from, beside the code: not of where the files lie."""
        files = {entry.role: entry.sha256 for entry in self.inputs if entry.role != "candidate"}
        return value_digest({"candidate": self.document.model_dump(mode="json", by_alias=True), "files": files})

    def settings(self, side: str) -> Settings:
        """Settings of the eight stages of `comparator` or `candidate`."""
        return to_settings(getattr(self.document, side).settings)


def load_candidate(path: Path) -> LoadedCandidate:
    """Read a candidate file and digest what it names. DocumentError or InputError says file, field and remedy."""
    source = read_yaml(path)
    document = parse(Candidate, source.values, source.source, source.lines)
    folder = path.resolve().parent
    models, traffic, profiles = {}, None, {}
    inputs = [_input("candidate", path.resolve(), source, ())]
    target_file, target = _target(document.target, folder, source)
    require_target(document, target, source.source, source.lines)
    if document.traffic.generate is not None:
        require_streams(document, document.traffic.generate.streams, source.source, source.lines)
    inputs.append(_input("target", target_file, source, ("target",)))
    for index, workload in enumerate(document.workloads):
        models[workload.name] = folder / workload.model
        inputs.append(_input(f"model:{workload.name}", folder / workload.model, source, ("workloads", index, "model")))
    if document.traffic.file is not None:
        traffic = folder / document.traffic.file.path
        inputs.append(_input("traffic", traffic, source, ("traffic", "file", "path")))
    for side in ("comparator", "candidate"):
        for index, profile in enumerate(getattr(document, side).profiles):
            found = folder / profile.path
            profiles[side, profile.workload] = found
            where = (side, "profiles", index, "path")
            inputs.append(_input(f"profile:{side}:{profile.workload}", found, source, where))
    inputs.extend(_external_data(models))
    return LoadedCandidate(path.resolve(), document, target, models, traffic, profiles, tuple(inputs))


def load_target(name: str) -> Target:
    """A built-in target by name, or the target of a file."""
    return _target(name, Path.cwd(), None)[1]


def recorded_traffic(loaded: LoadedCandidate) -> Traffic | None:
    """The traffic file that the candidate names, read; None where it generates its traffic."""
    from accelmodel.importers.traffic import read_traffic  # pyarrow, which most commands do not need

    file = loaded.document.traffic.file
    if file is None or loaded.traffic is None:
        return None
    return read_traffic(loaded.traffic, {str(role): name for role, name in file.columns.items()}, sort=file.sort)


def model_digests(inputs: Iterable[InputDigest], workload: str) -> list[str]:
    """Digests of a model's files, its external data included."""
    own = (f"model:{workload}", f"model:{workload}:")
    return [file.sha256 for file in inputs if file.role == own[0] or file.role.startswith(own[1])]


def to_settings(document: StageSettings) -> Settings:
    """The settings as the model takes them: field for field the same."""
    return settings_from(document.model_dump(mode="python"))


def settings_from(stages: Mapping[str, Mapping[str, Any]]) -> Settings:
    """The same from plain values, as JSON gives them back."""
    given = {name: {key: _tupled(item) for key, item in stage.items()} for name, stage in stages.items()}
    return Settings(**{name: kind(**given[name]) for name, kind in _SETTINGS.items()})  # type: ignore[arg-type]


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _target(name: str, folder: Path, source: YamlDocument | None) -> tuple[Path, Target]:
    known = list_targets()
    if name in known:
        path = target_path(name)
    elif os.path.isfile(folder / name):  # noqa: PTH113  (False, not an error, for what can be no path)
        path = folder / name
    else:
        close = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise DocumentError(
            source=source.source if source else "command line", where="target" if source else "--target",
            line=_line(source, ("target",)),
            expected=f"a target ({', '.join(known)}) or the path of a target file", found=repr(name)[:_MOST_SAID],
            remedy=f"{hint}Name one of these, or give a file as `tilegate schema target` describes it.",
        )  # fmt: skip
    content = read_yaml(path)
    parse(TargetDocument, content.values, content.source, content.lines)
    return path.resolve(), read_target(content.values)


def _input(role: str, path: Path, source: YamlDocument | None, where: tuple[str | int, ...]) -> InputDigest:
    """The digest of a file that the candidate file names at `where`."""
    field = ".".join(map(str, where)) or "file"
    line = _line(source, where)
    name = source.source if source else str(path)
    if not os.path.isfile(path):  # noqa: PTH113
        found = f"{'a folder:' if os.path.isdir(path) else 'no file'} {path}"[:_MOST_SAID]  # noqa: PTH112
        raise DocumentError(
            source=name, where=field, line=line, expected="an existing file", found=found,
            remedy="Correct the path; it is relative to the candidate file.",
        )  # fmt: skip
    try:
        digest, size = file_digest(path), path.stat().st_size
    except OSError as error:
        raise DocumentError(
            source=name, where=field, line=line, expected="a readable file",
            found=f"{path}: {error.strerror or error}", remedy="Check its permissions.",
        ) from error  # fmt: skip
    return InputDigest(role=role, path=str(path.resolve()), sha256=digest, bytes=size)


def _line(source: YamlDocument | None, where: tuple[str | int, ...]) -> int | None:
    return source.lines.get(where) if source is not None and where else None


def _external_data(models: Mapping[str, Path]) -> Iterator[InputDigest]:
    """Digests of the files that hold a model's weights outside it; load_model has refused what leaves its folder."""
    from accelmodel.importers.onnx_file import load_model

    for workload, path in models.items():
        model = load_model(path)
        entries = (entry for tensor in model.graph.initializer for entry in tensor.external_data)
        for location in sorted({entry.value for entry in entries if entry.key == "location"}):
            yield _input(f"model:{workload}:{location}", path.parent / location, None, ())

"""YAML that strangers wrote, read without surprises: bounded in size, depth, aliases and nodes; duplicate keys refused.

Gives plain values and a map from each field's path to its line, so that messages can say where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from schemas.errors import DocumentError

Location = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_NODES = 50_000
MAX_ALIASES = 64

# The parser in C where PyYAML has it: composing a large file in Python takes seconds.
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """values: the document's plain values. lines: field path -> line, counted from 1. source: the file's name."""

    values: Any
    lines: Mapping[Location, int]
    source: str


def read_yaml(path: Path) -> YamlDocument:
    """The one document of a YAML file. DocumentError names file, line and remedy."""
    source = str(path)
    return parse_yaml(_read_bounded(path, source), source)


def parse_yaml(text: str, source: str) -> YamlDocument:
    """The one document of a YAML text. Aliases are followed, and each place they stand at counts as nodes again."""
    try:
        events = list(_bounded_events(text, source))
        nodes = _compose(text)
    except yaml.YAMLError as error:
        raise _not_yaml(error, source) from error
    except RecursionError as error:
        raise _refused(source, "document", f"at most {MAX_DEPTH} levels", "more", "Flatten it.") from error
    if nodes is None:
        raise _refused(source, "document", "fields and values", f"nothing ({len(events)} events)", "Write the fields.")
    walk = _Walk(source)
    walk.visit(nodes, (), 0)
    return YamlDocument(_construct(nodes, source), walk.lines, source)


def _read_bounded(path: Path, source: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise _refused(source, "file", "an existing file", "nothing at this path", "Correct the path.") from error
    except OSError as error:
        found = "a folder" if path.is_dir() else f"one that cannot be read ({error.strerror or error})"
        raise _refused(
            source, "file", "a readable file", found, "Correct the path, or the file's permissions."
        ) from error
    if len(content) > MAX_BYTES:
        raise _refused(source, "file", f"at most {MAX_BYTES} bytes", "more", "Split it, or shorten its descriptions.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(source, "file", "UTF-8 text", f"byte {error.start} is none", "Save it as UTF-8.") from error


def _bounded_events(text: str, source: str) -> Any:
    """The parser's events, stopped at the first limit: before anything is built from them."""
    depth = aliases = nodes = 0
    for event in yaml.parse(text, Loader=_BASE):
        line = event.start_mark.line + 1 if event.start_mark else 1
        opens = isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent)
        depth += opens - isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        nodes += opens or isinstance(event, yaml.ScalarEvent)
        for name, found, limit in (("levels", depth, MAX_DEPTH), ("aliases", aliases, MAX_ALIASES),
                                   ("values", nodes, MAX_NODES)):  # fmt: skip
            if found > limit:
                raise _refused(source, "document", f"at most {limit} {name}", f"more at line {line}", "Shorten it.")
        yield event


def _compose(text: str) -> yaml.Node | None:
    loader = _BASE(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


class _Walk:
    """Visits every node once for each place it stands at, within MAX_NODES; notes lines and refuses duplicate keys."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[Location, int] = {}
        self.visited = 0

    def visit(self, node: yaml.Node, location: Location, depth: int) -> None:
        self.visited += 1
        line = node.start_mark.line + 1
        if self.visited > MAX_NODES or depth > MAX_DEPTH:
            raise _refused(
                self.source, "document", f"at most {MAX_NODES} values in {MAX_DEPTH} levels, aliases followed",
                f"more at line {line}", "Write the values out instead of aliases.",
            )  # fmt: skip
        self.lines.setdefault(location, line)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.visit(item, (*location, index), depth + 1)
        if isinstance(node, yaml.MappingNode):
            self._visit_mapping(node, location, depth)

    def _visit_mapping(self, node: yaml.MappingNode, location: Location, depth: int) -> None:
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                raise _refused(self.source, "document", "plain keys", f"another kind at line {line}", "Write it out.")
            if key.value in seen:
                where = ".".join(map(str, (*location, key.value)))
                raise _refused(
                    self.source, where, "each key once", f"it at lines {seen[key.value]} and {line}", "Remove one."
                )
            seen[key.value] = line
            self.visit(value, (*location, key.value), depth + 1)
            self.lines[(*location, key.value)] = line


def _construct(node: yaml.Node, source: str) -> Any:
    loader = _BASE("")
    try:
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _not_yaml(error, source) from error
    except ValueError as error:  # a date such as 2025-02-30
        raise _refused(source, "document", "values that exist", str(error), "Correct it.") from error
    finally:
        loader.dispose()


def _not_yaml(error: yaml.YAMLError, source: str) -> DocumentError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return DocumentError(
        source=source, where="document", line=None if mark is None else mark.line + 1, expected="one YAML document",
        found=f"text that is not YAML ({problem})", remedy="Correct the YAML there; plain values only, no tags.",
    )  # fmt: skip


def _refused(source: str, where: str, expected: str, found: str, remedy: str) -> DocumentError:
    return DocumentError(source=source, where=where, expected=expected, found=found, remedy=remedy)

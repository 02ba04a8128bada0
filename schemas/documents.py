"""The one way into a document: `parse` gives the document, or one message that a reader can act on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from schemas.candidate import Candidate
from schemas.decision import Decision, Run
from schemas.errors import DocumentError
from schemas.policy import Policy
from schemas.problems import Location, Problem, describe_error
from schemas.tables import TABLES, describe
from schemas.target import Target

SCHEMAS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {"candidate": Candidate, "policy": Policy, "target": Target, "run": Run, "decision": Decision}
)
MAX_OTHERS = 5

DocumentType = TypeVar("DocumentType", bound=BaseModel)
LineMap = Mapping[Location, int]


def parse(model_type: type[DocumentType], mapping: object, source: str, lines: LineMap | None = None) -> DocumentType:
    """The document that `mapping` (plain values, as a YAML or JSON file holds them) spells.

    source: the file's name, for the message. lines: field path -> line of the file, counted from 1.
    Strict: a text is no number, true is no 1; texts stand for dates. Raises DocumentError.
    """
    if not isinstance(mapping, Mapping):
        raise DocumentError(
            source=source, where="document", line=None if lines is None else lines.get(()),
            expected="a mapping of fields to values", found=type(mapping).__name__,
            remedy=f"Write `field: value` lines; {_schema_hint(model_type)}",
        )  # fmt: skip
    text = _as_json(mapping, source)
    try:
        return model_type.model_validate_json(text, strict=True)
    except ValidationError as error:
        problems = [describe_error(model_type, dict(item)) for item in error.errors(include_url=False)]
    problems = _causes(problems)
    raise _document_error(problems, source, lines or {}, model_type)


def json_schema(name: str) -> dict[str, Any]:
    """JSON schema of a document (SCHEMAS), or the columns of a table (TABLES). KeyError names what there is."""
    if name in SCHEMAS:
        return SCHEMAS[name].model_json_schema(by_alias=True)
    if name in TABLES:
        return {"table": name, "description": TABLES[name].description, "columns": describe(name)}
    raise KeyError(f"no schema {name!r}: documents are {', '.join(SCHEMAS)}; tables are {', '.join(TABLES)}")


def _as_json(mapping: Mapping[Any, Any], source: str) -> str:
    try:
        return json.dumps(mapping, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentError(
            source=source, where="document", expected="texts, numbers, dates, lists and mappings", found=str(error),
            remedy="Write plain values only.",
        ) from error  # fmt: skip


def _plain(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__}: {value!r:.80}")


def _causes(problems: list[Problem]) -> list[Problem]:
    """Without what follows from another problem: a list is called too short when its only item is wrong."""
    locations = [problem.location for problem in problems]

    def has_inner(outer: Location) -> bool:
        return any(len(inner) > len(outer) and inner[: len(outer)] == outer for inner in locations)

    return [problem for problem in problems if problem.kind != "too_short" or not has_inner(problem.location)]


def _document_error(problems: list[Problem], source: str, lines: LineMap, model_type: type[BaseModel]) -> DocumentError:
    """One error out of all: an unknown key before what it may have caused (a field that is missing)."""
    first, *rest = sorted(problems, key=lambda problem: problem.rank)
    others = [f"{item.where}: expected {item.expected}, found {item.found}" for item in rest[:MAX_OTHERS]]
    if len(rest) > MAX_OTHERS:
        others.append(f"{len(rest) - MAX_OTHERS} more")
    return DocumentError(
        source=source, where=first.where, line=_line(first.location, lines), expected=first.expected,
        found=first.found, remedy=first.remedy or f"Correct it; {_schema_hint(model_type)}", others=tuple(others),
    )  # fmt: skip


def _line(location: Location, lines: LineMap) -> int | None:
    """Line of the field, or of the nearest part around it that stands in the file."""
    for length in range(len(location), -1, -1):
        if location[:length] in lines:
            return lines[location[:length]]
    return None


def _schema_hint(model_type: type[BaseModel]) -> str:
    for name, known in SCHEMAS.items():
        if known is model_type:
            return f"`tilegate schema {name}` lists all fields."
    return "see the field's description."

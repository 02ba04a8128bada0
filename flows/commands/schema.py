"""`tilegate schema` and `tilegate version`."""

from __future__ import annotations

import json

from flows.digest import code_digest, versions


def print_schema(name: str | None) -> int:
    """Print one schema, or the names of all."""
    from schemas.documents import SCHEMAS, json_schema
    from schemas.errors import DocumentError
    from schemas.tables import TABLES

    if name is None:
        print(json.dumps({"documents": list(SCHEMAS), "tables": list(TABLES)}, indent=2))
        return 0
    try:
        print(json.dumps(json_schema(name), indent=2))
    except KeyError:
        known = ", ".join([*SCHEMAS, *TABLES])
        raise DocumentError(
            source="schema", where="NAME", expected=f"one of {known}", found=repr(name), remedy="Name one of these."
        ) from None
    return 0


def print_versions(*, as_json: bool) -> int:
    """Print versions, and the digest of the code, which is part of every cache key."""
    if as_json:
        print(json.dumps({"versions": versions(), "code_digest": code_digest()}))
        return 0
    for name, number in versions().items():
        print(f"{name:<12} {number}")
    print(f"{'code':<12} {code_digest()[:12]}")
    return 0

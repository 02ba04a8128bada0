"""Anchors of the page: the name of a row (`artifact#key/key`) as an HTML id, and links to where a proof stands."""

from __future__ import annotations

import re
from collections.abc import Collection
from hashlib import sha256
from typing import Final

from reports.blocks import Cell
from schemas.anchors import anchor

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 60

SECTION_OF: Final[dict[str, str]] = {
    "checks": "matrix", "metrics": "primary", "requests": "tails", "mechanisms": "swaps", "ops": "worksheet",
    "kernels": "worksheet", "sweep": "lens", "timeline": "timeline", "buffers": "timeline", "quality": "quality",
    "lock": "lock", "run": "lock", "run.json": "lock", "profile_kernels": "measured", "history": "history",
    "trials": "trials", "scheduling": "scheduling",
}  # fmt: skip
"""Artifact -> the section of the page where its rows stand."""


def html_id(name: str) -> str:
    """A stable, safe id for a row name. `~` parts the keys: it needs no escape in a link and no name holds it.

    A part that had to be changed to be safe keeps a few digits of its digest, so that two parts never become one.
    """
    artifact, _, keys = name.partition("#")
    return "~".join(_slug(part) for part in (artifact, *keys.split("/")))


def row_id(artifact: str, *keys: object) -> str:
    """Id of a row by its keys, the same that a link to its name leads to."""
    return html_id(anchor(artifact, *keys))


_ARTIFACT_WORDS: Final[dict[str, str]] = {
    "mechanisms": "swap table", "checks": "validation matrix", "lock": "evidence lock", "kernels": "worksheet",
    "sweep": "bandwidth lens", "metrics": "primary metrics", "requests": "latency", "profile_kernels": "profile",
}  # fmt: skip


def proof_words(proof: str) -> str:
    """A row name as words: `mechanisms#latency-p99/overall/prefix/fusion` -> `swap table: latency-p99, overall, …`."""
    artifact, _, keys = proof.partition("#")
    return f"{_ARTIFACT_WORDS.get(artifact, artifact)}: {', '.join(keys.split('/'))}" if keys else proof


def proof_cell(proof: str, ids: Collection[str]) -> Cell:
    """A proof as a link to its row; to its section where the page does not show that row; else plain text."""
    if not proof:
        return Cell("missing: no proving artifact", tone="warn")
    artifact = proof.partition("#")[0]
    target = html_id(proof)
    if target in ids:
        return Cell(proof_words(proof), href=f"#{target}", title=proof)
    section = SECTION_OF.get(artifact.removesuffix(".parquet"))
    return Cell(proof_words(proof), href=f"#{section}" if section else "", title=proof)


def _slug(part: str) -> str:
    safe = _UNSAFE.sub("-", part)[:_LONGEST]
    return safe if safe == part and safe else f"{safe}-{sha256(part.encode()).hexdigest()[:6]}"

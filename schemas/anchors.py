"""How one row of an artifact is named: `artifact#key/key`. A finding's proof is such a name, and the page links to it.

The same row has the same name in every run, so links survive a re-run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ROW_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "ops": ("side", "workload", "bucket", "batch", "op"),
    "kernels": ("side", "workload", "bucket", "batch", "group"),
    "buffers": ("side", "workload", "bucket", "batch", "group", "buffer"),
    "quality": ("side", "workload", "output"),
    "metrics": ("side", "workload", "bucket", "batch", "evidence"),
    "sweep": ("side", "workload", "bucket", "batch", "policy"),
    "trials": ("side", "experiment", "label"),
    "checks": ("check", "scope"),
    "mechanisms": ("check", "scope", "experiment", "stage"),
    "lock": ("field",),
}
"""Artifact -> the columns that name a row, in order. `lock` are the fields of `run.json` that two sides share."""


def anchor(artifact: str, *keys: object) -> str:
    """Name of a row, e.g. `mechanisms#tail-p99/overall/prefix/fusion`."""
    return f"{artifact}#{'/'.join(str(key) for key in keys)}"


def row_anchor(artifact: str, row: Mapping[str, object]) -> str:
    """Name of a row from its columns. A KeyError means that the artifact has no named rows or the column is absent."""
    return anchor(artifact, *(row[key] for key in ROW_KEYS[artifact]))

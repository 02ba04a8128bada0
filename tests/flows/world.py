"""Small candidate files for tests: one transformer block, two buckets, a few hundred requests."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

TAGS = {"compiler": "1", "runtime": "1", "driver": "1", "firmware": "1", "hardware": "npu"}
CONDITIONS = {"clock_mhz": 1000, "temperature_c": 50, "power_w": 10, "throttling": False}


class Write(Protocol):
    """Writes a candidate file; `candidate`: settings of the candidate, by stage; `**changes`: whole parts."""

    def __call__(self, stem: str, /, candidate: Mapping[str, Any] | None = None, **changes: Any) -> Path: ...


def document(model: str) -> dict[str, Any]:
    """A valid candidate in which both sides are alike."""
    side = {"tags": TAGS, "conditions": CONDITIONS, "settings": {}}
    return {
        "schema": "tilegate/v1", "name": "case", "target": "edge-npu", "model_only": True,
        "workloads": [
            {
                "name": "block", "model": model, "batch_dim": "batch", "size_dim": "sequence",
                "buckets": [
                    {"name": "short", "shapes": {"sequence": 8}}, {"name": "long", "shapes": {"sequence": 16}}
                ],
            }
        ],
        "traffic": {
            "generate": {"kind": "poisson", "rate_per_s": 400, "duration_s": 1.5, "sizes": {6: 2, 8: 1, 12: 1}},
            "seed": 5,
        },
        "comparator": {"name": "stable", **copy.deepcopy(side)},
        "candidate": {"name": "next", **copy.deepcopy(side)},
        "policy": {"replications": 4, "rollback": {"window_s": 10, "min_samples": 100}},
    }  # fmt: skip


def save(folder: Path, stem: str, values: Mapping[str, Any]) -> Path:
    """Write a whole document."""
    path = folder / f"{stem}.yaml"
    path.write_text(yaml.safe_dump(dict(values), sort_keys=False))
    return path


def writer(folder: Path, model: Path) -> Write:
    """A function that writes candidate files into the folder."""

    def write(stem: str, /, candidate: Mapping[str, Any] | None = None, **changes: Any) -> Path:
        values = {**document(str(model)), "name": stem, **changes}
        if candidate is not None:
            values["candidate"] = {**values["candidate"], "settings": dict(candidate)}
        return save(folder, stem, values)

    return write

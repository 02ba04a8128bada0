"""`tilegate profile`: what a profile measured, by itself and against another of the same work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from accelmodel.profile import Profile
from accelmodel.profile_metrics import profile_metrics
from accelmodel.profile_pair import compare_profiles
from flows.commands.profile_print import print_comparison, print_profile
from flows.profiles import load_profile

INVALID_INPUT = 3


def profile_command(file: Path, against: Path | None = None, as_json: bool = False) -> int:
    """Print the measured metrics of `file`, and what changed from `against` to it.

    Exit code 3 where one of them holds no kernel: it is no measurement. What a profile does not hold is `missing`
    (null), never 0.
    """
    profile = load_profile(file)
    before = None if against is None else load_profile(against)
    comparison = None if before is None else compare_profiles(before, profile)
    if as_json:
        document = {
            **_document(file, profile),
            "against": None if against is None or before is None else _document(against, before),
            "comparison": None if comparison is None else asdict(comparison),
        }
        print(json.dumps(document))
    else:
        console = Console()
        for path, each in _given(file, profile, against, before):
            print_profile(console, path.name, each, profile_metrics(each))
        if comparison is not None:
            print_comparison(console, comparison)
    return INVALID_INPUT if profile.findings or (before is not None and before.findings) else 0


def _given(
    file: Path, profile: Profile, against: Path | None, before: Profile | None
) -> Iterator[tuple[Path, Profile]]:
    """The earlier one first."""
    if against is not None and before is not None:
        yield against, before
    yield file, profile


def _document(file: Path, profile: Profile) -> dict[str, Any]:
    metrics = profile_metrics(profile)
    return {
        "file": str(file), "kind": profile.kind, "metadata": asdict(profile.metadata),
        "devices_used": [asdict(device) for device in profile.devices_used()],
        "metrics": None if metrics is None else asdict(metrics), "findings": list(profile.findings),
        "warnings": list(profile.warnings),
    }  # fmt: skip

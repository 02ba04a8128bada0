"""The evidence lock: whether two sides may be compared at all.

Tags must agree, except the software tags that the candidate declares as changed; hardware and conditions can never be
declared. A blocking mismatch is a finding of stage `ingress`, gives HOLD and outranks everything.

A bundle (more than one changed stage, or more than one changed tag) is a finding but does not block by itself: its
evidence is as good as any other's, a non-inferiority test that passes holds for the bundle, and isolation still finds
which stage failed first. What it costs is the blame when something fails, so the advice is to split it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from flows.judge import words
from flows.judge.facts import STAGES
from schemas.candidate import SOFTWARE_TAGS, Tags
from schemas.decision import SideLock
from schemas.policy import Stage

TEMPERATURE_TOLERANCE_C = 5.0
CLOCK_TOLERANCE_SHARE = 0.01
POWER_TOLERANCE_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing in which the sides differ and must not, or that the candidate says of itself and is not so.

    field: as in `run.json`, e.g. `tags.driver`. blocking: whether it makes the comparison invalid.
    """

    kind: Literal["tag", "condition", "evidence", "declared", "bundle"]
    field: str
    comparator: str
    candidate: str
    blocking: bool
    text: str
    action: str


def compare_sides(comparator: SideLock, candidate: SideLock, declared: Collection[str]) -> tuple[Mismatch, ...]:
    """Every mismatch, blocking ones first.

    Tolerances: temperature within 5 C, clock within 1 % and power within 2 % of the comparator's, throttling equal.
    """
    found = [
        *_tags(comparator, candidate, declared),
        *_conditions(comparator, candidate),
        *_evidence(comparator, candidate),
        *_bundles(comparator, candidate),
    ]
    return tuple(sorted(found, key=lambda mismatch: not mismatch.blocking))


def changed_stages(comparator: SideLock, candidate: SideLock) -> tuple[Stage, ...]:
    """Stages whose settings differ, in flow order."""
    return tuple(stage for stage in STAGES if getattr(comparator.settings, stage) != getattr(candidate.settings, stage))


def _changed_tags(comparator: SideLock, candidate: SideLock) -> tuple[str, ...]:
    return tuple(tag for tag in Tags.model_fields if getattr(comparator.tags, tag) != getattr(candidate.tags, tag))


def _tags(comparator: SideLock, candidate: SideLock, declared: Collection[str]) -> Iterator[Mismatch]:
    changed = _changed_tags(comparator, candidate)
    for tag in changed:
        if tag in declared and tag in SOFTWARE_TAGS:
            continue
        values = getattr(comparator.tags, tag), getattr(candidate.tags, tag)
        can = tag in SOFTWARE_TAGS
        yield Mismatch(
            "tag", f"tags.{tag}", *values, True,
            f"{tag} is {values[0]!r} on the comparator and {values[1]!r} on the candidate"
            + ("" if can else "; hardware can never be declared as changed"),
            f"Declare {tag} under declared_changes if the candidate means to change it; else run the comparator again "
            f"with {values[1]!r}." if can else "Run both sides on the same hardware.",
        )  # fmt: skip
    for tag in sorted(set(declared) - set(changed)):
        value = str(getattr(comparator.tags, tag, "unknown"))
        yield Mismatch(
            "declared", f"tags.{tag}", value, value, False,
            f"the candidate declares {tag} as changed, and both sides say {value!r}",
            "Remove the declaration, or correct the tag of the side that is wrong.",
        )  # fmt: skip


def _conditions(comparator: SideLock, candidate: SideLock) -> Iterator[Mismatch]:
    base, own = comparator.conditions, candidate.conditions
    limits = (
        ("clock_mhz", "MHz", CLOCK_TOLERANCE_SHARE * base.clock_mhz, words.stated(CLOCK_TOLERANCE_SHARE)),
        ("temperature_c", "C", TEMPERATURE_TOLERANCE_C, f"{TEMPERATURE_TOLERANCE_C:g} C"),
        ("power_w", "W", POWER_TOLERANCE_SHARE * base.power_w, words.stated(POWER_TOLERANCE_SHARE)),
    )
    for name, unit, allowed, shown in limits:
        before, after = getattr(base, name), getattr(own, name)
        if not abs(after - before) <= allowed * (1 + 1e-12):
            yield Mismatch(
                "condition", f"conditions.{name}", f"{before:g} {unit}", f"{after:g} {unit}", True,
                f"{words.role(name.rsplit('_', 1)[0])} differs by {abs(after - before):g} {unit}, more than {shown}",
                "Measure both sides again under the same conditions; conditions cannot be declared as changed.",
            )  # fmt: skip
    if base.throttling != own.throttling:
        yield Mismatch(
            "condition", "conditions.throttling", _yes(base.throttling), _yes(own.throttling), True,
            "one side was throttled and the other was not", "Cool the device and measure both sides again.",
        )  # fmt: skip


def _evidence(comparator: SideLock, candidate: SideLock) -> Iterator[Mismatch]:
    base, own = set(comparator.evidence), set(candidate.evidence)
    if base != own:
        only = sorted(base ^ own)
        yield Mismatch(
            "evidence", "evidence", _listed(base), _listed(own), True,
            f"only one side has evidence of the kind {', '.join(only)}",
            f"Give {', '.join(only)} evidence of both sides, or of neither.",
        )  # fmt: skip


def _bundles(comparator: SideLock, candidate: SideLock) -> Iterator[Mismatch]:
    stages = changed_stages(comparator, candidate)
    tags = _changed_tags(comparator, candidate)
    for field, changed in (("settings", stages), ("tags", tags)):
        if len(changed) > 1:
            yield Mismatch(
                "bundle", field, "", ", ".join(changed), False,
                f"the candidate changes {len(changed)} {'stages' if field == 'settings' else 'tags'} at once: "
                f"{', '.join(changed)}",
                f"Split it into one candidate for each of {', '.join(changed)}.",
            )  # fmt: skip


def _listed(kinds: Collection[str]) -> str:
    return ", ".join(sorted(kinds)) or "none"


def _yes(value: bool) -> str:
    return "yes" if value else "no"

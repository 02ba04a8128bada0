"""The lock: what must agree, within which tolerance, and what a candidate may declare."""

from __future__ import annotations

import pytest

from flows.judge.lock import Mismatch, changed_stages, compare_sides
from schemas.candidate import Conditions, Tags
from schemas.decision import SideLock
from schemas.settings import Fusion, Scheduling, StageSettings

TAGS = Tags(compiler="1.0", runtime="1.0", driver="550", firmware="7", hardware="a100")
CONDITIONS = Conditions(clock_mhz=1000, temperature_c=50, power_w=300, throttling=False)
STABLE = SideLock(
    name="stable", tags=TAGS, conditions=CONDITIONS, settings=StageSettings(), evidence=("modelled", "replayed")
)


def side(
    tags: dict[str, str] | None = None, conditions: dict[str, object] | None = None, **changed: object
) -> SideLock:
    return STABLE.model_copy(
        update={
            "tags": TAGS.model_copy(update=tags or {}),
            "conditions": CONDITIONS.model_copy(update=conditions or {}),
            **changed,
        }
    )


def mismatches(candidate: SideLock, *declared: str) -> tuple[Mismatch, ...]:
    return compare_sides(STABLE, candidate, declared)


def test_equal_sides_have_no_mismatch() -> None:
    assert mismatches(side()) == ()


@pytest.mark.parametrize("tag", ["compiler", "runtime", "driver", "firmware"])
def test_software_tag_may_differ_only_where_declared(tag: str) -> None:
    candidate = side(tags={tag: "other"})
    assert mismatches(candidate, tag) == ()
    (found,) = mismatches(candidate)
    assert (found.kind, found.field, found.blocking) == ("tag", f"tags.{tag}", True)
    assert "declared_changes" in found.action


def test_hardware_can_never_be_declared() -> None:
    (found, *_) = mismatches(side(tags={"hardware": "h100"}), "hardware")
    assert (found.field, found.blocking) == ("tags.hardware", True)
    assert "same hardware" in found.action


@pytest.mark.parametrize(
    ("field", "within", "beyond"),
    [
        ("clock_mhz", 1010.0, 1010.1),
        ("clock_mhz", 990.0, 989.0),
        ("temperature_c", 55.0, 55.1),
        ("power_w", 306.0, 306.1),
        ("throttling", False, True),
    ],
)
def test_conditions_have_tolerances_and_cannot_be_declared(field: str, within: object, beyond: object) -> None:
    assert mismatches(side(conditions={field: within})) == ()
    (found,) = mismatches(side(conditions={field: beyond}))
    assert (found.kind, found.field, found.blocking) == ("condition", f"conditions.{field}", True)


def test_evidence_kinds_must_match() -> None:
    (found,) = mismatches(side(evidence=("modelled", "replayed", "measured")))
    assert (found.kind, found.blocking) == ("evidence", True)
    assert "measured" in found.text


def test_declared_change_that_changed_nothing_is_said() -> None:
    (found,) = mismatches(side(), "driver")
    assert (found.kind, found.blocking) == ("declared", False)
    assert "both sides say '550'" in found.text


def test_several_changed_stages_are_a_bundle_to_split() -> None:
    settings = StageSettings(fusion=Fusion(policy="aggressive"), scheduling=Scheduling(max_wait_us=5))
    (found,) = mismatches(side(settings=settings))
    assert (found.kind, found.blocking) == ("bundle", False)
    assert "Split it into one candidate for each of fusion, scheduling" in found.action


def test_several_changed_tags_are_a_bundle_and_one_with_one_stage_is_not() -> None:
    two = side(tags={"compiler": "2", "driver": "560"})
    assert [item.kind for item in mismatches(two, "compiler", "driver")] == ["bundle"]
    one = side(tags={"compiler": "2"}, settings=StageSettings(fusion=Fusion(policy="none")))
    assert mismatches(one, "compiler") == ()


def test_blocking_mismatches_come_first() -> None:
    candidate = side(tags={"compiler": "2", "driver": "560"}, conditions={"throttling": True})
    flags = [item.blocking for item in mismatches(candidate, "firmware")]
    assert flags == sorted(flags, reverse=True)
    assert len(flags) == 5


def test_changed_stages_are_in_flow_order() -> None:
    settings = StageSettings(scheduling=Scheduling(max_wait_us=5), fusion=Fusion(policy="none"))
    assert changed_stages(STABLE, side(settings=settings)) == ("fusion", "scheduling")

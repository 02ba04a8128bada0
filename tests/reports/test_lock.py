"""Evidence lock."""

from dataclasses import replace

from reports import lock
from reports.blocks import Fold, Row, Table
from reports.evidence import Evidence
from schemas.anchors import anchor
from schemas.candidate import Conditions
from tests.reports.worlds import finding, world


def rows(evidence: Evidence) -> dict[str, Row]:
    tables = [block for block in lock.section(evidence).blocks if isinstance(block, Table)]
    folded = [inner for block in lock.section(evidence).blocks if isinstance(block, Fold) for inner in block.blocks]
    both = [*tables, *(block for block in folded if isinstance(block, Table))]
    return {row.id: row for table in both for row in table.rows}


def with_candidate(evidence: Evidence, **changed: object) -> Evidence:
    side = evidence.run.candidate.model_copy(update=changed)
    return replace(evidence, run=evidence.run.model_copy(update={"candidate": side}))


def test_a_declared_tag_is_noted_and_an_undeclared_one_is_wrong() -> None:
    evidence = world(requests=200)
    tags = evidence.run.candidate.tags.model_copy(update={"driver": "551.0"})
    found = rows(with_candidate(evidence, tags=tags))

    assert (found["lock~tags.compiler"].cells[3].text, found["lock~tags.compiler"].mark) == ("declared change", "note")
    assert (found["lock~tags.driver"].cells[3].text, found["lock~tags.driver"].mark) == ("differs", "bad")
    assert found["lock~tags.hardware"].cells[3].text == "same"
    assert found["lock~conditions.throttling"].cells[1].text == "no"


def test_a_condition_is_wrong_only_where_the_judgement_found_it_so() -> None:
    warm = Conditions(clock_mhz=1000.0, temperature_c=58.0, power_w=15.0, throttling=False)
    evidence = with_candidate(world(requests=200), conditions=warm)
    accepted = rows(evidence)["lock~conditions.temperature_c"]
    found = finding().model_copy(update={"proof": anchor("lock", "conditions.temperature_c")})
    judged = replace(evidence, decision=evidence.decision.model_copy(update={"findings": (found,)}))

    assert (accepted.cells[3].text, accepted.cells[2].text) == ("within tolerance", "58.0\u00a0°C")
    assert rows(judged)["lock~conditions.temperature_c"].mark == "bad"


def test_settings_that_differ_stand_apart_and_none_is_left_out() -> None:
    found = rows(world(requests=200))
    settings = [row for name, row in found.items() if name.startswith("lock~settings.")]
    stages = world(requests=200).run.candidate.settings
    count = sum(len(type(getattr(stages, stage)).model_fields) for stage in type(stages).model_fields)

    assert len(settings) == count
    assert [row.cells[0].text for row in settings if row.mark] == ["fusion.policy"]
    assert [cell.text for cell in found["lock~settings.fusion.policy"].cells[1:]] == [
        "pattern", "aggressive", "changed",
    ]  # fmt: skip


def test_digests_are_whole() -> None:
    found = rows(world(requests=200))

    assert found["artifact~kernels"].cells[4].text == "9f" * 32
    assert found["version~numpy"].cells[1].text == "2.3.1"

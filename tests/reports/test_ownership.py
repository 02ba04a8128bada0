"""Ownership layers, rollback, history: who does what, and when to go back."""

from dataclasses import replace

from reports import history, ownership, reproduce, rollback
from reports.blocks import Code, Facts, Missing, Note, Table
from tests.reports.worlds import world


def test_each_layer_says_its_holder_its_mechanisms_and_what_is_due() -> None:
    findings, layers = ownership.section(world(requests=200), ()).blocks
    assert isinstance(findings, Table) and isinstance(layers, Table)

    assert [cell.text for cell in layers.rows[0].cells] == [
        "ml compiler engineer", "Noor <noor@example.org>", "lowering and fusion", "1 finding",
    ]  # fmt: skip
    assert [row.cells[3].text for row in layers.rows[1:]] == ["no findings"] * 3
    assert layers.rows[1].cells[1].text == "missing: the policy names nobody"


def test_every_stage_has_exactly_one_layer() -> None:
    layers = ownership.section(world(requests=200), ()).blocks[1]
    assert isinstance(layers, Table)
    stages = " ".join(row.cells[2].text for row in layers.rows)

    for stage in ("ingress", "lowering", "fusion", "tiling", "placement", "execution", "scheduling", "assembly"):
        assert stages.count(stage) == 1


def test_a_finding_links_to_its_proof() -> None:
    ids = {"mechanisms~latency-p99~overall~prefix~fusion"}
    findings = ownership.section(world(requests=200), ids).blocks[0]
    assert isinstance(findings, Table)

    assert findings.rows[0].cells[7].href == "#mechanisms~latency-p99~overall~prefix~fusion"
    assert findings.rows[0].mark == "bad"


def test_a_waiver_that_was_applied_is_said() -> None:
    evidence = world("GO", requests=200)
    decision = evidence.decision.model_copy(update={"waivers_applied": ("quality: accepted by Ana until 2025-06-01",)})
    blocks = ownership.section(replace(evidence, decision=decision), ()).blocks

    assert isinstance(blocks[0], Note) and blocks[0].text == "No finding is due."
    assert isinstance(blocks[-1], Note) and "accepted by Ana" in blocks[-1].text


def test_a_rollback_criterion_is_measurable() -> None:
    table, drill = rollback.section(world(requests=200)).blocks
    assert isinstance(table, Table) and isinstance(drill, Facts)

    assert [cell.text.replace("\u00a0", " ") for cell in table.rows[0].cells[1:5]] == [
        "latency p99", "1,063 µs", "300 s", "1,000",
    ]  # fmt: skip
    assert [cell.text.replace("\u00a0", " ") for _, cell in drill.pairs[:4]] == [
        "passed", "rollback-p99", "12.5 s", "yes",
    ]  # fmt: skip


def test_a_drill_that_was_not_run_is_missing() -> None:
    assert isinstance(rollback.section(world("HOLD", requests=200)).blocks[1], Missing)


def test_criteria_that_are_not_there_are_missing() -> None:
    evidence = world(requests=200)
    bare = replace(evidence, decision=evidence.decision.model_copy(update={"rollback": ()}))

    assert isinstance(rollback.section(bare).blocks[0], Missing)


def test_history_is_newest_first_and_says_what_a_run_did_not_measure() -> None:
    (table,) = history.section(world(requests=200)).blocks
    assert isinstance(table, Table)

    assert [row.cells[0].text for row in table.rows] == ["run-3", "run-2", "run-1"]
    assert [cell.text.replace("\u00a0", " ") for cell in table.rows[0].cells[2:6]] == [
        "NO GO", "fusion", "1,003 µs", "missing",
    ]  # fmt: skip


def test_without_history_the_section_says_missing() -> None:
    assert isinstance(history.section(world(requests=200, without=["history"])).blocks[0], Missing)


def test_the_commands_are_those_of_the_run() -> None:
    command, _, verify = reproduce.section(world(requests=200)).blocks
    assert isinstance(command, Code) and isinstance(verify, Code)

    assert command.lines == ("tilegate run candidates/fused-9.yaml",)
    assert verify.lines == ("tilegate verify fused-9-20250304-0200",)

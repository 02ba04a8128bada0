"""The numeric check: agreement with ONNX Runtime, and results that reach the request they belong to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from accelmodel.compile import compile_plan
from accelmodel.importers.onnx import read_graph
from accelmodel.importers.target import read_target, target_path
from accelmodel.plan import Plan
from accelmodel.settings import LoweringSettings, Settings
from accelmodel.target import Target
from flows.numerics import Subject, check_numerics
from flows.safe_yaml import read_yaml
from schemas.tables import from_rows

TARGET: Target = read_target(read_yaml(target_path("edge-npu")).values)


def subject(model: Path, settings: Settings | None = None, batched: bool = True) -> Subject:
    plans: dict[int, Plan] = {
        batch: compile_plan(read_graph(model, {"batch": batch, "sequence": 8}), TARGET, settings or Settings(), "block")
        for batch in ((1, 2) if batched else (1,))
    }
    shapes = {"batch": 1, "sequence": 8}
    return Subject("candidate", "block", model, plans, shapes, "batch" if batched else None, False)


def test_a_right_plan_agrees_and_every_result_finds_its_request(block_model: Path) -> None:
    rows, misdelivered = check_numerics(subject(block_model), "arrival")
    table = from_rows("quality", rows)

    assert table["passed"].to_list() == [True]
    assert table["samples"].to_list() == [3]
    assert table["shapes"].to_list() == ["input 1 x 8 x 32"]
    assert misdelivered == 0


def test_results_handed_back_in_the_order_of_completion_reach_others(block_model: Path) -> None:
    assert check_numerics(subject(block_model), "completion")[1] == 3
    assert check_numerics(subject(block_model, batched=False), "completion")[1] == 2
    assert check_numerics(subject(block_model, batched=False), "arrival")[1] == 0


def test_a_coarser_precision_passes_within_its_own_bound(block_model: Path) -> None:
    exact, coarse = (
        check_numerics(
            subject(block_model, replace(Settings(), lowering=LoweringSettings(precision=precision))), "arrival"
        )[0][0]
        for precision in ("model", "bfloat16")
    )

    assert coarse["passed"]
    assert float(str(coarse["relative_l2_error"])) > 100 * float(str(exact["relative_l2_error"]))
    assert float(str(coarse["bound"])) > float(str(exact["bound"]))


def test_wrong_numbers_do_not_pass_and_the_group_is_named(block_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import flows.numerics

    def wrong(model: Path, inputs: object, names: tuple[str, ...] = ()) -> dict[str, object]:
        values = reference(model, inputs, names)
        return {name: value * 1.5 for name, value in values.items()}

    reference = flows.numerics.run_reference
    monkeypatch.setattr(flows.numerics, "run_reference", wrong)
    rows, misdelivered = check_numerics(subject(block_model), "arrival")
    table = from_rows("quality", rows)

    assert table["passed"].to_list() == [False]
    assert table["first_bad_group"][0]
    assert misdelivered == 0  # results are wrong, but each is its own


def test_what_cannot_be_run_is_said_and_not_counted(block_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import flows.numerics

    monkeypatch.setattr(flows.numerics, "read_weights", lambda model, shapes: {})
    rows, misdelivered = check_numerics(subject(block_model), "arrival")
    table = from_rows("quality", rows)

    assert table["executed"].to_list() == [False]
    assert "has no value" in table["reason"][0]
    assert misdelivered is None


def test_a_model_that_the_reference_has_no_kernel_for_is_not_run_and_the_reason_is_said(tmp_path: Path) -> None:
    value = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [2, 3]) for name in "xy"]
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    plan = compile_plan(read_graph(path, {}), TARGET, Settings(), "w")

    rows, misdelivered = check_numerics(Subject("candidate", "w", path, {1: plan}, {}, None, False), "arrival")

    assert [row["executed"] for row in rows] == [False] and misdelivered is None
    assert str(rows[0]["reason"]).startswith("no reference to compare with: ")

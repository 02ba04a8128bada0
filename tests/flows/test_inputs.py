"""Bad input: exit code 3 and one message with file, field and remedy; nothing is left behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from flows.cli import main
from flows.inputs import load_candidate, to_settings
from tests.flows.world import Write, document, save

Change = Callable[[dict[str, Any], Path], None]


def _set(path: str, value: object) -> Change:
    """A change that puts a value at a dotted path of the document."""

    def change(values: dict[str, Any], folder: Path) -> None:
        *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
        place: Any = values
        for part in parents:
            place = place[part]
        place[last] = value

    return change


def _model_of(content: bytes) -> Change:
    def change(values: dict[str, Any], folder: Path) -> None:
        (folder / "bad.onnx").write_bytes(content)
        values["workloads"][0]["model"] = "bad.onnx"

    return change


def _truncated(values: dict[str, Any], folder: Path) -> None:
    whole = Path(values["workloads"][0]["model"]).read_bytes()
    (folder / "bad.onnx").write_bytes(whole[: len(whole) // 2])
    values["workloads"][0]["model"] = "bad.onnx"


def _escaping(values: dict[str, Any], folder: Path) -> None:
    model = onnx.load(values["workloads"][0]["model"])
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../../secret.bin")
    (folder / "bad.onnx").write_bytes(model.SerializeToString())
    values["workloads"][0]["model"] = "bad.onnx"


def _traffic(*rows: str) -> Change:
    def change(values: dict[str, Any], folder: Path) -> None:
        (folder / "bad.csv").write_text("\n".join(["arrival_s,size", *rows]) + "\n")
        values["traffic"] = {"file": {"path": "bad.csv"}}

    return change


def _streams_of_a_record(values: dict[str, Any], folder: Path) -> None:
    (folder / "t.csv").write_text("arrival_s,size,stream\n0,8,a\n1,8,b\n")
    values["traffic"] = {"file": {"path": "t.csv"}}
    values["candidate"]["settings"] = {"scheduling": {"queue": "weighted_fair", "weight": {"c": 2}}}


def _no_size_dim(values: dict[str, Any], folder: Path) -> None:
    values["workloads"][0].update(size_dim=None, buckets=[{"name": "default"}])


def _twice(values: dict[str, Any], folder: Path) -> None:
    values["workloads"].append(values["workloads"][0])


RATE, DURATION, CLOCK = "traffic.generate.rate_per_s", "traffic.generate.duration_s", "candidate.conditions.clock_ghz"
SETTINGS = "candidate.settings"
NO_FILE = {"file": {"path": "none.csv"}}
# What is changed, and what the message must say: file or field, what was found or expected, the remedy.
BAD = {
    "missing model": (_set("workloads.0.model", "none.onnx"), "workloads.0.model", "no file", "Correct the path"),
    "model is a folder": (_set("workloads.0.model", "."), "workloads.0.model", "a folder", "Correct the path"),
    "not ONNX": (_model_of(b"\x89PNG not a model"), "bad.onnx", "an ONNX model", "Export the model"),
    "empty model": (_model_of(b""), "bad.onnx", "an ONNX model", "Export the model"),
    "truncated ONNX": (_truncated, "bad.onnx", "truncated", "Export the model"),
    "external data outside": (_escaping, "bad.onnx", "../../secret.bin", "beside the model"),
    "unknown key": (_set("polcy", {}), "polcy", "unknown key", "Did you mean 'policy'?"),
    "unknown key inside": (_set("traffic.generate.rate", 3), "traffic.generate.rate", "unknown key", "rate_per_s"),
    "wrong unit": (_set(CLOCK, 1), CLOCK, "unknown key", "MHz"),
    "unbound dim": (_no_size_dim, "'sequence'", "a size for each symbolic dim", "shapes"),
    "dim that is none": (_set("workloads.0.quality_shapes", {"width": 3}), "'width'", "no such dim", "Leave this dim"),
    "shape mismatch": (_set("workloads.0.batch_dim", "rows"), "rows", "no such dim", "Leave this dim"),
    "empty traffic": (_traffic(), "bad.csv", "at least one request", "rows below its header"),
    "negative time": (_traffic("-1,1", "1,1"), "bad.csv, line 2", "no negative time", "Correct or drop"),
    "NaN in traffic": (_traffic("0,1", "nan,1"), "bad.csv, line 3", "finite", "Correct or drop"),
    "NaN in numbers": (_set(RATE, float("nan")), RATE, "finite", "number"),
    "infinite number": (_set(DURATION, float("inf")), DURATION, "finite", "number"),
    "unknown target": (_set("target", "edge-npux"), "target", "'edge-npux'", "Did you mean 'edge-npu'?"),
    "no target file": (_set("target", "other/none.yaml"), "target", "a100-40gb", "tilegate schema target"),
    "missing traffic": (_set("traffic", NO_FILE), "traffic.file.path", "no file", "Correct the path"),
    "path that no file can have": (
        _set("workloads.0.model", "L" * 1500),
        "workloads.0.model",
        "no file",
        "Correct the",
    ),
    "target that no file can have": (_set("target", "x" * 1500), "line 3: target", "xxx", "tilegate schema target"),
    "all memory withheld": (
        _set(SETTINGS, {"placement": {"reserve_bytes": 1 << 40}}),
        f"{SETTINGS}.placement.reserve_bytes",
        "less than the 1,048,576 bytes",
        "Give a smaller",
    ),
    "more cores than there are": (
        _set(SETTINGS, {"tiling": {"cores": 5}}),
        f"{SETTINGS}.tiling.cores",
        "at most the 4 cores",
        "another target",
    ),
    "unknown stream": (
        _set("comparator.settings", {"scheduling": {"queue": "priority", "priority": {"defult": 1}}}),
        "comparator.settings.scheduling.priority.defult",
        "a stream of the traffic: default",
        "Did you mean 'default'?",
    ),
    "unknown stream of a record": (
        _streams_of_a_record,
        f"{SETTINGS}.scheduling.weight.c",
        "a stream of the traffic: a, b",
        "Name one of: a, b",
    ),
    "no request": (_set(DURATION, 1e-9), "bad.yaml: ", "none in this draw", ""),
    "no rate of this type": (
        _set(SETTINGS, {"lowering": {"precision": "float64"}}),
        "bad.yaml, candidate: ",
        "float64",
        "",
    ),
    "unknown op": (
        _set(SETTINGS, {"fusion": {"split_before": ["none"]}}),
        "bad.yaml: candidate: split_before",
        "'none'",
        "op names",
    ),
    "model twice": (_twice, "workloads", "names must differ", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said_with_file_field_and_remedy(
    name: str, tmp_path: Path, block_model: Path, prefect_server: object, capsys: pytest.CaptureFixture[str]
) -> None:
    change, where, found, remedy = BAD[name]
    values = document(str(block_model))
    change(values, tmp_path)
    path = save(tmp_path, "bad", values)
    before = sorted(tmp_path.iterdir())

    code = main(["run", str(path), "--store", str(tmp_path / "runs")])

    said = capsys.readouterr()
    assert code == 3
    assert said.out == ""
    assert said.err.startswith("error: ")
    for part in (where, found, remedy):
        assert part in said.err
    assert sorted(tmp_path.iterdir()) == before


def test_traffic_that_goes_back_in_time_is_refused_or_on_request_put_in_order_and_said(
    tmp_path: Path, block_model: Path, prefect_server: object, capsys: pytest.CaptureFixture[str]
) -> None:
    values = document(str(block_model))
    rows = [f"{second},8" for second in range(200)]
    rows[50], rows[51] = rows[51], rows[50]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_s,size", *rows]) + "\n")
    traffic = {"path": "t.csv", "rate_scale": 100}
    refused = save(tmp_path, "refused", {**values, "traffic": {"file": traffic}})
    assert main(["run", str(refused), "--store", str(tmp_path / "runs")]) == 3
    assert "t.csv, line 53" in capsys.readouterr().err

    path = save(tmp_path, "c", {**values, "traffic": {"file": {**traffic, "sort": True}}})
    main(["run", str(path), "--store", str(tmp_path / "runs"), "--json"])

    assert any("line 53" in warning for warning in json.loads(capsys.readouterr().out)["warnings"])


def test_an_op_type_without_kernel_that_no_workload_has_is_warned_of(
    write_candidate: Write, tmp_path: Path, prefect_server: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_candidate("c", candidate={"lowering": {"no_kernel": ["MatMull", "Softmax"]}})
    main(["run", str(path), "--store", str(tmp_path / "runs"), "--json"])

    said = [text for text in json.loads(capsys.readouterr().out)["warnings"] if "no_kernel" in text]
    assert len(said) == 1
    assert said[0].startswith("candidate: lowering.no_kernel names 'MatMull'")
    assert "Did you mean 'MatMul'?" in said[0]


def test_the_line_of_a_wrong_field_is_named(write_candidate: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_candidate("bad", target="edge-npux")
    line = path.read_text().splitlines().index("target: edge-npux") + 1

    assert main(["run", str(path)]) == 3
    assert f"{path}, line {line}: target" in capsys.readouterr().err


def test_a_candidate_file_that_is_not_there_or_no_yaml_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("a: [1,\n")
    wrong = (
        ("none.yaml", "found nothing at this path"), ("bad.yaml", "found text that is not YAML ("),
        (".", "found a folder"),
    )  # fmt: skip
    for name, found in wrong:
        assert main(["run", str(tmp_path / name)]) == 3
        assert found in capsys.readouterr().err


def test_the_digest_of_a_candidate_follows_content_and_not_place(tmp_path: Path, block_model: Path) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(block_model, tmp_path / "block.onnx")
    shutil.copy(block_model, tmp_path / "other" / "block.onnx")
    values = document("block.onnx")
    first = save(tmp_path, "c", values)
    moved = Path(shutil.copy(first, tmp_path / "other" / "c.yaml"))
    digest = load_candidate(first).digest

    assert load_candidate(moved).digest == digest
    assert load_candidate(save(tmp_path, "c", {**values, "traffic": {**values["traffic"], "seed": 6}})).digest != digest
    (tmp_path / "block.onnx").write_bytes(block_model.read_bytes() + b"\x00\x00")
    with pytest.raises(ValueError, match=r"block\.onnx"):
        load_candidate(first)


def test_settings_arrive_in_the_model_field_for_field(write_candidate: Write) -> None:
    loaded = load_candidate(
        write_candidate("c", candidate={"lowering": {"no_kernel": ["Gelu"]}, "fusion": {"max_ops": 3}})
    )
    settings = to_settings(loaded.document.candidate.settings)

    assert settings.lowering.no_kernel == ("Gelu",)
    assert settings.fusion.max_ops == 3
    assert settings.changed_stages(loaded.settings("comparator")) == ("lowering", "fusion")


def test_weights_beside_the_model_are_inputs_of_the_run(tmp_path: Path, block_model: Path) -> None:
    onnx.save_model(
        onnx.load(block_model), tmp_path / "split.onnx", save_as_external_data=True, location="weights.bin",
        size_threshold=0,
    )  # fmt: skip
    path = save(tmp_path, "c", document("split.onnx"))
    before = load_candidate(path)
    assert [entry.role for entry in before.inputs][-1] == "model:block:weights.bin"

    content = bytearray((tmp_path / "weights.bin").read_bytes())
    content[0] ^= 1
    (tmp_path / "weights.bin").write_bytes(bytes(content))
    assert load_candidate(path).digest != before.digest

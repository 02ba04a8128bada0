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


def _no_size_dim(values: dict[str, Any], folder: Path) -> None:
    values["workloads"][0].update(size_dim=None, buckets=[{"name": "default"}])


def _twice(values: dict[str, Any], folder: Path) -> None:
    values["workloads"].append(values["workloads"][0])


RATE, DURATION, CLOCK = "traffic.generate.rate_per_s", "traffic.generate.duration_s", "candidate.conditions.clock_ghz"
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
    assert not list((tmp_path / "runs").glob("[!.]*"))
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "runs"] == before


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


def test_the_line_of_a_wrong_field_is_named(write_candidate: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_candidate("bad", target="edge-npux")
    line = path.read_text().splitlines().index("target: edge-npux") + 1

    assert main(["run", str(path)]) == 3
    assert f"{path}, line {line}: target" in capsys.readouterr().err


def test_a_candidate_file_that_is_not_there_or_no_yaml_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("a: [1,\n")
    for name, found in (("none.yaml", "no such file"), ("bad.yaml", "one YAML document")):
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

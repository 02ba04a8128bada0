"""Profiles of ONNX Runtime: a real one made here, and small ones by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from accelmodel.errors import InputError
from accelmodel.importers.profile import read_profile


def real_profile(folder: Path, runs: int) -> Path:
    """Two nodes, run by ONNX Runtime on the CPU with profiling on."""
    shape = [64, 64]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "x"], ["h"], "first"), helper.make_node("Relu", ["h"], ["y"], "second")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for _ in range(runs):
        session.run(None, {"x": np.ones(shape, np.float32)})
    return Path(session.end_profiling())


def test_a_real_profile_gives_each_node_of_each_run(tmp_path: Path) -> None:
    profile = read_profile(real_profile(tmp_path, runs=3))
    rows = profile.rows
    assert profile.kind == "onnxruntime"
    assert rows.name.listed() == ["first [MatMul]", "second [Relu]"] * 3
    assert set(rows.device.listed()) == {"CPUExecutionProvider"}
    assert rows.iteration.listed() == [0, 0, 1, 1, 2, 2]
    assert profile.iterations is not None
    assert len(profile.iterations) == 3
    assert profile.launches is None
    assert profile.metadata.runtime is None  # the file holds no version


def event(name: str, ts: object, dur: object, **args: object) -> dict[str, object]:
    return {"cat": "Node", "pid": 1, "tid": 2, "ts": ts, "dur": dur, "ph": "X", "name": name, "args": args}


def test_times_may_be_text_and_fences_are_no_kernels(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    events = [event("a_fence_before", 1, 0), event("a_kernel_time", "5", "7", op_name="Add", provider="CPU")]
    path.write_text(json.dumps(events))
    rows = read_profile(path).rows
    assert (rows.name.listed(), rows.start_ns.listed(), rows.duration_ns.tolist()) == (["a [Add]"], [5_000], [7_000])


def test_a_node_shorter_than_the_clock_tells_is_said_to_read_0(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps([event("a_kernel_time", 5, 0)]))
    assert "1 of 1 runs of nodes are shorter than that and read 0" in read_profile(path).warnings[0]


def test_a_session_that_ran_nothing_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps([{**event("session_initialization", 1, 2), "cat": "Session"}]))
    assert "no run of a node" in read_profile(path).findings[0]


@pytest.mark.parametrize("dur", [-1, None, "x", 1e30])
def test_a_run_without_a_sound_duration_is_refused(dur: object, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps([event("a_kernel_time", 5, dur)]))
    with pytest.raises(InputError, match=r"a_kernel_time.*times in µs"):
        read_profile(path)


def test_half_a_profile_is_refused(tmp_path: Path) -> None:
    path = real_profile(tmp_path, runs=2)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="end of the list of events"):
        read_profile(path)

"""Lowering of whole networks: nothing crashes, nothing is lost, and the flops are those counted by hand."""

from math import prod
from pathlib import Path

import onnx
import pytest
from onnx import shape_inference

from accelmodel.generate import write_model
from accelmodel.importers.onnx import read_graph
from accelmodel.lower import lower
from accelmodel.settings import LoweringSettings
from tests.accelmodel.targets import bundled

LIGHT = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
@pytest.mark.parametrize("target", ["a100-40gb", "edge-npu"])
def test_every_network_of_the_onnx_package_lowers_with_a_kernel_for_each_op(path: Path, target: str) -> None:
    graph = read_graph(path, {})
    lowered = lower(graph, LoweringSettings(), bundled(target))
    assert len(lowered.ops) == len(graph.ops)
    assert [op.fallback_reason for op in lowered.ops if op.kind == "fallback"] == []
    assert set(lowered.element_bytes) == set(lowered.storage) == set(graph.tensors)


def hand_counted_flops(path: Path) -> int:
    """2 x multiply-accumulates of all Conv and Gemm nodes, from ONNX's own shape inference and nothing of ours."""
    model = shape_inference.infer_shapes(onnx.load(path), strict_mode=True, data_prop=True)
    infos = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    shapes = {info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in infos}
    total = 0
    for node in model.graph.node:
        if node.op_type == "Conv":
            weight = shapes[node.input[1]]
            total += 2 * prod(shapes[node.output[0]]) * prod(weight[1:])
        if node.op_type == "Gemm":
            total += 2 * prod(shapes[node.input[1]]) * shapes[node.output[0]][0]
    return total


@pytest.mark.parametrize("name", ["resnet50", "densenet121", "squeezenet", "shufflenet"])
def test_contraction_flops_of_a_network_equal_a_count_by_hand(name: str) -> None:
    (path,) = (path for path in LIGHT if path.stem == f"light_{name}")
    lowered = lower(read_graph(path, {}), LoweringSettings(), bundled("a100-40gb"))
    contractions = sum(op.flops for op in lowered.ops if op.kind == "contraction")
    assert contractions == hand_counted_flops(path)
    assert sum(op.flops for op in lowered.ops) == pytest.approx(contractions, rel=0.05)


def test_resnet_takes_the_flops_that_its_paper_states_within_one_percent_of_its_contractions() -> None:
    (path,) = (path for path in LIGHT if path.stem == "light_resnet50")
    total = sum(op.flops for op in lower(read_graph(path, {}), LoweringSettings(), bundled("a100-40gb")).ops)
    assert total == pytest.approx(hand_counted_flops(path), rel=0.01)
    assert total == pytest.approx(2 * 3.8e9, rel=0.1)  # He et al. 2016: 3.8e9 multiply-adds


def test_a_transformer_block_takes_the_flops_of_its_matrix_products(tmp_path: Path) -> None:
    hidden, inner, batch, sequence = 64, 256, 2, 16
    path = write_model("transformer_block", tmp_path / "m.onnx", hidden=hidden, heads=4, feed_forward=inner)
    lowered = lower(read_graph(path, {"batch": batch, "sequence": sequence}), LoweringSettings(), bundled("edge-npu"))
    tokens = batch * sequence
    projections = 4 * 2 * tokens * hidden * hidden
    attention = 2 * 2 * tokens * sequence * hidden
    feed_forward = 2 * 2 * tokens * hidden * inner
    contractions = [op for op in lowered.ops if op.kind == "contraction"]
    assert sum(op.flops for op in contractions) == projections + attention + feed_forward
    assert [op.op_type for op in lowered.ops if op.kind == "fallback"] == []


def test_flops_grow_with_the_batch_in_proportion(tmp_path: Path) -> None:
    path = write_model("convolution_block", tmp_path / "m.onnx", channels=16, size=8)
    totals = [
        sum(op.flops for op in lower(read_graph(path, {"batch": n}), LoweringSettings(), bundled("t4")).ops)
        for n in (1, 8)
    ]
    assert totals[1] == 8 * totals[0]

"""Small graphs whose groups are awkward to tile: halos, views, siblings, second results, scalars, empty tensors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.accelmodel.numeric_worlds import World, cut_in_two, world

RNG = np.random.default_rng(0)
IMAGE = {"x": ("float32", (1, 4, 13, 13))}


def node(op_type: str, operands: Sequence[str], *made: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, list(operands), list(made), name=f"make_{made[0]}", **attributes)


def weight(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def scalar(folder: Path) -> World:
    nodes = [node("ReduceMean", ["x"], "mean", keepdims=0), node("Mul", ["x", "mean"], "out")]
    return world(folder, nodes, {"x": ("float32", (3, 5, 7))}, {"out": "float32", "mean": "float32"})


def empty(folder: Path) -> World:
    nodes = [node("Slice", ["x", "at", "at", "axes"], "none"), node("Concat", ["x", "none"], "out", axis=0)]
    weights = {"at": numbers(0), "axes": numbers(0)}
    return world(folder, nodes, {"x": ("float32", (3, 5))}, {"out": "float32"}, weights)


def siblings(folder: Path) -> World:
    nodes = [node("MatMul", ["x", "a"], "q"), node("MatMul", ["x", "b"], "k"), node("Relu", ["k"], "r")]
    weights = {"a": weight(7, 8), "b": weight(7, 6)}
    return world(folder, nodes, {"x": ("float32", (3, 5, 7))}, {"q": "float32", "r": "float32"}, weights)


def strided(folder: Path) -> World:
    """A result in the middle that the end reads only in part: 1 x 1 windows, two apart."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]), node("Relu", ["a"], "r"),
        node("Conv", ["r", "v"], "b", strides=[2, 2]),
        node("MaxPool", ["b"], "out", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    ]  # fmt: skip
    weights = {"w": weight(4, 4, 3, 3), "v": weight(6, 4, 1, 1)}
    return world(folder, nodes, IMAGE, {"out": "float32", "r": "float32"}, weights)


def renamed(folder: Path) -> World:
    """Views that split and merge axes unevenly, with a transposition and a softmax between."""
    nodes = [
        node("Reshape", ["x", "s"], "a"), node("Transpose", ["a"], "b", perm=[2, 0, 1]),
        node("Softmax", ["b"], "c", axis=-1), node("Reshape", ["c", "t"], "d"), node("Relu", ["d"], "out"),
    ]  # fmt: skip
    weights = {"s": numbers(3, 8, 5), "t": numbers(10, 12)}
    return world(folder, nodes, {"x": ("float32", (6, 20))}, {"out": "float32", "d": "float32"}, weights)


def grouped(folder: Path) -> World:
    """Channels in two groups, then in four."""
    nodes = [node("Conv", ["x", "w"], "a", group=2), node("Relu", ["a"], "r"), node("Conv", ["r", "v"], "out", group=4)]
    weights = {"w": weight(8, 2, 3, 3), "v": weight(8, 2, 1, 1)}
    return world(folder, nodes, IMAGE, {"out": "float32"}, weights)


@pytest.mark.parametrize("policy", ["none", "pattern", "aggressive"])
@pytest.mark.parametrize("build", [scalar, empty, siblings, strided, renamed, grouped])
def test_awkward_groups_agree_with_the_reference_whole_and_cut(build, policy: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    made = build(tmp_path)
    plan = made.plan(policy)
    for tried in (plan, cut_in_two(plan)):
        rows = made.judge(tried)
        assert [row.name for row in rows] == list(made.graph.outputs)
        assert all(row.passed for row in rows), rows
        assert not made.run(tried).problems


def test_a_result_that_no_tile_of_the_root_asks_for_is_computed_after_them_and_said(tmp_path: Path) -> None:
    made = strided(tmp_path)
    plan = made.plan("aggressive")
    assert len(plan.kernels) == 1
    assert made.run(plan).notes == (
        f"group {plan.kernels[0].group.name}: out computed whole, after the tiles of the root",
    )

"""Models that shape inference lets through and that nothing can run are refused by op, expected and found."""

from collections.abc import Mapping

import pytest

from accelmodel.errors import InputError
from accelmodel.graph import AttributeValue, Graph, Op, Tensor
from accelmodel.lower_checks import check_operands

Shape = tuple[int, ...]
IMAGE = (2, 3, 8, 8)


def check(
    op_type: str,
    inputs: tuple[Shape, ...],
    output: Shape,
    constants: Mapping[str, tuple[int, ...]] | None = None,
    **attributes: AttributeValue,
) -> None:
    names = tuple(f"i{n}" for n in range(len(inputs)))
    op = Op("it", op_type, "", names, ("y",), tuple(attributes.items()))
    tensors = {name: Tensor(name, shape, "float32", "input") for name, shape in zip(names, inputs, strict=True)}
    tensors["y"] = Tensor("y", output, "float32", "output")
    check_operands(Graph("g", (op,), tensors, names, ("y",), 17, constants or {}), op)


GOOD: list[tuple[str, tuple[Shape, ...], Shape, dict[str, AttributeValue]]] = [
    ("Reshape", ((2, 3), (1,)), (6,), {}),
    ("Conv", (IMAGE, (4, 3, 3, 3), (4,)), (2, 4, 6, 6), {"kernel_shape": (3, 3)}),
    ("Conv", (IMAGE, (6, 1, 3, 3)), (2, 6, 8, 8), {"group": 3, "pads": (1, 1, 1, 1)}),
    ("Conv", (IMAGE, (4, 3, 3, 3)), (2, 4, 4, 4), {"strides": (2, 2), "auto_pad": "SAME_UPPER"}),
    ("MaxPool", (IMAGE,), (2, 3, 4, 4), {"kernel_shape": (2, 2), "strides": (2, 2)}),
    ("Gemm", ((2, 3), (5, 3), (5,)), (2, 5), {"transB": 1}),
    ("LayerNormalization", (IMAGE, (8,), (8,)), IMAGE, {"axis": -1}),
    ("DepthToSpace", ((1, 8, 2, 2),), (1, 2, 4, 4), {"blocksize": 2}),
    ("PRelu", (IMAGE, (3, 1, 1)), IMAGE, {}),
    ("Clip", ((2, 3), (), (1,)), (2, 3), {}),
    ("QuantizeLinear", (IMAGE, (3,), (3,)), IMAGE, {"axis": 1}),
    ("GroupNormalization", ((1, 4, 2), (2,), (2,)), (1, 4, 2), {"num_groups": 2}),
    ("LRN", (IMAGE,), IMAGE, {"size": 3}),
    ("ArgMax", ((2, 3),), (2, 1), {"axis": -1}),
]
BAD: list[tuple[str, tuple[Shape, ...], Shape, dict[str, AttributeValue], str]] = [
    ("Reshape", ((2, 3), (1,)), (7,), {}, "6 elements, as its input 2 x 3, found 7"),
    ("Conv", (IMAGE, (4, 5, 3, 3)), (2, 4, 6, 6), {}, "3 channels of input"),
    ("Conv", (IMAGE, (4, 3, 3, 3), (7,)), (2, 4, 6, 6), {}, "each output channel"),
    ("Conv", (IMAGE, (4, 3, 3, 3)), (2, 4, 8, 8), {"kernel_shape": (1, 1)}, "kernel_shape 3 x 3"),
    ("Conv", (IMAGE, (4, 1, 3, 3)), (2, 4, 6, 6), {"group": 3}, "3 groups divide"),
    ("Conv", (IMAGE, (4, 3, 3, 3)), (2, 4, 6, 6), {"group": 0}, "group count from 1"),
    ("Conv", (IMAGE, (4, 3, 3, 3)), (2, 4, 6, 6), {"group": -1}, "group count from 1"),
    ("Conv", (IMAGE, (4, 3, 3, 3)), (2, 4, 6, 6), {"strides": (0, 1)}, "strides from 1"),
    ("Conv", (IMAGE, (4, 3, 3, 3)), (2, 4, 6, 6), {"auto_pad": "ELSE"}, "auto_pad"),
    ("MaxPool", (IMAGE,), (2, 3, 4, 4), {"kernel_shape": (2,)}, "a kernel of 2 axes"),
    ("Gemm", ((2, 3), (3, 5), (9,)), (2, 5), {}, "broadcasts to 2 x 5"),
    ("LayerNormalization", (IMAGE, (7,)), IMAGE, {"axis": -1}, "broadcasts"),
    ("LayerNormalization", (IMAGE, (8,)), IMAGE, {"axis": 9}, "an axis of its input"),
    ("DepthToSpace", (IMAGE,), (2, 0, 16, 16), {"blocksize": 2}, "2 x 2 divides"),
    ("SpaceToDepth", (IMAGE,), (2, 27, 2, 2), {"blocksize": 3}, "3 divides"),
    ("PRelu", (IMAGE, (5, 5)), IMAGE, {}, "broadcasts"),
    ("Clip", ((2, 3), (3,)), (2, 3), {}, "a scalar bound"),
    ("QuantizeLinear", (IMAGE, (7,)), IMAGE, {"axis": 1}, "one scale"),
    ("BatchNormalization", (IMAGE, (7,), (7,), (7,), (7,)), IMAGE, {}, "each channel"),
    ("GroupNormalization", ((1, 4, 2), (2,), (2,)), (1, 4, 2), {"num_groups": 3}, "num_groups"),
    ("LRN", (IMAGE,), IMAGE, {"size": 0}, "a size from 1"),
    ("ArgMax", ((0, 3),), (1, 3), {"axis": 0}, "an axis with elements"),
]


@pytest.mark.parametrize(("op_type", "inputs", "output", "attributes"), GOOD)
def test_operands_that_go_together_pass(
    op_type: str, inputs: tuple[Shape, ...], output: Shape, attributes: dict[str, AttributeValue]
) -> None:
    check(op_type, inputs, output, **attributes)


@pytest.mark.parametrize(("op_type", "inputs", "output", "attributes", "said"), BAD)
def test_operands_that_do_not_go_together_are_refused(
    op_type: str, inputs: tuple[Shape, ...], output: Shape, attributes: dict[str, AttributeValue], said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        check(op_type, inputs, output, **attributes)
    assert op_type in caught.value.where and "'it'" in caught.value.where


def test_known_indices_lie_in_the_table() -> None:
    check("Gather", ((2, 3), (2,)), (2, 2), {"i1": (-3, 2)}, axis=1)
    with pytest.raises(InputError, match=r"indices from -3 to 2 on axis 1, found \[99\]"):
        check("Gather", ((2, 3), (1,)), (2, 1), {"i1": (99,)}, axis=1)


def test_operands_of_opsets_that_aligned_them_by_attributes_and_of_unknown_ops_are_not_judged() -> None:
    op = Op("it", "Foo", "my", ("a",), ("y",))
    tensors = {name: Tensor(name, (2,), "float32", "input") for name in "ay"}
    check_operands(Graph("g", (op,), tensors, ("a",), ("y",), 17, {}), op)
    old = Op("it", "Add", "", ("a", "b"), ("y",), (("broadcast", 1), ("axis", 0)))
    tensors = {"a": Tensor("a", (2, 3), "float32", "input"), "b": Tensor("b", (2,), "float32", "input"),
               "y": Tensor("y", (2, 3), "float32", "output")}  # fmt: skip
    check_operands(Graph("g", (old,), tensors, ("a", "b"), ("y",), 6, {}), old)

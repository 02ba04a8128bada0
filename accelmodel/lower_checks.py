"""Shapes and attributes that ONNX's shape inference lets through and that no op can be run with.

Every rule of lowering may rest on these. The expectations are those of the ONNX operator definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from accelmodel.errors import InputError
from accelmodel.graph import Graph, Op
from accelmodel.lower_elementwise import FLOPS, VARIADIC
from accelmodel.lower_forms import present, shape_of, whole_number, whole_numbers

Shape = tuple[int, ...]
_BROADCAST_SINCE = 7  # older opsets aligned operands by attributes
_PADDING = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def check_operands(graph: Graph, op: Op) -> None:
    """InputError where operands of an op do not go together; nothing where they do, or nothing is known of the op."""
    if op.domain == "" and op.op_type in _CHECKS:
        _CHECKS[op.op_type](graph, op)


def _require(op: Op, holds: bool, expected: str, found: str) -> None:
    if not holds:
        raise InputError(
            stage="lowering", where=f"op {op.name!r} ({op.op_type})", expected=expected, found=found,
            remedy="Repair the model, or bind other shapes; onnx.checker with full_check and a run in ONNX Runtime "
            "tell more.",
        )  # fmt: skip


def _said(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "a scalar"


def _same_elements(graph: Graph, op: Op) -> None:
    before, after = shape_of(graph, op.inputs[0]), shape_of(graph, op.outputs[0])
    expected = f"a result of {prod(before)} elements, as its input {_said(before)}"
    _require(op, prod(before) == prod(after), expected, f"{prod(after)} ({_said(after)})")


def _broadcasts(op: Op, shape: Shape, to: Shape, name: str) -> None:
    fits = len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))
    _require(op, fits, f"an operand {name!r} that broadcasts to {_said(to)}", _said(shape))


def _elementwise(graph: Graph, op: Op) -> None:
    if graph.opset >= _BROADCAST_SINCE:
        for name in filter(None, op.inputs):
            _broadcasts(op, shape_of(graph, name), shape_of(graph, op.outputs[0]), name)


def _clip(graph: Graph, op: Op) -> None:
    for name in filter(None, op.inputs[1:]):
        _require(op, prod(shape_of(graph, name)) == 1, f"a scalar bound {name!r}", _said(shape_of(graph, name)))


def _vectors(graph: Graph, op: Op, names: tuple[str, ...], sizes: tuple[int, ...], what: str) -> None:
    for name in filter(None, names):
        shape = shape_of(graph, name)
        _require(op, len(shape) == 1 and shape[0] in sizes, f"{name!r} with {what} ({sizes[0]})", _said(shape))


def _by_channel(graph: Graph, op: Op) -> None:
    image = shape_of(graph, op.inputs[0])
    if whole_number(op, "spatial", 1):
        _vectors(graph, op, op.inputs[1:], (image[1] if len(image) > 1 else 1,), "an entry for each channel")


def _group_normalization(graph: Graph, op: Op) -> None:
    image, groups = shape_of(graph, op.inputs[0]), whole_number(op, "num_groups", 1)
    _require(op, len(image) >= 2, "at least 2 axes", _said(image))
    _require(op, groups >= 1 and image[1] % groups == 0, f"num_groups that divides {image[1]} channels", str(groups))
    _vectors(graph, op, op.inputs[1:], (image[1], groups), "an entry for each channel or group")


def _quantize(graph: Graph, op: Op) -> None:
    shape, scale = shape_of(graph, op.inputs[0]), shape_of(graph, op.inputs[1])
    axis = whole_number(op, "axis", 1)
    long = shape[axis] if -len(shape) <= axis < len(shape) else 1
    fits = prod(scale) == 1 or (len(scale) == 1 and scale[0] == long) or 1 < len(scale) == len(shape)
    _require(op, fits, f"one scale, one for each of {long} positions on axis {axis}, or blocks", _said(scale))
    point = present(op.inputs, 2)
    if point:
        found = shape_of(graph, point)
        _require(op, found == scale or prod(found) == prod(scale) == 1, f"zero points of {_said(scale)}", _said(found))


def _window(graph: Graph, op: Op, kernel: Shape) -> None:
    """Attributes of convolutions and pools. kernel: of the spatial axes."""
    image = shape_of(graph, op.inputs[0])
    rank = len(image) - 2
    _require(op, len(kernel) == rank, f"a kernel of {rank} axes, as its input {_said(image)}", f"{len(kernel)}")
    _require(op, all(size >= 1 for size in kernel), "a kernel of sizes from 1", _said(kernel))
    for key, count, least in (("strides", rank, 1), ("dilations", rank, 1), ("pads", 2 * rank, 0)):
        values = whole_numbers(op.attribute(key) or (least,) * count)
        fits = len(values) == count and min(values, default=least) >= least
        _require(op, fits, f"{count} {key} from {least}", str(list(values)))
    mode = op.attribute("auto_pad", "NOTSET")
    _require(op, mode in _PADDING, f"auto_pad of {', '.join(_PADDING)}", repr(mode))


def _conv(graph: Graph, op: Op) -> None:
    image, weight, groups = shape_of(graph, op.inputs[0]), shape_of(graph, op.inputs[1]), whole_number(op, "group", 1)
    _require(op, len(image) == len(weight) >= 2, f"weights of {len(image)} axes, as its input", _said(weight))
    _require(op, groups >= 1, "a group count from 1", str(groups))
    channels = f"weights for {image[1]} channels of input in {groups} groups"
    _require(op, weight[1] * groups == image[1], channels, f"{weight[1]} channels a group")
    _require(op, weight[0] % groups == 0, f"output channels that {groups} groups divide", str(weight[0]))
    kernel = whole_numbers(op.attribute("kernel_shape") or weight[2:])
    _require(op, kernel == weight[2:], f"kernel_shape {_said(weight[2:])}, as its weights", _said(kernel))
    _window(graph, op, kernel)
    _vectors(graph, op, op.inputs[2:], (weight[0],), "an entry for each output channel")


def _pool(graph: Graph, op: Op) -> None:
    _window(graph, op, whole_numbers(op.attribute("kernel_shape") or ()))


def _gemm(graph: Graph, op: Op) -> None:
    left, right = shape_of(graph, op.inputs[0]), shape_of(graph, op.inputs[1])
    _require(op, len(left) == len(right) == 2, "two matrices", f"{_said(left)} and {_said(right)}")
    left = left[::-1] if whole_number(op, "transA", 0) else left
    right = right[::-1] if whole_number(op, "transB", 0) else right
    _require(op, left[1] == right[0], f"a second operand of {left[1]} rows", str(right[0]))
    bias = present(op.inputs, 2)
    if bias:
        _broadcasts(op, shape_of(graph, bias), (left[0], right[1]), bias)


def _layer_normalization(graph: Graph, op: Op) -> None:
    shape, axis = shape_of(graph, op.inputs[0]), whole_number(op, "axis", -1)
    _require(op, -len(shape) <= axis < len(shape), f"an axis of its input {_said(shape)}", str(axis))
    for name in filter(None, op.inputs[1:]):
        _broadcasts(op, shape_of(graph, name), shape, name)


def _blocks(graph: Graph, op: Op) -> None:
    shape, size = shape_of(graph, op.inputs[0]), whole_number(op, "blocksize", 0)
    _require(op, len(shape) == 4, "4 axes (batch, channels, height, width)", _said(shape))
    _require(op, size >= 1, "a blocksize from 1", str(size))
    if op.op_type == "DepthToSpace":
        _require(op, shape[1] % (size * size) == 0, f"channels that {size} x {size} divides", str(shape[1]))
    else:
        fits = shape[2] % size == 0 and shape[3] % size == 0
        _require(op, fits, f"height and width that {size} divides", _said(shape[2:]))


def _local_response(graph: Graph, op: Op) -> None:
    size, shape = whole_number(op, "size", 0), shape_of(graph, op.inputs[0])
    _require(op, size >= 1, "a size from 1", str(size))
    _require(op, len(shape) >= 2, "at least 2 axes", _said(shape))


def _gather(graph: Graph, op: Op) -> None:
    shape, axis = shape_of(graph, op.inputs[0]), whole_number(op, "axis", 0)
    _require(op, -len(shape) <= axis < len(shape), f"an axis of its input {_said(shape)}", str(axis))
    far = [index for index in graph.constants.get(op.inputs[1], ()) if not -shape[axis] <= index < shape[axis]]
    _require(op, not far, f"indices from {-shape[axis]} to {shape[axis] - 1} on axis {axis}", str(far[:1]))


def _arg_reduce(graph: Graph, op: Op) -> None:
    shape, axis = shape_of(graph, op.inputs[0]), whole_number(op, "axis", 0)
    length = shape[axis] if -len(shape) <= axis < len(shape) else 0
    _require(op, length > 0, f"an axis with elements, of its input {_said(shape)}", f"axis {axis}")


_CHECKS: Mapping[str, Callable[[Graph, Op], None]] = {
    **dict.fromkeys((*FLOPS, *VARIADIC), _elementwise),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"), _same_elements),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _by_channel),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantize),
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_normalization),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    **dict.fromkeys(("Gather", "GatherElements"), _gather),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg_reduce),
    "Clip": _clip,
    "Conv": _conv,
    "Gemm": _gemm,
    "GroupNormalization": _group_normalization,
    "LRN": _local_response,
}

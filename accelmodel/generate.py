"""Writes ONNX models with seeded weights: representative blocks whose batch and sequence stay symbolic.

`transformer_block`: input [batch, sequence, hidden]. `convolution_block`: bottleneck blocks, input
[batch, channels, size, size]. The files pass onnx.checker and run in ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import pi, sqrt
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from accelmodel.errors import InputError

OPSET_WITH_GELU = 20
_IR_VERSION = 9  # readable by every runtime that knows opset 20


@dataclass(frozen=True, slots=True)
class TransformerSizes:
    """norm: `pre` or `post` (where LayerNormalization stands). gelu: `op` (one Gelu, opset 20), or written out as
    `erf` or `tanh` (opset 17). feed_forward: width of the inner layer."""

    hidden: int = 256
    heads: int = 4
    feed_forward: int = 1024
    layers: int = 1
    norm: str = "pre"
    gelu: str = "op"


@dataclass(frozen=True, slots=True)
class ConvolutionSizes:
    """blocks: bottlenecks (1x1 down to channels / 4, 3x3, 1x1 up, residual). size: height and width of the input.
    stride: of the first block; above 1 its residual passes a strided 1x1 projection."""

    channels: int = 64
    size: int = 28
    blocks: int = 2
    stride: int = 1


@dataclass(slots=True)
class _Writer:
    """Collects nodes and weights; `node` and `weight` return the name of what they made."""

    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def node(self, name: str, op_type: str, *inputs: str, **attributes: int | float | list[int]) -> str:
        node = helper.make_node(op_type, list(inputs), [f"{name}:0"], name=name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(attributes.items()))
        self.nodes.append(node)
        return f"{name}:0"

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def scalar(self, name: str, value: float) -> str:
        return self.constant(name, np.array(value, dtype=np.float32))

    def weight(self, name: str, *shape: int, fan_in: int) -> str:
        """Normal with deviation 1 / sqrt(fan_in), so that activations keep their scale from layer to layer."""
        value = self.random.standard_normal(shape, dtype=np.float32) / np.float32(sqrt(fan_in))
        return self.constant(name, value)

    def near(self, name: str, centre: float, size: int) -> str:
        """A vector close to `centre` and not equal to it, so that a dropped bias or scale shows in the results."""
        return self.constant(name, np.float32(centre) + self.random.uniform(-0.1, 0.1, size).astype(np.float32))


def write_model(kind: str, path: Path, *, seed: int = 0, **sizes: int | str) -> Path:
    """Write one model file and return its path. `sizes` are the fields of TransformerSizes or ConvolutionSizes."""
    makers: Mapping[str, Callable[[_Writer, Mapping[str, int | str]], onnx.ModelProto]] = {
        "transformer_block": _transformer_model,
        "convolution_block": _convolution_model,
    }
    if kind not in makers:
        raise _wrong("kind", f"one of {', '.join(makers)}", repr(kind))
    model = makers[kind](_Writer(np.random.default_rng(seed)), sizes)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def _transformer_model(writer: _Writer, given: Mapping[str, int | str]) -> onnx.ModelProto:
    sizes = TransformerSizes(**_checked(TransformerSizes(), given))  # type: ignore[arg-type]  # checked by field
    if sizes.hidden % sizes.heads:
        raise _wrong("heads", f"a divisor of hidden ({sizes.hidden})", str(sizes.heads))
    if sizes.norm not in ("pre", "post"):
        raise _wrong("norm", "pre or post", repr(sizes.norm))
    if sizes.gelu not in ("op", "erf", "tanh"):
        raise _wrong("gelu", "op, erf or tanh", repr(sizes.gelu))
    tensor = "input"
    for layer in range(sizes.layers):
        tensor = _transformer_layer(writer, f"layer{layer}", tensor, sizes)
    opset = OPSET_WITH_GELU if sizes.gelu == "op" else 17
    shape: list[str | int] = ["batch", "sequence", sizes.hidden]
    return _model(writer, "transformer_block", shape, tensor, shape, opset)


def _transformer_layer(writer: _Writer, at: str, tensor: str, sizes: TransformerSizes) -> str:
    """One encoder layer; [batch, sequence, hidden] -> the same."""
    attended = tensor if sizes.norm == "post" else _layer_norm(writer, f"{at}/norm1", tensor, sizes.hidden)
    summed = writer.node(f"{at}/residual1", "Add", tensor, _attention(writer, f"{at}/attention", attended, sizes))
    tensor = summed if sizes.norm == "pre" else _layer_norm(writer, f"{at}/norm1", summed, sizes.hidden)
    inner = tensor if sizes.norm == "post" else _layer_norm(writer, f"{at}/norm2", tensor, sizes.hidden)
    inner = _linear(writer, f"{at}/expand", inner, sizes.hidden, sizes.feed_forward)
    inner = _GELUS[sizes.gelu](writer, f"{at}/gelu", inner)
    inner = _linear(writer, f"{at}/contract", inner, sizes.feed_forward, sizes.hidden)
    summed = writer.node(f"{at}/residual2", "Add", tensor, inner)
    return summed if sizes.norm == "pre" else _layer_norm(writer, f"{at}/norm2", summed, sizes.hidden)


def _attention(writer: _Writer, at: str, tensor: str, sizes: TransformerSizes) -> str:
    """Multi-head attention with separate projections; [batch, sequence, hidden] -> the same."""
    head = sizes.hidden // sizes.heads
    split = writer.constant(f"{at}/split_shape", np.array([0, 0, sizes.heads, head], dtype=np.int64))
    merge = writer.constant(f"{at}/merge_shape", np.array([0, 0, sizes.hidden], dtype=np.int64))
    parts = []
    # q, v -> [batch, heads, sequence, head]; k -> [batch, heads, head, sequence], ready to multiply
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        part = _linear(writer, f"{at}/{name}", tensor, sizes.hidden, sizes.hidden)
        part = writer.node(f"{at}/{name}/split", "Reshape", part, split)
        parts.append(writer.node(f"{at}/{name}/transpose", "Transpose", part, perm=order))
    query, key, value = parts
    scores = writer.node(f"{at}/scores", "MatMul", query, key)
    scores = writer.node(f"{at}/scale", "Mul", scores, writer.scalar(f"{at}/scale_factor", 1 / sqrt(head)))
    weights = writer.node(f"{at}/softmax", "Softmax", scores, axis=-1)
    context = writer.node(f"{at}/context", "MatMul", weights, value)
    context = writer.node(f"{at}/context/transpose", "Transpose", context, perm=[0, 2, 1, 3])
    context = writer.node(f"{at}/context/merge", "Reshape", context, merge)
    return _linear(writer, f"{at}/project", context, sizes.hidden, sizes.hidden)


def _linear(writer: _Writer, at: str, tensor: str, width_in: int, width_out: int) -> str:
    product = writer.node(
        f"{at}/matmul", "MatMul", tensor, writer.weight(f"{at}/weight", width_in, width_out, fan_in=width_in)
    )
    return writer.node(f"{at}/bias", "Add", product, writer.near(f"{at}/bias_value", 0.0, width_out))


def _layer_norm(writer: _Writer, at: str, tensor: str, width: int) -> str:
    scale, bias = writer.near(f"{at}/scale", 1.0, width), writer.near(f"{at}/bias", 0.0, width)
    return writer.node(at, "LayerNormalization", tensor, scale, bias, axis=-1, epsilon=1e-5)


def _gelu_op(writer: _Writer, at: str, tensor: str) -> str:
    return writer.node(at, "Gelu", tensor)


def _gelu_erf(writer: _Writer, at: str, x: str) -> str:
    """0.5 x (1 + erf(x / sqrt 2)), as exporters wrote it before opset 20."""
    inner = writer.node(f"{at}/div", "Div", x, writer.scalar(f"{at}/root_of_two", sqrt(2)))
    inner = writer.node(f"{at}/erf", "Erf", inner)
    inner = writer.node(f"{at}/add", "Add", inner, writer.scalar(f"{at}/one", 1.0))
    inner = writer.node(f"{at}/mul", "Mul", x, inner)
    return writer.node(f"{at}/half", "Mul", inner, writer.scalar(f"{at}/one_half", 0.5))


def _gelu_tanh(writer: _Writer, at: str, x: str) -> str:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as GPT-2 has it."""
    inner = writer.node(f"{at}/cube", "Pow", x, writer.scalar(f"{at}/three", 3.0))
    inner = writer.node(f"{at}/mul", "Mul", inner, writer.scalar(f"{at}/cubic_factor", 0.044715))
    inner = writer.node(f"{at}/add", "Add", x, inner)
    inner = writer.node(f"{at}/scale", "Mul", inner, writer.scalar(f"{at}/root_of_two_by_pi", sqrt(2 / pi)))
    inner = writer.node(f"{at}/tanh", "Tanh", inner)
    inner = writer.node(f"{at}/shift", "Add", inner, writer.scalar(f"{at}/one", 1.0))
    inner = writer.node(f"{at}/gate", "Mul", x, inner)
    return writer.node(f"{at}/half", "Mul", inner, writer.scalar(f"{at}/one_half", 0.5))


_GELUS: Mapping[str, Callable[[_Writer, str, str], str]] = {"op": _gelu_op, "erf": _gelu_erf, "tanh": _gelu_tanh}


def _convolution_model(writer: _Writer, given: Mapping[str, int | str]) -> onnx.ModelProto:
    sizes = ConvolutionSizes(**_checked(ConvolutionSizes(), given))  # type: ignore[arg-type]  # checked by field
    if sizes.channels % 4:
        raise _wrong("channels", "a multiple of 4", str(sizes.channels))
    tensor = "input"
    for block in range(sizes.blocks):
        stride = sizes.stride if block == 0 else 1
        tensor = _bottleneck(writer, f"block{block}", tensor, sizes.channels, stride)
    before: list[str | int] = ["batch", sizes.channels, sizes.size, sizes.size]
    smaller = -(-sizes.size // sizes.stride)
    return _model(writer, "convolution_block", before, tensor, ["batch", sizes.channels, smaller, smaller], 17)


def _bottleneck(writer: _Writer, at: str, tensor: str, channels: int, stride: int) -> str:
    """Residual bottleneck; [batch, channels, h, w] -> [batch, channels, ceil(h / stride), ceil(w / stride)]."""
    narrow = channels // 4
    inner = _conv_norm(writer, f"{at}/reduce", tensor, channels, narrow, 1, 1)
    inner = writer.node(f"{at}/reduce/relu", "Relu", inner)
    inner = _conv_norm(writer, f"{at}/spatial", inner, narrow, narrow, 3, stride)
    inner = writer.node(f"{at}/spatial/relu", "Relu", inner)
    inner = _conv_norm(writer, f"{at}/expand", inner, narrow, channels, 1, 1)
    kept = tensor if stride == 1 else _conv_norm(writer, f"{at}/shortcut", tensor, channels, channels, 1, stride)
    summed = writer.node(f"{at}/residual", "Add", inner, kept)
    return writer.node(f"{at}/relu", "Relu", summed)


def _conv_norm(
    writer: _Writer, at: str, tensor: str, channels_in: int, channels_out: int, kernel: int, stride: int
) -> str:
    fan_in = channels_in * kernel * kernel
    weight = writer.weight(f"{at}/weight", channels_out, channels_in, kernel, kernel, fan_in=fan_in)
    border = kernel // 2
    tensor = writer.node(
        f"{at}/conv", "Conv", tensor, weight,
        kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[border] * 4,
    )  # fmt: skip
    statistics = [
        writer.near(f"{at}/{name}", centre, channels_out)
        for name, centre in (("scale", 1.0), ("shift", 0.0), ("mean", 0.0), ("variance", 1.0))
    ]
    return writer.node(f"{at}/norm", "BatchNormalization", tensor, *statistics, epsilon=1e-5)


def _model(
    writer: _Writer, name: str, shape_in: list[str | int], last: str, shape_out: list[str | int], opset: int
) -> onnx.ModelProto:
    (maker,) = (node for node in writer.nodes if last in node.output)
    maker.output[:] = ["output"]
    graph = helper.make_graph(
        writer.nodes, name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape_in)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape_out)],
        writer.weights,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="tilegate")


def _checked(defaults: TransformerSizes | ConvolutionSizes, given: Mapping[str, int | str]) -> dict[str, int | str]:
    """The given sizes, once each is a known field with a value of its type (sizes at least 1)."""
    known = {item.name: getattr(defaults, item.name) for item in fields(defaults)}
    for name, value in given.items():
        if name not in known:
            raise _wrong(name, f"one of {', '.join(known)}", "an unknown size")
        if type(value) is not type(known[name]):
            raise _wrong(name, f"a value of type {type(known[name]).__name__}", repr(value))
        if isinstance(value, int) and value < 1:
            raise _wrong(name, "at least 1", str(value))
    return dict(given)


def _wrong(name: str, expected: str, found: str) -> InputError:
    return InputError(
        stage="ingress", where=f"model to generate, {name}", expected=expected, found=found,
        remedy="Give a size that the kind of model has; accelmodel/generate.py lists them.",
    )  # fmt: skip

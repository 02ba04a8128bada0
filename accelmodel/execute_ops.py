"""Element-wise ops in NumPy: what each op type computes, from its operands laid out over the dims of the output.

Written from the ONNX operator definitions. Operands are floats in float32 (or float64), integers, or booleans; an
absent optional operand is None. Whether attributes or inputs hold a parameter depends on the opset: both are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from accelmodel.graph import Op

# NumPy's own functions take what they are given: Any keeps their overloads out of the tables.
Array = npt.NDArray[Any]
Elementwise = Callable[..., Array]


def number(op: Op, key: str, default: float) -> float:
    """A numeric attribute."""
    value = op.attribute(key, default)
    assert isinstance(value, int | float)
    return value


def _sigmoid(x: Array) -> Array:
    return special.expit(x)


def _gelu(op: Op, x: Array) -> Array:
    if op.attribute("approximate", "none") == "tanh":
        return 0.5 * x * (1.0 + np.tanh(sqrt(2.0 / np.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + special.erf(x * sqrt(0.5)))


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0.0).astype(x.dtype)


def _divide(a: Array, b: Array) -> Array:
    """True division of floats; integers round towards zero."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    return np.trunc(np.divide(a, b, dtype=np.float64)).astype(a.dtype) if a.dtype.itemsize < 8 else _divide_long(a, b)


def _divide_long(a: Array, b: Array) -> Array:
    """64-bit integers do not fit a double: floor division, mended where signs differ."""
    quotient = np.floor_divide(a, b)
    mended: Array = quotient + ((quotient < 0) & (quotient * b != a))
    return mended


def _modulo(op: Op, a: Array, b: Array) -> Array:
    return np.fmod(a, b) if op.attribute("fmod", 0) else np.mod(a, b)


def _power(op: Op, a: Array, b: Array) -> Array:
    raised: Array = np.power(a, b.astype(a.dtype) if a.dtype.kind == "f" else b)
    return raised.astype(a.dtype)


def _clip(op: Op, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    least = low if low is not None else op.attribute("min")
    most = high if high is not None else op.attribute("max")
    bounded = x if least is None else np.maximum(x, np.asarray(least, dtype=x.dtype))
    return bounded if most is None else np.minimum(bounded, np.asarray(most, dtype=x.dtype))


def _batch_normalization(op: Op, x: Array, scale: Array, shift: Array, mean: Array, variance: Array) -> Array:
    return (x - mean) / np.sqrt(variance + number(op, "epsilon", 1e-5)) * scale + shift


def _elu(op: Op, x: Array) -> Array:
    return np.where(x > 0, x, number(op, "alpha", 1.0) * np.expm1(np.minimum(x, 0)))


def _selu(op: Op, x: Array) -> Array:
    alpha, gamma = number(op, "alpha", 1.67326319217681884765625), number(op, "gamma", 1.05070102214813232421875)
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _celu(op: Op, x: Array) -> Array:
    alpha = number(op, "alpha", 1.0)
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _shrink(op: Op, x: Array) -> Array:
    edge, bias = number(op, "lambd", 0.5), number(op, "bias", 0.0)
    return np.where(x < -edge, x + bias, np.where(x > edge, x - bias, 0))


def _is_inf(op: Op, x: Array) -> Array:
    above = np.isposinf(x) & bool(op.attribute("detect_positive", 1))
    below = np.isneginf(x) & bool(op.attribute("detect_negative", 1))
    return above | below


def _shift(op: Op, a: Array, b: Array) -> Array:
    return np.left_shift(a, b) if op.attribute("direction") == "LEFT" else np.right_shift(a, b)


def _all_of(combine: Callable[[Array, Array], Array]) -> Elementwise:
    """An op of any number of operands, from left to right."""

    def combined(op: Op, *operands: Array) -> Array:
        total = operands[0]
        for other in operands[1:]:
            total = combine(total, other)
        return total

    return combined


def _mean(op: Op, *operands: Array) -> Array:
    mean: Array = _all_of(np.add)(op, *operands) / np.asarray(len(operands), dtype=operands[0].dtype)
    return mean


def _plain(function: Callable[..., Array]) -> Elementwise:
    """An op without attributes."""

    def applied(op: Op, *operands: Array) -> Array:
        return function(*operands)

    return applied


def quantized(op: Op, x: Array, scale: Array, zero: Array | None, lowest: float, highest: float) -> Array:
    """QuantizeLinear: round(x / scale) half to even, + zero point, saturated to the output's range."""
    levels = np.rint(x / scale) + (0 if zero is None else zero.astype(x.dtype))
    saturated: Array = np.clip(levels, lowest, highest)
    return saturated


def _dequantized(op: Op, x: Array, scale: Array, zero: Array | None = None) -> Array:
    shifted = x.astype(scale.dtype) - (0 if zero is None else zero.astype(scale.dtype))
    return shifted * scale


def _hard_sigmoid(op: Op, x: Array) -> Array:
    return np.clip(number(op, "alpha", 0.2) * x + number(op, "beta", 0.5), 0, 1)


ELEMENTWISE: Mapping[str, Elementwise] = {
    "Add": _plain(np.add), "Sub": _plain(np.subtract), "Mul": _plain(np.multiply), "Div": _plain(_divide),
    "Mod": _modulo, "Pow": _power, "Neg": _plain(np.negative), "Abs": _plain(np.abs), "Sign": _plain(np.sign),
    "Reciprocal": _plain(lambda x: np.divide(1, x, dtype=x.dtype)), "Floor": _plain(np.floor), "Ceil": _plain(np.ceil),
    "Round": _plain(np.rint), "Sqrt": _plain(np.sqrt), "Exp": _plain(np.exp), "Log": _plain(np.log),
    "Sin": _plain(np.sin), "Cos": _plain(np.cos), "Tan": _plain(np.tan), "Asin": _plain(np.arcsin),
    "Acos": _plain(np.arccos), "Atan": _plain(np.arctan), "Sinh": _plain(np.sinh), "Cosh": _plain(np.cosh),
    "Asinh": _plain(np.arcsinh), "Acosh": _plain(np.arccosh), "Atanh": _plain(np.arctanh), "Tanh": _plain(np.tanh),
    "Erf": _plain(special.erf), "Sigmoid": _plain(_sigmoid), "Softplus": _plain(_softplus),
    "Softsign": _plain(lambda x: x / (1 + np.abs(x))), "Mish": _plain(lambda x: x * np.tanh(_softplus(x))),
    "Swish": lambda op, x: x * _sigmoid(number(op, "alpha", 1.0) * x), "Gelu": _gelu,
    "Relu": _plain(lambda x: np.maximum(x, 0)), "PRelu": _plain(lambda x, slope: np.where(x < 0, slope * x, x)),
    "LeakyRelu": lambda op, x: np.where(x < 0, number(op, "alpha", 0.01) * x, x),
    "ThresholdedRelu": lambda op, x: np.where(x > number(op, "alpha", 1.0), x, 0),
    "Elu": _elu, "Selu": _selu, "Celu": _celu, "Shrink": _shrink, "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)), "Clip": _clip,
    "BatchNormalization": _batch_normalization, "DequantizeLinear": _dequantized,
    "Sum": _all_of(np.add), "Max": _all_of(np.maximum), "Min": _all_of(np.minimum), "Mean": _mean,
    "Where": _plain(np.where), "Cast": _plain(lambda x: x), "CastLike": _plain(lambda x, like: x),
    "Not": _plain(np.logical_not), "And": _plain(np.logical_and), "Or": _plain(np.logical_or),
    "Xor": _plain(np.logical_xor), "Equal": _plain(np.equal), "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal), "Greater": _plain(np.greater), "GreaterOrEqual": _plain(np.greater_equal),
    "IsNaN": _plain(np.isnan), "IsInf": _is_inf, "BitShift": _shift, "BitwiseAnd": _plain(np.bitwise_and),
    "BitwiseOr": _plain(np.bitwise_or), "BitwiseXor": _plain(np.bitwise_xor), "BitwiseNot": _plain(np.bitwise_not),
}  # fmt: skip

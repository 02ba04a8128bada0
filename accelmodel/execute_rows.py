"""Ops that combine elements along axes, in NumPy: reductions, softmax, normalisations, pools and windows.

Operands are laid out over the dims of the op; `axes` are the numbers of its reduction dims. Results keep these axes,
with size 1 where they are reduced. Written from the ONNX operator definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from accelmodel.execute_ops import number
from accelmodel.graph import Op

Array = npt.NDArray[Any]
Axes = tuple[int, ...]
Rows = Callable[..., tuple[Array, ...]]


def _total(x: Array, axes: Axes) -> Array:
    total: Array = x.sum(axis=axes, keepdims=True, dtype=x.dtype)
    return total


def _average(x: Array, axes: Axes) -> Array:
    mean: Array = x.mean(axis=axes, keepdims=True, dtype=x.dtype)
    return mean


def _largest(x: Array, axes: Axes) -> Array:
    """Of no elements: the least value of the type, as ONNX says."""
    largest: Array = x.max(axis=axes, keepdims=True) if x.size else _filled(x, axes, _limits(x.dtype)[0])
    return largest


def _smallest(x: Array, axes: Axes) -> Array:
    smallest: Array = x.min(axis=axes, keepdims=True) if x.size else _filled(x, axes, _limits(x.dtype)[1])
    return smallest


def _filled(x: Array, axes: Axes, value: float) -> Array:
    """A reduction of no elements."""
    return np.full([1 if axis in axes else n for axis, n in enumerate(x.shape)], value, dtype=x.dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind not in "iu":
        return -np.inf, np.inf
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _log_sum_exp(x: Array, axes: Axes) -> Array:
    peak = _largest(x, axes)
    peak = np.where(np.isfinite(peak), peak, 0)
    return np.log(_total(np.exp(x - peak), axes)) + peak


def _reduce(function: Callable[[Array, Axes], Array]) -> Rows:
    def reduced(op: Op, axes: Axes, x: Array) -> tuple[Array, ...]:
        return (function(x, axes),)

    return reduced


def _softmax(op: Op, axes: Axes, x: Array) -> tuple[Array, ...]:
    raised = np.exp(x - x.max(axis=axes, keepdims=True))
    return (raised / _total(raised, axes),)


def _log_softmax(op: Op, axes: Axes, x: Array) -> tuple[Array, ...]:
    shifted = x - x.max(axis=axes, keepdims=True)
    return (shifted - np.log(_total(np.exp(shifted), axes)),)


def _normalise(
    op: Op, axes: Axes, x: Array, scale: Array | None = None, shift: Array | None = None, least: float = 1e-5
) -> tuple[Array, ...]:
    """(x - mean) / sqrt(variance + epsilon) x scale + shift; then mean and 1 / deviation, which some ops return too."""
    mean = _average(x, axes)
    centred = x - mean
    inverse = 1 / np.sqrt(_average(centred * centred, axes) + number(op, "epsilon", least))
    result = centred * inverse
    result = result if scale is None else result * scale
    return (result if shift is None else result + shift, mean, inverse)


def _root_mean_square(op: Op, axes: Axes, x: Array, scale: Array) -> tuple[Array, ...]:
    return (x / np.sqrt(_average(x * x, axes) + number(op, "epsilon", 1e-5)) * scale,)


def _mean_variance(op: Op, axes: Axes, x: Array) -> tuple[Array, ...]:
    centred = x - _average(x, axes)
    return (centred / (np.sqrt(_average(centred * centred, axes)) + 1e-9),)


def _arg(function: Callable[..., Array]) -> Rows:
    """Index of the largest or smallest, the first of equals, or the last."""

    def found(op: Op, axes: Axes, x: Array) -> tuple[Array, ...]:
        (axis,) = axes
        if not op.attribute("select_last_index", 0):
            return (np.expand_dims(function(x, axis=axis), axis),)
        return (np.expand_dims(x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis), axis),)

    return found


def _local_response(op: Op, axes: Axes, windows: Array, x: Array) -> tuple[Array, ...]:
    """x / (bias + alpha / size x sum of squares in the window) ^ beta. windows: x with neighbours on the last dim."""
    share = number(op, "alpha", 1e-4) / number(op, "size", 1)
    base = number(op, "bias", 1.0) + share * _total(windows * windows, axes)
    return (x / base ** x.dtype.type(number(op, "beta", 0.75)),)


ROWS: Mapping[str, Rows] = {
    "ReduceSum": _reduce(_total), "ReduceMean": _reduce(_average),
    "ReduceMax": _reduce(_largest),
    "ReduceMin": _reduce(_smallest),
    "ReduceProd": _reduce(lambda x, axes: x.prod(axis=axes, keepdims=True, dtype=x.dtype)),
    "ReduceL1": _reduce(lambda x, axes: _total(np.abs(x), axes)),
    "ReduceL2": _reduce(lambda x, axes: np.sqrt(_total(x * x, axes))),
    "ReduceSumSquare": _reduce(lambda x, axes: _total(x * x, axes)),
    "ReduceLogSum": _reduce(lambda x, axes: np.log(_total(x, axes))), "ReduceLogSumExp": _reduce(_log_sum_exp),
    "ArgMax": _arg(np.argmax), "ArgMin": _arg(np.argmin), "Softmax": _softmax, "LogSoftmax": _log_softmax,
    "LayerNormalization": _normalise, "InstanceNormalization": _normalise, "GroupNormalization": _normalise,
    "RMSNormalization": _root_mean_square, "MeanVarianceNormalization": _mean_variance,
    "GlobalAveragePool": _reduce(_average), "GlobalMaxPool": _reduce(_largest),
}  # fmt: skip
WINDOWS = ("MaxPool", "AveragePool", "LRN")


def windows(op: Op, axes: Axes, laid_out: Array, counted: Array | None, centre: Array | None) -> tuple[Array, ...]:
    """Pools and LRN. laid_out: the operand's windows over the dims of the op; counted: 1 where an index counts for
    the mean of AveragePool; centre: the operand without its window, for LRN."""
    if op.op_type == "MaxPool":
        return (laid_out.max(axis=axes, keepdims=True),)
    if op.op_type == "LRN":
        assert centre is not None
        return _local_response(op, axes, laid_out, centre)
    assert counted is not None
    return (_total(laid_out, axes) / counted.sum(axis=axes, keepdims=True, dtype=laid_out.dtype),)

"""How far results are from a reference: by tensor, against bounds that precision and reduction length give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
import numpy.typing as npt

from accelmodel.error_bound import CONFIDENCE
from accelmodel.errors import InputError

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far one tensor is from the reference. e = ours - reference, over the elements where both are finite.

    max_relative: largest |e| / max(|reference|, rms of the reference). relative_l2: |e| / |reference|, L2 norms.
    cosine: of ours and the reference. top1_agreement: share of rows with the reference's largest class; None where
    the tensor is no [rows, classes] table. nonfinite: elements that are NaN or infinite where the reference is not,
    or finite where it is not. compared: elements that entered e. worst_index: of the largest relative error; () for
    none. bound, max_bound: what relative_l2 and max_relative may reach. passed: within both, and nonfinite = 0.
    """

    name: str
    max_abs: float
    max_relative: float
    relative_l2: float
    cosine: float
    top1_agreement: float | None
    nonfinite: int
    compared: int
    worst_index: tuple[int, ...]
    bound: float
    max_bound: float
    passed: bool


def compare(
    outputs: Mapping[str, Array], reference: Mapping[str, Array], bounds: Mapping[str, float]
) -> tuple[OutputError, ...]:
    """Errors of every output that the reference has too, in order. bounds: of the relative L2 error, by tensor
    (see error_bound.error_bounds)."""
    shared = [name for name in outputs if name in reference]
    return tuple(compare_one(name, outputs[name], reference[name], bounds[name]) for name in shared)


def first_bad_group(
    groups: Mapping[str, Mapping[str, Array]], reference: Mapping[str, Array], bounds: Mapping[str, float]
) -> str | None:
    """The first group, in the order of execution, one of whose outputs exceeds its bound; None where none does.

    groups: outputs by group. Tensors that the reference does not have are passed over.
    """
    for group, outputs in groups.items():
        if not all(row.passed for row in compare(outputs, reference, bounds)):
            return group
    return None


def compare_one(name: str, ours: Array, theirs: Array, bound: float) -> OutputError:
    """Compare one tensor with its reference. Integers and booleans must be equal.

    A relative L2 error within `bound` = c * sigma (c: CONFIDENCE) still lets one wrong element of a million hide, so
    the largest element error is bounded too: of N errors of deviation sigma the largest exceeds
    (c + sqrt(2 ln N)) * sigma with a probability below exp(-c^2 / 2).
    """
    if ours.shape != theirs.shape:
        raise InputError(
            stage="execution", where=f"output {name!r}", expected=f"the reference's shape {theirs.shape}",
            found=f"{ours.shape}", remedy="Run plan and reference on the same shapes.",
        )  # fmt: skip
    exact = theirs.dtype.kind in "iub"
    left, right = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    good, agreed = np.isfinite(left) & np.isfinite(right), (left == right) | (np.isnan(left) & np.isnan(right))
    nonfinite, count = int((~good & ~agreed).sum()), int(good.sum())
    error = np.where(good, np.abs(np.where(good, left, 0.0) - np.where(good, right, 0.0)), 0.0)
    scale = np.where(good, np.abs(np.where(good, right, 0.0)), 0.0)
    rms = sqrt(float((scale**2).sum()) / count) if count else 0.0
    relative = _ratio(error, np.maximum(scale, rms))
    worst = int(relative.argmax()) if count else 0
    l2 = float(_ratio(np.linalg.norm(error), np.linalg.norm(scale)))
    bound = 0.0 if exact else bound
    max_bound = bound * (1.0 + sqrt(2.0 * log(max(2, count))) / CONFIDENCE)
    largest = float(relative.flat[worst]) if count else 0.0
    return OutputError(
        name=name, max_abs=float(error.max(initial=0.0)), max_relative=largest, relative_l2=l2,
        cosine=_cosine(np.where(good, left, 0.0), np.where(good, right, 0.0)), top1_agreement=_top1(left, right),
        nonfinite=nonfinite, compared=count,
        worst_index=tuple(int(i) for i in np.unravel_index(worst, relative.shape)) if count else (),
        bound=bound, max_bound=max_bound,
        passed=nonfinite == 0 and count > 0 and l2 <= bound and largest <= max_bound,
    )  # fmt: skip


def _ratio(error: npt.ArrayLike, scale: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """error / scale, where 0 / 0 is no error and x / 0 an infinite one."""
    top, bottom = np.asarray(error, dtype=np.float64), np.asarray(scale, dtype=np.float64)
    safe = np.where(bottom > 0, bottom, 1.0)
    return np.where(bottom > 0, top / safe, np.where(top > 0, inf, 0.0))


def _cosine(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> float:
    """Cosine of the two as vectors; 1 where both are zero, 0 where one is."""
    norms = float(np.linalg.norm(left)), float(np.linalg.norm(right))
    if min(norms) == 0.0:
        return 1.0 if max(norms) == 0.0 else 0.0
    return float(np.vdot(left / norms[0], right / norms[1]))


def _top1(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> float | None:
    """Share of rows whose largest class agrees, of a [rows, classes] table; ties of the reference all count."""
    if left.ndim != 2 or left.shape[1] < 2 or left.shape[0] == 0:
        return None
    chosen = np.take_along_axis(right, left.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float((chosen == right.max(axis=1)).mean())

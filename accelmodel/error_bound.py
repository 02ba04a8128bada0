"""How far a plan's numerics may be from exact arithmetic: bounds from precision and reduction length.

Rounding errors are taken as independent and of mean zero, as in the probabilistic analysis of Higham and Mary (A new
approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019). There the constant of a sum of n
terms, gamma_n = n u / (1 - n u), becomes c sqrt(n) u + O(u^2), and holds with probability at least
1 - 2 exp(-c^2 / 2) for each sum; u is half the spacing of the precision at 1. A tensor's relative error then has the
variance

    V(out) = max over operands V(in) + (s u_store^2 + n u_accumulate^2) / 3

(an error spread evenly over [-u, u] has the variance u^2 / 3), with s the roundings to storage (the result, and
operands that enter rounded: inputs, weights) and n the length of the reduction. The bound on its relative L2 error is
c sqrt(V) of ours plus the same of the reference, which rounds everything to its own precision. Along a path variances
add, so the bound grows with the root of its length; it does not know how an op amplifies errors (cancellation,
exponentials), which c has room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt

from accelmodel.plan import Lowered, LoweredOp

# c above: a sum fails the bound with a probability below 7e-4, a tensor's L2 norm, over many elements, far below.
CONFIDENCE = 4.0

# Half the spacing of numbers at 1: 2^-(stored bits of the significand + 1).
UNIT_ROUNDOFF: Mapping[str, float] = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3,
}  # fmt: skip


def error_bounds(lowered: Lowered, reference_precision: str = "float32") -> dict[str, float]:
    """Bound of the relative L2 error of every tensor against a reference that works in one precision throughout."""
    ours = _variances(lowered, None)
    theirs = _variances(lowered, reference_precision)
    return {name: CONFIDENCE * (sqrt(ours[name]) + sqrt(theirs[name])) for name in ours}


def _variances(lowered: Lowered, precision: str | None) -> dict[str, float]:
    """V of every tensor at the ops' own precisions, or at one given precision. Inputs and weights are exact."""
    made_by = {name for op in lowered.graph.ops for name in op.outputs}
    variance = dict.fromkeys(lowered.graph.tensors, 0.0)
    for op in lowered.ops:
        reads = [access.tensor for access in op.reads]
        carried = max((variance[name] for name in reads), default=0.0)
        rounded = sum(name not in made_by for name in reads) if precision is None else 0
        added = _added(op, precision, rounded)
        for access in op.writes:
            variance[access.tensor] = carried + added
    return variance


def _added(op: LoweredOp, precision: str | None, rounded: int) -> float:
    """(s u_store^2 + n u_accumulate^2) / 3 of one op; nothing where it only moves data or works on integers."""
    if op.kind in ("view", "movement"):
        return 0.0
    store = UNIT_ROUNDOFF.get(precision or op.precision, 0.0)
    accumulate = UNIT_ROUNDOFF.get(precision or op.accumulator, 0.0)
    length = prod(dim.size for dim in op.dims if dim.role == "reduction") if op.kind != "elementwise" else 1
    return ((1 + rounded) * store**2 + length * accumulate**2) / 3.0

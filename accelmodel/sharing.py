"""Max-min fair sharing of one capacity, the rule by which kernels that run at the same moment share DRAM bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accelmodel.compiled import compiled

if TYPE_CHECKING:
    import numpy.typing as npt

# Demands this close above the capacity count as met: sums of shares of 1 must not read as contention.
TOLERANCE = 1e-12


@compiled
def max_min_level(demands: npt.NDArray[np.float64], capacity: float) -> float:
    """The water level L with sum(min(demand, L)) = capacity; infinite where all demands fit together.

    Progressive filling: those that ask for no more than an equal share get all they ask, the others share what is
    left equally. `demands` and `capacity` share one unit; demands >= 0. The grant of demand d is min(d, L).
    """
    total = 0.0
    for demand in demands:
        total += demand
    if total <= capacity * (1.0 + TOLERANCE):
        return np.inf
    level = 0.0
    while True:
        left, unmet = capacity, 0
        for demand in demands:
            if demand <= level:
                left -= demand
            else:
                unmet += 1
        raised = left / unmet if unmet else level
        if raised <= level * (1.0 + TOLERANCE):
            return level
        level = raised

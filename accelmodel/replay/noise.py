"""Service noise by counter: the draw of kernel k of request r depends on (seed, r, k) and on nothing else.

So two sides, and every hybrid of them, see the same draws on the same requests, whatever else happened before.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from accelmodel.compiled import compiled

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11, _S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(32)
_UNIT = 2.0**-53


@compiled
def _mix(value: np.uint64) -> np.uint64:
    """Finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits with full avalanche."""
    value = value + _GAMMA
    value = (value ^ (value >> _S30)) * _MIX_1
    value = (value ^ (value >> _S27)) * _MIX_2
    return value ^ (value >> _S31)


@compiled
def _key(seed: int, request: int, kernel: int) -> np.uint64:
    return _mix(_mix(np.uint64(seed)) ^ _mix((np.uint64(request) << _S32) | np.uint64(kernel)))


@compiled
def measured_factor(seed: int, request: int, kernel: int, factors: npt.NDArray[np.float64]) -> float:
    """One of the measured factors, each equally likely. [F]"""
    uniform = float(_key(seed, request, kernel) >> _S11) * _UNIT
    return float(factors[int(uniform * len(factors))])


@compiled
def lognormal_factor(seed: int, request: int, kernel: int, sigma: float) -> float:
    """Lognormal factor of mean 1: exp(sigma * z - sigma^2 / 2), z standard normal by Box and Muller."""
    key = _key(seed, request, kernel)
    radius = (float(key >> _S11) + 0.5) * _UNIT
    angle = float(_mix(key) >> _S11) * _UNIT
    z = math.sqrt(-2.0 * math.log(radius)) * math.cos(2.0 * math.pi * angle)
    return math.exp(sigma * z - 0.5 * sigma * sigma)


def sigma_of(noise_cv: float) -> float:
    """Sigma of the lognormal whose coefficient of variation is noise_cv: sqrt(ln(1 + cv^2))."""
    return math.sqrt(math.log1p(noise_cv * noise_cv))

"""Closed forms of queueing theory that a replay is held against. The unit of time is one mean service."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq


def erlang_c(servers: int, load: float) -> float:
    """Probability of waiting in M/M/c; load = arrival rate / service rate."""
    tail = load**servers / math.factorial(servers) * servers / (servers - load)
    return tail / (sum(load**n / math.factorial(n) for n in range(servers)) + tail)


def m_m_c_wait(servers: int, load: float) -> tuple[float, float]:
    """(A, theta) of P(wait > t) = A exp(-theta t) in M/M/c."""
    return erlang_c(servers, load), servers - load


def bulk_wait(rate: float, largest: int) -> tuple[float, float]:
    """(A, theta) of P(wait > t) = A exp(-theta t) in M/M(1,b)/1: the server takes 1 to b at once, all those that wait.

    With n waiting, p_n = p_0 r^n, where r + r^2 + ... + r^b = rate (Chaudhry and Templeton 1983); balance of the idle
    state gives p_0, and an arrival that finds n waiting leaves the queue after n // b + 1 services.
    """
    r = float(brentq(lambda x: sum(x**k for k in range(1, largest + 1)) - rate, 1e-9, 1.0))
    first = 1.0 / (1.0 / rate + 1.0 / (1.0 - r))
    return first / (1.0 - r), 1.0 - r**largest


def quantile(wait: tuple[float, float], level: float) -> float:
    """Time that the wait exceeds with probability 1 - level."""
    amount, theta = wait
    return math.log(amount / (1.0 - level)) / theta


def mean(wait: tuple[float, float]) -> float:
    amount, theta = wait
    return amount / theta


def m_g_1_wait(rate: float, second_moment: float) -> float:
    """Mean wait of M/G/1 with mean service 1 (Pollaczek and Khinchine)."""
    return rate * second_moment / (2.0 * (1.0 - rate))


def m_d_1_exceeds(rate: float, time: float) -> float:
    """P(wait > t) of M/D/1 (Erlang 1909)."""
    terms = ((rate * (k - time)) ** k / math.factorial(k) * math.exp(-rate * (k - time)) for k in range(int(time) + 1))
    return 1.0 - (1.0 - rate) * sum(terms)


def cobham_waits(rates: tuple[float, float], second_moment: float) -> tuple[float, float]:
    """Mean waits of two classes with non-preemptive priority, both with mean service 1 (Cobham 1954)."""
    residual = sum(rates) * second_moment / 2.0
    first = residual / (1.0 - rates[0])
    return first, first / (1.0 - sum(rates))


def mean_and_error(values: np.ndarray, warm_up: int, batches: int = 40) -> tuple[float, float]:
    """Mean after warm-up and its standard error from batch means, which respects the dependence in a queue."""
    means = np.array([part.mean() for part in np.array_split(values[warm_up:], batches)])
    return float(means.mean()), float(means.std(ddof=1) / math.sqrt(batches))

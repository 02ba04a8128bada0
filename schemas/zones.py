"""The bandwidth lens's one rule: which zone an iteration is in. What fills and what draws the column `zone` uses it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final, Literal

Zone = Literal["baseline", "tuning candidate", "unstable tail latency", "saturation"]
ZONES: Final[tuple[Zone, ...]] = ("baseline", "tuning candidate", "unstable tail latency", "saturation")


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where the zones of one quantity begin (inclusive). None: the quantity never leads there."""

    quantity: str
    meaning: str
    tuning: float | None
    unstable: float
    saturation: float | None

    def zone(self, value: float) -> int:
        """Index into ZONES of the worst zone that the value reaches."""
        reached = 0
        for index, start in enumerate((self.tuning, self.unstable, self.saturation), start=1):
            if start is not None and value >= start:
                reached = index
        return reached


THRESHOLDS: Final[tuple[Threshold, ...]] = (
    # Half of the memory is where double buffering stops being free; above it, something is written out and read back.
    Threshold("working_set_ratio", "working set ÷ on-chip capacity", 0.5, 1.0, 2.0),
    # A plan that alone asks for four fifths of DRAM leaves no room for a second one at the same moment.
    Threshold("dram_demand_ratio", "DRAM demand ÷ DRAM peak", 0.5, 0.8, 0.95),
    # Latency is a symptom, not a pressure: it can only show that a tail is unstable.
    Threshold("tail_ratio", "p99 ÷ p50 of the side's replay", None, 3.0, None),
)


def zone_of(working_set_ratio: float, dram_demand_ratio: float, tail_ratio: float | None) -> Zone:
    """The worst zone that any quantity reaches.

    working_set_ratio: peak working set / on-chip capacity. dram_demand_ratio: DRAM bytes / busy time / DRAM peak.
    tail_ratio: p99 / p50 of the side's replayed latency; None where this iteration was not replayed (only a side's own
    policy is). Raises ValueError for a negative or non-finite ratio: a zone is never guessed.
    """
    values = (working_set_ratio, dram_demand_ratio, tail_ratio)
    reached = 0
    for threshold, value in zip(THRESHOLDS, values, strict=True):
        if value is None:
            continue
        if not isfinite(value) or value < 0:
            raise ValueError(f"{threshold.quantity}: expected a finite ratio >= 0, found {value}")
        reached = max(reached, threshold.zone(value))
    return ZONES[reached]

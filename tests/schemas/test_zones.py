"""Zones of the bandwidth lens: one rule, edges by hand."""

import pytest

from schemas.tables_plan import ZONES as TABLE_ZONES
from schemas.zones import THRESHOLDS, ZONES, zone_of


@pytest.mark.parametrize(
    ("working_set", "demand", "tail", "zone"),
    [
        (0.0, 0.0, None, "baseline"),
        (0.49, 0.49, 2.9, "baseline"),
        (0.5, 0.0, None, "tuning candidate"),
        (0.0, 0.5, 1.0, "tuning candidate"),
        (1.0, 0.0, None, "unstable tail latency"),
        (0.0, 0.8, None, "unstable tail latency"),
        (0.0, 0.0, 3.0, "unstable tail latency"),
        (2.0, 0.0, None, "saturation"),
        (0.0, 0.95, None, "saturation"),
        (0.0, 0.0, 1000.0, "unstable tail latency"),  # a tail alone never says saturation
        (0.6, 1.7, 9.0, "saturation"),
    ],
)
def test_the_zone_is_the_worst_that_any_quantity_reaches(
    working_set: float, demand: float, tail: float | None, zone: str
) -> None:
    assert zone_of(working_set, demand, tail) == zone


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_a_ratio_that_makes_no_sense_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="working_set_ratio"):
        zone_of(value, 0.0, None)


def test_thresholds_rise_from_zone_to_zone() -> None:
    for threshold in THRESHOLDS:
        starts = [start for start in (threshold.tuning, threshold.unstable, threshold.saturation) if start is not None]
        assert starts == sorted(starts)


def test_the_table_allows_exactly_these_zones() -> None:
    assert tuple(TABLE_ZONES) == ZONES

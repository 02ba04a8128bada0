"""Tail-latency drivers."""

import numpy as np
import polars as pl
import pytest

from reports import drivers, words
from reports.blocks import Charts, Missing, Note, Table
from reports.drivers import DRIVERS, Shares, shares
from tests.reports.worlds import world


def requests() -> pl.DataFrame:
    """100 requests of a candidate: compute 1 to 100 us; the last five also wait 1000 us for DRAM."""
    compute = np.arange(1, 101) * 10**6
    contention = np.where(np.arange(100) >= 95, 1000 * 10**6, 0)
    zeros = np.zeros(100, dtype=np.int64)
    columns = {f"{name}_ps": zeros for name in DRIVERS} | {"compute_ps": compute, "contention_ps": contention}
    return pl.DataFrame(
        {"side": ["candidate"] * 100, "workload": ["w"] * 100, "status": ["completed"] * 100,
         "latency_ps": compute + contention, **columns}
    )  # fmt: skip


def test_the_excess_is_what_the_slowest_have_beyond_the_middle() -> None:
    (found,) = shares(requests(), "overall")
    by_name = dict(zip(DRIVERS, found.excess_ns, strict=True))

    # The slowest from the 95th percentile on: request 95 (no wait) and the five that wait.
    assert by_name["contention"] == pytest.approx(1000e3 * 5 / 6, rel=0.01)
    assert by_name["compute"] == pytest.approx((97.5 - 50.5) * 1e3, rel=0.02)
    assert sum(found.slowest_ns) == pytest.approx(97.5e3 + 1000e3 * 5 / 6, rel=0.02)


def test_a_scope_without_completed_requests_has_no_shares() -> None:
    assert shares(requests(), "another") == ()


def test_the_headline_names_the_largest_excess() -> None:
    text = drivers.headline(shares(requests(), "overall"))

    assert text.startswith("candidate: mostly contention (")
    assert "because DRAM is shared" in text


def test_a_tail_without_excess_says_so() -> None:
    flat = Shares("candidate", "overall", (1.0,) * len(DRIVERS), (1.0,) * len(DRIVERS))

    assert drivers.headline((flat,)) == "candidate: no driver is larger in the tail than in the middle."


def test_a_time_far_below_the_longest_is_never_shown_as_zero() -> None:
    scale = words.time_scale([191e6])

    assert drivers.time_cell(10.0, scale, 191e6) == "≈0"
    assert drivers.time_cell(-10.0, scale, 191e6) == "≈0"
    assert drivers.time_cell(0.0, scale, 191e6) == "0"
    assert drivers.time_cell(4.9e6, scale, 191e6) == "4.90"


def test_the_section_shows_every_scope_and_leaves_out_drivers_that_are_zero_everywhere() -> None:
    note, drawn, table = drivers.section(world(requests=2000)).blocks[:3]
    assert isinstance(note, Note) and isinstance(drawn, Charts) and isinstance(table, Table)

    assert [chart.title for chart in drawn.charts] == ["Drivers: overall", "Drivers: block", "Drivers: conv"]
    assert table.rows[0].cells[0].text == "contention"
    assert "throttle" not in [row.cells[0].text for row in table.rows]


def test_without_requests_the_section_says_missing() -> None:
    assert isinstance(drivers.section(world(without=["requests"], requests=200)).blocks[0], Missing)

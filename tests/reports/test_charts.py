"""Charts: units on every axis, tooltips, bounded data."""

from collections.abc import Iterator
from typing import Any

import pytest

from reports import charts
from reports.blocks import Chart, charts_of
from reports.page import compose
from tests.reports.worlds import world


@pytest.fixture(scope="module")
def drawn() -> dict[str, Chart]:
    sections = compose(world(requests=2000))
    return {chart.id: chart for section in sections for chart in charts_of(section.blocks)}


def encodings(spec: Any) -> Iterator[dict[str, Any]]:
    if "encoding" in spec:
        yield spec["encoding"]
    for layer in spec.get("layer", ()):
        yield from encodings(layer)


def test_every_chart_has_titled_axes_and_a_tooltip(drawn: dict[str, Chart]) -> None:
    assert len(drawn) == 17
    for chart in drawn.values():
        found = list(encodings(chart.spec))
        sides = [item["y"] for item in found if "y" in item]

        assert any(item["x"].get("title") for item in found if "x" in item), chart.id
        # Rows that are names of lanes and bars explain themselves.
        assert any(side.get("title") for side in sides) or {side["type"] for side in sides} == {"nominal"}, chart.id
        assert any("tooltip" in item for item in found), chart.id
        assert chart.description and chart.title


def test_times_and_sizes_on_axes_have_their_unit(drawn: dict[str, Chart]) -> None:
    titles = [item[axis]["title"] for chart in drawn.values() for item in encodings(chart.spec) for axis in ("x", "y")
              if axis in item and item[axis].get("title")]  # fmt: skip

    for title in titles:
        if "time" in title or "latency" in title or "address" in title:
            assert any(unit in title for unit in ("ns", "µs", "ms", "KiB", "MiB")), title


def test_colours_are_the_pages_so_that_dark_and_print_follow(drawn: dict[str, Chart]) -> None:
    assert "var(--candidate)" in str(drawn["chart-tail-0"].spec)
    assert drawn["chart-tail-0"].spec["config"]["axis"]["labelColor"] == "var(--muted)"


def test_a_chart_refuses_more_rows_than_a_page_should_hold() -> None:
    rows = [{"side": "candidate", "part": "middle", "driver": "compute", "order": 0, "time_ns": 1.0}] * 3001

    with pytest.raises(ValueError, match="aggregate first"):
        charts.drivers("c", "overall", rows)


def test_ticks_of_a_log_axis_are_few_and_inside() -> None:
    assert charts._log_ticks(150, 2500) == [200, 500, 1000, 2000]
    assert charts._log_ticks(0.5, 2e6) == [1, 10, 100, 1000, 10000, 100000, 1000000]

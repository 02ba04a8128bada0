"""Charts as Vega-Lite specs: axes with units, tooltips, bounded data, colours of the page's theme.

Colours are CSS variables of the page, so one drawing serves light, dark and print.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any, Final

import altair as alt
import polars as pl

from reports import words
from reports.blocks import Chart
from schemas.zones import THRESHOLDS, ZONES

MOST_ROWS: Final = 3000
_SIDES = ["comparator", "candidate"]
# One legend for colour and dash: with different legends Vega-Lite warns that it has to choose.
_SIDE_LEGEND = alt.Legend(orient="top", symbolType="stroke")
_SIDE = alt.Color(
    "side:N",
    title=None,
    scale=alt.Scale(domain=_SIDES, range=["var(--comparator)", "var(--candidate)"]),
    legend=_SIDE_LEGEND,
)
_DASH = alt.StrokeDash(
    "side:N", title=None, legend=_SIDE_LEGEND, scale=alt.Scale(domain=_SIDES, range=[[5, 3], [1, 0]])
)
_PERCENTILES: Final = {2: "p50", 10: "p90", 20: "p95", 100: "p99", 1000: "p99.9", 10000: "p99.99", 100000: "p99.999"}
"""Ticks of a quantile chart: 1 / (1 - q) and its name."""
_KIND_COLOURS: Final = {
    "launch": "var(--d-launch)", "load": "var(--k-0)", "kernel": "var(--d-compute)", "store": "var(--k-1)",
    "barrier": "var(--d-contention)", "idle": "var(--line)",
}  # fmt: skip
_ROLE_COLOURS: Final = {
    "stream": "var(--k-0)", "operand": "var(--k-1)", "intermediate": "var(--k-2)", "output": "var(--k-3)",
    "accumulator": "var(--k-4)",
}  # fmt: skip
_CONFIG: Final[dict[str, Any]] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)", "titleColor": "var(--text)", "gridColor": "var(--line)",
        "domainColor": "var(--line)", "tickColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 12,
        "titleFontWeight": 500, "titlePadding": 8, "labelLimit": 220,
    },
    "legend": {
        "labelColor": "var(--text)", "titleColor": "var(--muted)", "labelFontSize": 12, "titleFontSize": 12,
        "symbolStrokeWidth": 3,
    },
}  # fmt: skip


def quantiles(id_: str, scope: str, points: pl.DataFrame) -> Chart:
    """Latency against how rare it is: percentiles on an axis that gives every nine the same room.

    points: side, beyond (1 / (1 - q)), latency_ns."""
    scale = words.time_scale(points["latency_ns"])
    rows = points.select(
        "side",
        pl.col("beyond").round(4),
        latency=(pl.col("latency_ns") / scale.per_unit).round(4),
        percentile=(100 * (1 - 1 / pl.col("beyond"))).round(4),
    ).to_dicts()
    rarity, latency = [row["beyond"] for row in rows], [row["latency"] for row in rows]
    names = " : ".join(f"datum.value == {tick} ? '{name}'" for tick, name in _PERCENTILES.items())
    x = alt.X(
        "beyond:Q",
        title="percentile of requests, rarer to the right",
        scale=alt.Scale(type="log", domain=[min(rarity), max(rarity)], nice=False),
        axis=alt.Axis(values=[tick for tick in _PERCENTILES if tick <= max(rarity)], labelExpr=f"{names} : ''"),
    )
    y = alt.Y(
        "latency:Q",
        title=f"latency, {scale.unit} (log)",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(values=_log_ticks(min(latency), max(latency)), format=",~g"),
    )
    tooltip = [
        alt.Tooltip("side:N", title="side"),
        alt.Tooltip("percentile:Q", title="percentile", format=".3f"),
        alt.Tooltip("latency:Q", title=f"latency, {scale.unit}", format=",.4~r"),
    ]
    base = alt.Chart(_data(rows)).encode(x=x, y=y, color=_SIDE)
    line = base.mark_line(strokeWidth=2.2, interpolate="monotone").encode(strokeDash=_DASH)
    targets = base.mark_point(size=60, opacity=0, filled=True).encode(tooltip=tooltip)
    description = f"Latency of {scope} by percentile, comparator and candidate, both axes logarithmic."
    return _finish(alt.layer(line, targets), id_, f"Latency by percentile: {scope}", description, 250)


def lines(
    id_: str, title: str, description: str, rows: Sequence[dict[str, Any]], *, x: tuple[str, str], y: tuple[str, str],
    ordered: bool = False,
) -> Chart:  # fmt: skip
    """One quantity against another, a line a side. x, y: field and title with its unit. ordered: the values of x are
    names, in the order of the rows. rows: side, and the fields."""
    if ordered:
        names = list(dict.fromkeys(row[x[0]] for row in rows))
        tilted = alt.Axis(labelAngle=-30 if max(map(len, names)) > 12 else 0)
        scale = alt.Scale(type="point", padding=0.6)
        across: Any = alt.X(f"{x[0]}:N", title=x[1], sort=names, scale=scale, axis=tilted)
    else:
        across = alt.X(f"{x[0]}:Q", title=x[1], scale=alt.Scale(nice=False))
    base = alt.Chart(_data(rows)).encode(x=across, y=alt.Y(f"{y[0]}:Q", title=y[1]), color=_SIDE)
    named = alt.Tooltip(f"{x[0]}:N", title=x[1]) if ordered else alt.Tooltip(f"{x[0]}:Q", title=x[1], format=",.4~r")
    tooltip = [
        alt.Tooltip("side:N", title="side"), named, alt.Tooltip(f"{y[0]}:Q", title=y[1], format=",.4~r"),
    ]  # fmt: skip
    line = base.mark_line(strokeWidth=2).encode(strokeDash=_DASH)
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(tooltip=tooltip)
    return _finish(alt.layer(line, dots), id_, title, description, 260)


def drivers(id_: str, scope: str, rows: Sequence[dict[str, Any]]) -> Chart:
    """Mean drivers of middle and slowest requests, stacked, for both sides.

    rows: side, part, driver, order, time_ns."""
    scale = words.time_scale(_stacked(rows))
    names = list(dict.fromkeys(row["driver"] for row in sorted(rows, key=lambda row: row["order"])))
    labelled = [
        {**row, "bar": f"{row['side']}, {row['part']}", "time": round(row["time_ns"] / scale.per_unit, 4)}
        for row in rows
    ]
    order = list(dict.fromkeys(row["bar"] for row in labelled))
    colour = alt.Color(
        "driver:N",
        title=None,
        scale=alt.Scale(domain=names, range=[f"var(--d-{name})" for name in names]),
        legend=alt.Legend(orient="bottom", columns=2),
    )
    tooltip = [
        alt.Tooltip("side:N", title="side"),
        alt.Tooltip("part:N", title="requests"),
        alt.Tooltip("driver:N", title="driver"),
        alt.Tooltip("time:Q", title=f"mean, {scale.unit}", format=",.4~r"),
    ]
    drawn = _bars(labelled).encode(
        x=alt.X("sum(time):Q", title=f"mean time of a request, {scale.unit}", axis=alt.Axis(tickCount=6)),
        y=alt.Y("bar:N", title=None, sort=order, scale=alt.Scale(paddingInner=0.25)),
        color=colour,
        order=alt.Order("order:Q"),
        tooltip=tooltip,
    )
    description = f"Mean latency of {scope} by driver, for requests in the middle and the slowest 5 %, both sides."
    return _finish(drawn, id_, f"Drivers: {scope}", description, 170 + 18 * ceil(len(names) / 2))


def _stacked(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Length of each bar, ns."""
    lengths: dict[tuple[str, str], float] = {}
    for row in rows:
        bar = (row["side"], row["part"])
        lengths[bar] = lengths.get(bar, 0.0) + row["time_ns"]
    return list(lengths.values())


def lens(id_: str, title: str, quantity: str, rows: Sequence[dict[str, Any]], policies: Sequence[str]) -> Chart:
    """One pressure over the fusion policies, over the bands where its zones begin.

    rows: side, policy, zone, launches, spill, working_set_ratio, dram_demand_ratio."""
    threshold = next(item for item in THRESHOLDS if item.quantity == quantity)
    starts = [start for start in (0.0, threshold.tuning, threshold.unstable, threshold.saturation) if start is not None]
    top = 1.15 * max([float(row[quantity]) for row in rows] + starts)
    scale = alt.Scale(type="point", padding=0.6)
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("policy:N", title="fusion policy", sort=list(policies), axis=alt.Axis(labelAngle=0), scale=scale),
        y=alt.Y(f"{quantity}:Q", title=threshold.meaning, scale=alt.Scale(domain=[0, top], nice=False)),
        color=_SIDE,
    )
    tooltip = [
        alt.Tooltip("side:N", title="side"),
        alt.Tooltip("policy:N", title="fusion policy"),
        alt.Tooltip("zone:N", title="zone"),
        alt.Tooltip("working_set_ratio:Q", title="working set ÷ capacity", format=".3f"),
        alt.Tooltip("dram_demand_ratio:Q", title="DRAM demand ÷ peak", format=".3f"),
        alt.Tooltip("launches:Q", title="launches"),
        alt.Tooltip("spill:N", title="spill"),
    ]
    line = base.mark_line(strokeWidth=2).encode(strokeDash=_DASH)
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(tooltip=tooltip)
    description = f"{title}: {threshold.meaning} for each fusion policy, both sides, with the zones as bands."
    return _finish(alt.layer(*_bands(starts, top), line, dots), id_, title, description, 300)


def _bands(starts: Sequence[float], top: float) -> list[Any]:
    """One tinted band with its name for each zone from where it begins. starts: one for each zone, ascending."""
    layers: list[Any] = []
    for index, (zone, low) in enumerate(zip(ZONES, starts, strict=True)):
        high = starts[index + 1] if index + 1 < len(starts) else top
        band = alt.Chart(_data([{"low": low, "high": high, "middle": (low + high) / 2, "zone": zone}]))
        layers.append(
            band.mark_rect(color=f"var(--z-{index})", opacity=0.15).encode(y=alt.Y("low:Q"), y2=alt.Y2("high"))
        )
        label = band.mark_text(align="left", dx=6, color="var(--muted)", fontSize=11)
        layers.append(label.encode(x=alt.XValue(0), y=alt.Y("middle:Q"), text=alt.Text("zone:N")))
    return layers


def timeline(
    id_: str, title: str, rows: Sequence[dict[str, Any]], lanes: Sequence[str], unit: str, until: float
) -> Chart:
    """What runs when, by lane, from zero to `until`. rows: lane, name, kind, group, start, end (in `unit`), dram."""
    scale = alt.Scale(domain=[0, until], nice=False)
    drawn = _bars(rows).encode(
        x=alt.X("start:Q", title=f"time, {unit}", scale=scale, axis=alt.Axis(tickCount=8)),
        x2=alt.X2("end"),
        y=alt.Y("lane:N", title=None, sort=list(lanes)),
        color=_kinds("kind", rows, _KIND_COLOURS),
        tooltip=[
            alt.Tooltip("name:N", title="name"),
            alt.Tooltip("kind:N", title="kind"),
            alt.Tooltip("group:N", title="group"),
            alt.Tooltip("start:Q", title=f"start, {unit}", format=",.2f"),
            alt.Tooltip("end:Q", title=f"end, {unit}", format=",.2f"),
            alt.Tooltip("dram:N", title="DRAM"),
        ],
    )
    description = f"{title}: bars from start to end on each lane."
    return _finish(drawn, id_, title, description, min(460, 110 + 24 * len(lanes)))


def placement(id_: str, title: str, rows: Sequence[dict[str, Any]], capacity: float, unit: str) -> Chart:
    """Where buffers lie in a core's memory, and for how long, under the capacity.

    rows: buffer, tensor, role, low, high (in `unit`), start, end (steps), size."""
    boxes = (
        alt.Chart(_data(rows))
        .mark_rect(stroke="var(--surface)", strokeWidth=1)
        .encode(
            x=alt.X("start:Q", title="step of the kernel", axis=alt.Axis(tickMinStep=1, format="d")),
            x2=alt.X2("end"),
            y=alt.Y("low:Q", title=f"address, {unit}"),
            y2=alt.Y2("high"),
            color=_kinds("role", rows, _ROLE_COLOURS),
            tooltip=[
                alt.Tooltip("buffer:N", title="buffer"),
                alt.Tooltip("tensor:N", title="tensor"),
                alt.Tooltip("role:N", title="role"),
                alt.Tooltip("size:N", title="size"),
            ],
        )
    )
    limit = (
        alt.Chart(_data([{"capacity": capacity}]))
        .mark_rule(color="var(--bad)", strokeDash=[6, 3], strokeWidth=1.5)
        .encode(y=alt.Y("capacity:Q"), tooltip=[alt.Tooltip("capacity:Q", title=f"capacity, {unit}", format=",.1f")])
    )
    description = f"{title}: buffers by address and lifetime, with the capacity as a dashed line."
    return _finish(alt.layer(boxes, limit), id_, title, description, 270)


def _finish(chart: Any, id_: str, title: str, description: str, height_px: int) -> Chart:
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    sized = chart.properties(width="container", height=height_px, autosize=fit)
    return Chart(id_, title, description, sized.configure(**_CONFIG).to_dict(validate=False), height_px)


def _bars(rows: Sequence[dict[str, Any]]) -> Any:
    return alt.Chart(_data(rows)).mark_bar(stroke="var(--surface)", strokeWidth=0.5)


def _kinds(field: str, rows: Sequence[dict[str, Any]], known: dict[str, str]) -> alt.Color:
    """The same colour for a value on every chart; values that are new here take turns with what is left."""
    found = {row[field] for row in rows}
    fresh = sorted(found - set(known))
    values = [*(value for value in known if value in found), *fresh]
    colours = [known[value] if value in known else f"var(--k-{7 - fresh.index(value) % 3})" for value in values]
    legend = alt.Legend(orient="bottom", columns=3)
    return alt.Color(f"{field}:N", title=None, legend=legend, scale=alt.Scale(domain=values, range=colours))


def _data(rows: Sequence[dict[str, Any]]) -> alt.InlineData:
    if len(rows) > MOST_ROWS:
        raise ValueError(f"a chart takes at most {MOST_ROWS} rows, found {len(rows)}: aggregate first")
    return alt.InlineData(values=list(rows))


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 … from low to high; only powers of ten where that would be many. None where nothing is above zero."""
    if low <= 0:
        return []
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    return [tick for power in powers for step in steps if low <= (tick := step * 10.0**power) <= high]

"""The page: sections in reading order, laid out by the templates into one self-contained HTML file."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import (
    drivers,
    first_screen,
    history,
    lens,
    lock,
    matrix,
    measured,
    ownership,
    primary,
    quality,
    reproduce,
    rollback,
    scheduling,
    swaps,
    tails,
    timeline,
    trials,
    worksheet,
)
from reports.blocks import Chart, Section, charts_of, row_ids
from reports.evidence import Evidence

TEMPLATES: Final = Path(__file__).parent / "templates"
SECTIONS: Final[tuple[Callable[[Evidence], Section], ...]] = (
    matrix.section,
    primary.section,
    tails.section,
    drivers.section,
    scheduling.section,
    swaps.section,
    worksheet.section,
    lens.section,
    trials.section,
    timeline.section,
    measured.section,
    quality.section,
    lock.section,
    rollback.section,
    history.section,
    reproduce.section,
)
"""In reading order; ownership goes before rollback, once the anchors that its proofs link to are known."""


def render_page(evidence: Evidence) -> str:
    """The report of one run as one HTML page that looks nothing up elsewhere."""
    sections = compose(evidence)
    ids = frozenset(name for section in sections for name in row_ids(section.blocks))
    drawn = tuple(chart for section in sections for chart in charts_of(section.blocks))
    style, scripts = _style(drawn), (_vega(), _source("page.js")) if drawn else (_source("page.js"),)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            screen=first_screen.first_screen(evidence, ids),
            sections=sections,
            charts=drawn,
            policy=content_policy(style, scripts),
            style=Markup(style),
            scripts=[Markup(script) for script in scripts],
        )
    )


def compose(evidence: Evidence) -> tuple[Section, ...]:
    """Every section of the page in reading order."""
    made = [section(evidence) for section in SECTIONS]
    ids = frozenset(name for section in made for name in row_ids(section.blocks))
    place = next(index for index, section in enumerate(made) if section.id == "rollback")
    return (*made[:place], ownership.section(evidence, ids), *made[place:])


def content_policy(style: str, scripts: tuple[str, ...]) -> str:
    """Content security policy of the page: only its own style and scripts, by digest; no look-ups, no evaluation.

    Vega's expressions are interpreted from their syntax tree (`ast: true` in page.js), so no `unsafe-eval`.
    """
    return (
        f"default-src 'none'; script-src {' '.join(_digest(script) for script in scripts)}; "
        f"style-src {_digest(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _style(drawn: tuple[Chart, ...]) -> str:
    """The style sheet, with the height of each chart so that nothing moves when it is drawn."""
    heights = "".join(f"#{chart.id} .canvas{{height:{chart.height_px}px}}\n" for chart in drawn)
    return f"\n{_source('style.css')}{heights}"


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. Bundling takes about a second, so once a process."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # its stub demands a snippet
    if "</script" in bundle.lower() or "<!--" in bundle:
        raise ValueError("the chart libraries hold a text that would end their script element early")
    return f"(()=>{{{bundle}}})();"  # its names stay inside: at top level they would collide with the page's


@cache
def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    kwargs: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}
    environment.policies["json.dumps_kwargs"] = kwargs
    return environment

"""The page: one self-contained file, hostile names as text, nothing missing in silence."""

import base64
import itertools
import json
import re
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256

import pytest

import reports
from reports.blocks import Fold, Missing
from reports.page import compose
from tests.reports.dom import Element, read
from tests.reports.world_tables import HOSTILE
from tests.reports.worlds import world

TABLES = (
    "checks",
    "metrics",
    "requests",
    "mechanisms",
    "kernels",
    "sweep",
    "trials",
    "timeline",
    "buffers",
    "quality",
    "history",
)


@pytest.fixture(scope="module")
def page(html: str) -> Element:
    return read(html)


def test_sections_stand_in_the_order_of_the_design(page: Element) -> None:
    sections = [section.attributes["id"] for section in page.all("section") if "id" in section.attributes]

    assert sections == [
        "matrix", "primary", "tails", "drivers", "scheduling", "swaps", "worksheet", "lens", "trials", "timeline",
        "measured", "quality", "lock", "ownership", "rollback", "history", "reproduce",
    ]  # fmt: skip


def test_headings_do_not_skip_a_level(page: Element, html: str) -> None:
    levels = [int(tag[1]) for tag in re.findall(r"<(h[1-6])", html)]

    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.all("h1")[0].whole_text().startswith("NO GO")


def test_hostile_names_are_text_and_never_markup(page: Element) -> None:
    text = page.whole_text()

    assert len(page.all("script")) == 17 + 2  # 17 charts' data, the libraries, the page's own
    assert not page.all("img")
    for name in HOSTILE[:3]:
        assert name in text


def test_no_attribute_runs_code_or_leads_outside(page: Element) -> None:
    for element in (item for tag in ("a", "link", "script", "img", "iframe", "form", "meta") for item in page.all(tag)):
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            if name in ("href", "src", "action"):
                assert value.startswith(("#", "data:,")), (element.tag, value)


def test_the_content_policy_names_the_digest_of_every_script_and_allows_no_look_up(page: Element) -> None:
    policy = next(meta.attributes["content"] for meta in page.all("meta") if "http-equiv" in meta.attributes)
    running = [script for script in page.all("script") if script.attributes.get("type") != "application/json"]

    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy and "http" not in policy
    for element in (*running, *page.all("style")):
        digest = base64.b64encode(sha256(element.raw_text().encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_no_element_carries_a_style_that_the_policy_would_refuse(html: str) -> None:
    assert " style=" not in html


def test_chart_data_is_json_that_cannot_end_its_element(page: Element) -> None:
    data = [script for script in page.all("script") if script.attributes.get("type") == "application/json"]

    assert all("<" not in script.raw_text() for script in data)
    assert any(HOSTILE[0] in json.dumps(json.loads(script.raw_text())) for script in data)


def test_ids_are_unique_and_every_link_on_the_page_leads_somewhere(page: Element, html: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', html)
    links = {link.attributes["href"].removeprefix("#") for link in page.all("a")}

    assert len(set(ids)) == len(ids)
    assert links <= set(ids)


def test_every_row_has_an_anchor(page: Element) -> None:
    rows = [row for body in page.all("tbody") for row in body.all("tr")]

    assert len(rows) > 150
    assert all(row.attributes.get("id") for row in rows)


def test_the_file_stays_small(html: str) -> None:
    assert len(html.encode()) < 3 * 2**20


def test_the_libraries_of_the_charts_are_embedded_once(html: str) -> None:
    assert html.count("window.vegaEmbed=") == 1


def missing(evidence: reports.Evidence) -> list[str]:
    """What the sections say is missing, folds included."""
    left = [block for section in compose(evidence) for block in section.blocks]
    found = []
    while left:
        block = left.pop(0)
        found += [block.text] if isinstance(block, Missing) else []
        left += block.blocks if isinstance(block, Fold) else ()
    return found


def test_a_whole_run_misses_nothing() -> None:
    assert missing(world(requests=2000)) == []


def test_tables_that_the_run_did_not_write_are_said_to_be_missing() -> None:
    said = missing(world(requests=2000, without=TABLES))

    for name in TABLES:
        assert any(text.startswith(f"{name}: the run did not write it") for text in said), name


def test_tables_that_hold_nothing_are_said_to_be_missing() -> None:
    evidence = world(requests=2000)
    said = missing(replace(evidence, tables={name: frame.clear() for name, frame in evidence.tables.items()}))

    for name in TABLES:
        assert any(text.startswith(f"{name}: the run wrote no row") for text in said), name


def test_a_run_without_any_table_still_gives_a_page_and_needs_no_chart_libraries() -> None:
    bare = reports.render(world("HOLD", requests=400, without=TABLES))
    page = read(bare)

    assert page.all("h1")[0].whole_text().startswith("HOLD")
    assert page.whole_text().count("missing: ") > len(TABLES)
    assert len(bare) < 100_000


def test_the_same_evidence_gives_the_same_page(html: str) -> None:
    assert reports.render(world("NO_GO", requests=2000)) == html


def test_every_verdict_has_a_page() -> None:
    for verdict in ("GO", "HOLD"):
        assert len(compose(world(verdict, requests=400))) == 17


def test_the_room_can_be_imported_without_its_libraries() -> None:
    probe = "import reports, sys; sys.exit(any(name in sys.modules for name in ('altair', 'polars', 'jinja2')))"

    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0

"""The report in a real browser, opened as a reader does: from a file, without a network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reports.world_tables import HOSTILE

selenium = pytest.importorskip("selenium", reason="the test extra is not installed")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

pytestmark = pytest.mark.browser
BROWSER, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1280,800",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if not (BROWSER.exists() and DRIVER.exists()):
        if os.environ.get("CI"):
            pytest.fail(f"CI must have {BROWSER} and {DRIVER}")
        pytest.skip("no chromium: install the Debian packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, html: str) -> str:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(html, encoding="utf-8")
    return file.as_uri()


def show(browser: webdriver.Chrome, address: str, width: int = 1280, height: int = 800) -> None:
    """Open the page in a window of that size and wait until its charts are drawn."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(address)
    WebDriverWait(browser, 30).until(lambda page: page.execute_script("return document.documentElement.dataset.charts"))


def test_the_first_screen_holds_the_verdict_and_everything_to_act_on(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)

    for selector in (".stamp", ".mechanism", ".model-only", ".cause dl", ".tiles", ".why", ".basis"):
        box = browser.find_element(By.CSS_SELECTOR, f"#verdict {selector}").rect
        assert box["x"] >= 0 and box["x"] + box["width"] <= 1280, selector
        assert box["y"] >= 0 and box["y"] + box["height"] <= 800, selector
    assert browser.find_element(By.CSS_SELECTOR, ".stamp").text == "NO GO"


def test_nothing_is_said_on_the_console_and_nothing_is_fetched(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}

    assert browser.get_log("browser") == []
    assert {url for url in asked if not url.startswith("data:")} == {address}


def test_every_chart_is_drawn_in_the_height_that_was_kept_for_it(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)
    sizes: list[list[float]] = browser.execute_script(
        "return [...document.querySelectorAll('.canvas')].map(canvas => { const svg = canvas.querySelector('svg');"
        "const height = svg.getBoundingClientRect().height;"
        " return [canvas.clientHeight, height, svg.querySelectorAll('path, line').length] })"
    )

    assert len(sizes) == 17
    for kept, drawn, marks in sizes:
        assert drawn <= kept + 1
        assert marks > 5


def test_nothing_moves_while_the_charts_are_drawn(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)
    shift = browser.execute_async_script(
        "const done = arguments[0]; let sum = 0;"
        "new PerformanceObserver(list => { for (const entry of list.getEntries()) sum += entry.value; })"
        ".observe({type: 'layout-shift', buffered: true}); setTimeout(() => done(sum), 100);"
    )

    assert shift < 0.01


def test_hostile_names_are_shown_as_text_and_run_nothing(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)
    text: str = browser.execute_script("return document.querySelector('#worksheet').textContent")

    assert HOSTILE[0] in text
    assert browser.execute_script("return document.querySelectorAll('main script, main img').length") == 0


def test_a_tooltip_shows_a_hostile_name_as_text(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)
    bar = browser.find_element(By.CSS_SELECTOR, "#chart-timeline-candidate .mark-rect path")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", bar)
    webdriver.ActionChains(browser).move_to_element(bar).perform()
    tip = WebDriverWait(browser, 10).until(
        lambda page: page.find_element(By.CSS_SELECTOR, "#vg-tooltip-element.visible")
    )

    assert HOSTILE[0] in tip.text
    assert tip.find_elements(By.CSS_SELECTOR, "script") == []
    assert browser.get_log("browser") == []


def test_the_proof_opens_at_its_row(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)
    browser.find_element(By.CSS_SELECTOR, ".cause dl a").click()
    row = browser.find_element(By.CSS_SELECTOR, "tr:target")

    assert row.get_attribute("id") == "mechanisms~latency-p99~overall~prefix~fusion"
    WebDriverWait(browser, 10).until(lambda page: page.execute_script(_IN_VIEW, row))


def test_a_link_into_a_fold_opens_it(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)
    browser.execute_script("location.hash = 'mechanisms~latency-p99~overall~cure~fusion'")
    row = browser.find_element(By.CSS_SELECTOR, "tr:target")

    WebDriverWait(browser, 10).until(lambda page: page.execute_script(_IN_VIEW, row))
    assert browser.execute_script("return arguments[0].closest('details').open", row)


_IN_VIEW = (
    "const box = arguments[0].getBoundingClientRect();"
    "return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight"
)


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_only_tables_scroll_sideways_never_the_page(browser: webdriver.Chrome, address: str, width: int) -> None:
    show(browser, address, width=width, height=844)

    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_reader_without_scripts_still_has_every_table(browser: webdriver.Chrome, address: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(address)
        texts = [item.text for item in browser.find_elements(By.CSS_SELECTOR, "noscript")]
        rows = browser.find_elements(By.CSS_SELECTOR, "tbody tr")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

    assert len(texts) == 17 and all("needs scripts" in text for text in texts)
    assert len(rows) > 150


def test_the_whole_page_can_be_reached_by_keyboard(browser: webdriver.Chrome, address: str) -> None:
    show(browser, address)
    scrolling: list[int] = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].map(part => part.tabIndex)"
    )

    assert set(scrolling) == {0}
    browser.find_element(By.TAG_NAME, "body").send_keys("\ue004")  # tab
    assert browser.execute_script("return document.activeElement.className") == "skip"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(browser: webdriver.Chrome, address: str, scheme: str) -> None:
    show(browser, address)
    media: dict[str, Any] = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    pairs: list[list[str]] = browser.execute_script(
        """const style = getComputedStyle(document.documentElement);
        const value = name => style.getPropertyValue('--' + name).trim();
        const pairs = [['text', 'surface'], ['muted', 'surface'], ['muted', 'page'], ['link', 'surface'],
          ['text', 'note-soft'], ['muted', 'raised'], ...['good', 'bad', 'warn'].flatMap(
            tone => [[tone, 'surface'], [tone, tone + '-soft'], ['text', tone + '-soft'], ['muted', tone + '-soft']])];
        return pairs.map(pair => [...pair, ...pair.map(value)])"""
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    for ink, paper, ink_value, paper_value in pairs:
        assert contrast(ink_value, paper_value) >= 4.5, (ink, paper)


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two #rrggbb colours by WCAG 2: (lighter + 0.05) / (darker + 0.05)."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

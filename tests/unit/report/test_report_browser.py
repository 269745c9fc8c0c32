"""``report.html`` in headless Chromium: no console message, no request, filters, keys, copied commands.

Needs selenium (``pip install -e '.[browser]'``), Chromium and chromedriver (``apt install chromium chromium-driver``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reportstate import make_state

from fxmorph.report.html import write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report([make_state(folder / "st", findings=6)], folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def page(browser: Any, report: Path) -> Any:
    """The page, freshly opened, with the logs of what was before read away."""
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(report.as_uri())
    return browser


def shown(page: Any) -> list[str]:
    found = page.find_elements("css selector", ".finding")
    return [f.get_attribute("id") for f in found if f.is_displayed()]


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.switch_to.active_element.send_keys(key)


def test_nothing_is_said_on_the_console_and_nothing_is_requested(page: Any, report: Path) -> None:
    page.find_element("css selector", ".finding summary").click()
    page.find_element("id", "theme").click()
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    urls = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert {url for url in urls if not url.startswith("data:")} <= {report.as_uri()}


def test_filters(page: Any) -> None:
    assert len(shown(page)) == 6
    text = page.find_element("id", "text")
    text.send_keys("0002beef")
    assert shown(page) == ["0002beef0000"]
    assert page.find_element("id", "shown").text == "1 of 6"
    text.clear()
    text.send_keys("no such words")
    assert shown(page) == []
    assert page.find_element("id", "nothing").is_displayed()
    press(page, "\ue00c")
    assert len(shown(page)) == 6
    page.find_element("css selector", "select[data-key=known] option:nth-child(2)").click()
    assert shown(page) == ["0005beef0000"]
    page.find_element("css selector", "select[data-key=known] option:nth-child(1)").click()
    page.find_element("css selector", "select[data-key=kind]").send_keys("mutation")
    assert shown(page) == ["0004beef0000", "0001beef0000"] or shown(page) == ["0001beef0000", "0004beef0000"]


def test_cases_are_filtered_by_verdict_and_text(page: Any) -> None:
    def listed() -> list[str]:
        rows = page.find_elements("css selector", "#case-table tbody tr")
        return [row.get_attribute("data-verdict") for row in rows if row.is_displayed()]

    everything = listed()
    assert len(set(everything)) > 1
    page.find_element("css selector", "#case-filters select[data-key=verdict]").send_keys("skipped")
    assert listed() == ["skipped"] * everything.count("skipped")
    assert page.find_element("id", "cases-shown").text == f"{len(listed())} of {len(everything)}"
    page.find_element("id", "case-text").send_keys("no such words")
    assert listed() == []


def test_a_long_table_is_unfolded(tmp_path: Path, browser: Any) -> None:
    write_report([make_state(tmp_path / "st", cases=40, seeds=20)], tmp_path / "report.html")
    browser.get((tmp_path / "report.html").as_uri())
    rows = browser.find_elements("css selector", "#cases .matrix tbody tr")
    button = browser.find_element("css selector", "#cases .unfold")
    assert [row.is_displayed() for row in rows] == [True] * 15 + [False] * 5
    button.click()
    assert all(row.is_displayed() for row in rows)
    button.click()
    assert not rows[-1].is_displayed()


def test_keys_move_open_and_close(page: Any) -> None:
    press(page, "j", "j")
    second = shown(page)[1]
    assert page.switch_to.active_element.find_element("xpath", "..").get_attribute("id") == second
    press(page, "\ue007")
    card = page.find_element("id", second)
    assert card.get_attribute("open")
    press(page, "\ue00c")
    assert not card.get_attribute("open")
    press(page, "k", "/")
    assert page.switch_to.active_element.get_attribute("id") == "text"


def test_an_opened_finding_shows_graphs_values_and_a_command_to_copy(page: Any, report: Path) -> None:
    page.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    card = page.find_element("id", "0000beef0000")
    card.find_element("css selector", "summary").click()
    assert len([g for g in card.find_elements("css selector", "svg.flow") if g.is_displayed()]) == 3
    assert len(card.find_elements("css selector", "svg.flow .marked")) == 2
    assert card.find_element("css selector", "svg.heat").is_displayed()
    button = card.find_element("css selector", ".commands .copy")
    button.click()
    copied = page.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], e => arguments[0](String(e)))"
    )
    assert copied == f"python {report.parent}/st/findings/0000beef0000/repro.py"


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_is_as_wide_as_the_window(page: Any, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_dark_and_light(page: Any) -> None:
    def ground() -> str:
        return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))

    before = ground()
    page.find_element("id", "theme").click()
    assert ground() != before
    page.refresh()
    assert ground() != before
    page.find_element("id", "theme").click()
    assert ground() == before

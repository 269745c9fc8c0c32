"""The site of nights in headless Chromium: no console message, no request, as wide as the window, keys.

Needs what test_report_browser.py needs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nightstate import GOES, LATE, STAYS, made_site

pytestmark = pytest.mark.browser
PAGES = ("index.html", "bugs.html", "nights.html", f"findings/{GOES}/index.html", "nights/3.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_site(tmp_path_factory.mktemp("nightly"))


@pytest.mark.parametrize("name", PAGES)
def test_no_message_no_request_and_as_wide_as_the_window(browser: Any, site: Path, name: str) -> None:
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get((site / name).as_uri())
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in asked if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in sent if not url.startswith("data:")] == [(site / name).as_uri()]
    assert browser.get_log("browser") == []
    for width in (400, 900, 1280, 1600):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def visible(browser: Any) -> list[str]:
    return [row.get_attribute("id") for row in browser.find_elements("css selector", ".cause") if row.is_displayed()]


@pytest.mark.parametrize("width", [400, 1280])
def test_causes_are_filtered_and_opened_by_keys(browser: Any, site: Path, width: int) -> None:
    from selenium.webdriver.common.keys import Keys

    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get((site / "index.html").as_uri())
    body = browser.find_element("css selector", "body")
    body.send_keys("/", "189518")
    assert visible(browser) == [GOES]
    browser.find_element("id", "text").send_keys(Keys.ESCAPE)
    assert visible(browser)[:2] == [LATE, STAYS]
    body.send_keys("jj")
    assert browser.switch_to.active_element.get_attribute("href").endswith(f"/{STAYS}/index.html")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.current_url == (site / "findings" / STAYS / "index.html").as_uri()
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_dark_and_light(browser: Any, site: Path) -> None:
    browser.get((site / "index.html").as_uri())
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(ground)
    browser.find_element("id", "theme").click()
    dark = browser.execute_script(ground)
    browser.get((site / "nights.html").as_uri())
    assert browser.execute_script(ground) == dark != before
    browser.find_element("id", "theme").click()

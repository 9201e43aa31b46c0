"""Every page: no errors, no broken rule of accessibility, nothing cut off; in themes and sizes."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.routing import Route

from console_tests.browser import Browser
from console_tests.cluster_contents import HOSTILE
from kqueue.console.app import page_routes

PAGES = {
    "overview": "/",
    "brokers": "/brokers",
    "broker": "/brokers/0",
    "settings-of-broker": "/brokers/0/settings",
    "settings-of-brokers": "/brokers/settings",
    "reassignments": "/reassignments",
    "log-folders": "/log-folders",
    "topics": "/topics?internal=1",
    "topic": "/topics/orders",
    "topic-with-long-name": f"/topics/{'x' * 249}",
    "settings-of-topic": "/topics/prices/settings",
    "setting": "/topics/prices/settings/cleanup.policy",
    "create-topic": "/create-topic",
    "add-partitions": "/topics/orders/partitions",
    "delete-topic": "/topics/orders/delete",
    "messages": "/messages",
    "messages-of-topic": "/topics/orders/messages",
    "message": "/topics/orders/messages/0/3",
    "produce": "/topics/orders/produce",
    "copy-messages": "/topics/orders/copy-messages",
    "delete-messages": "/topics/orders/delete-messages",
    "schemas": "/schemas",
    "groups": "/groups",
    "group": "/groups/billing",
    "group-with-hostile-name": f"/groups/{quote(HOSTILE, safe='')}",
    "reset-group": "/groups/billing/reset",
    "delete-group": "/groups/billing/delete",
    "transactions": "/transactions?state=all",
    "transaction": "/transactions/id/till-1",
    "hanging-transactions": "/transactions/hanging?topic=orders",
    "charts": "/charts",
    "requests": "/requests",
    "acls": "/acls",
    "users": "/users",
    "quotas": "/quotas",
    "not-found": "/topics/no-such-topic",
}
LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "phone": ("light", 390)}
PAGE_BYTES_MAX = 150_000


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_accessible(browser: Browser, name: str, look: str) -> None:
    theme, width = LOOKS[look]
    browser.prefer(theme)
    browser.resize(width, 900)
    browser.open(PAGES[name])
    folder = os.environ.get("KQUEUE_CONSOLE_PICTURES")
    if folder:
        browser.driver.save_screenshot(str(Path(folder) / f"{name}-{look}.png"))
    assert [error for error in browser.errors() if name != "not-found" or "404" not in error] == []
    assert browser.axe() == []
    assert browser.overflow() == []
    assert len(browser.all("h1")) == 1


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_small(console: str, name: str) -> None:
    if name == "not-found":
        return
    with urllib.request.urlopen(console + PAGES[name]) as response:
        assert len(response.read()) < PAGE_BYTES_MAX


def test_no_section_of_the_menu_is_left_out(browser: Browser) -> None:
    browser.open("/")
    paths = [link.get_attribute("href").removeprefix(browser.address) for link in browser.all(".menu a")]
    for path in paths:
        browser.open(path)
        assert browser.errors() == []
        assert browser.axe() == []
        assert browser.find(".menu [aria-current]").get_attribute("href").removeprefix(browser.address) == path
    shown = {route.path for route in page_routes() if isinstance(route, Route) and route.path.count("/") == 1}
    assert set(paths) <= shown


def test_the_theme_that_is_chosen_wins_over_that_of_the_system(browser: Browser) -> None:
    def background() -> str:
        return browser.find("body").value_of_css_property("background-color")

    def choose(theme: str) -> None:
        browser.find(f'button[value="{theme}"]').click()
        browser.wait_for_element(f'html[data-theme="{theme}"] button[aria-pressed="true"][value="{theme}"]')

    browser.open("/")
    light = background()
    choose("dark")
    assert background() != light
    assert browser.axe() == []
    browser.prefer("dark")
    choose("light")
    assert background() == light
    choose("auto")
    assert background() != light

from __future__ import annotations

from kqueue.client import Client
from kqueue.tests.console.browser import Browser


def test_brokers_are_listed_with_their_state(browser: Browser, client: Client) -> None:
    text = browser.text("/brokers")
    assert "up controller" in text
    assert client.metadata([]).cluster_id in text


def test_one_broker_has_its_folders(browser: Browser) -> None:
    text = browser.text("/brokers/1")
    assert "State up" in text
    assert "online" in text


def test_a_broker_that_does_not_exist_is_a_404(browser: Browser) -> None:
    assert browser.get("/brokers/99").status_code == 404
    assert browser.get("/brokers/x").status_code == 404

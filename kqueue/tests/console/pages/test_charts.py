from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from kqueue import Broker
from kqueue.client import TopicPartition
from kqueue.tests.console.browser import Browser, words
from kqueue.tests.console.historian import Historian, historian
from kqueue.tests.telemetry.scraping import port_of

ZERO = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        broker.create_topic("orders")
        broker.create_topic("quiet")
        yield broker


@pytest.fixture
def past(broker: Broker) -> Iterator[Historian]:
    with historian(broker, (f"http://127.0.0.1:{port_of(broker)}",)) as past:
        past.client.commit("billing", {ZERO: 0})
        past.step({ZERO: 100})
        past.step({ZERO: 50})
        yield past


def test_rates_lags_and_metrics_of_the_last_minutes_are_drawn(past: Historian) -> None:
    page = past.browser.get("/charts").text
    text = words(page)
    for title in ("Records written", "Lag of groups", "Brokers that answer", "Requests per second", "Resident memory"):
        assert title in text
    assert "orders 5 max 10" in text
    assert "billing" in text
    assert "__consumer_offsets" not in "".join(re.findall(r"<figure.*?</figure>", page, re.DOTALL))
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) > 8
    for picture in pictures:
        ElementTree.fromstring(picture)
    assert not re.search(r"<[^>]* style=|<style|<script(?! src=)", page)


def test_ids_of_a_page_are_unique(past: Historian) -> None:
    ids = re.findall(r' id="([^"]*)"', past.browser.get("/charts").text)
    assert len(ids) == len(set(ids))


def test_one_topic_and_a_longer_range_can_be_chosen(past: Historian) -> None:
    page = past.browser.get("/charts?topic=quiet&range=1").text
    assert "/charts?range=2&amp;topic=quiet" in page or "?range=2&amp;topic=quiet" in page
    figure = re.findall(r"<figure.*?</figure>", page, re.DOTALL)[0]
    assert "quiet" in figure
    assert "orders" not in figure
    assert "orders" in past.browser.text("/charts?topic=no-such-topic&range=9")


def test_without_a_history_the_page_says_how_to_get_one(browser: Browser) -> None:
    assert "keeps no history" in browser.text("/charts")


def test_topics_that_the_user_may_not_see_are_not_drawn(past: Historian, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is read with the console's credentials, and the lists with the user's."""
    client = past.client
    metadata, groups = client.metadata(["quiet"]), {}
    monkeypatch.setattr("kqueue.client.Client.metadata", lambda *args, **keywords: metadata)
    monkeypatch.setattr("kqueue.client.Client.groups", lambda *args, **keywords: groups)
    for path in ("/charts", "/charts?topic=orders"):
        page = past.browser.get(path).text
        assert "orders" not in "".join(re.findall(r"<figure.*?</figure>", page, re.DOTALL))
        assert "billing" not in page

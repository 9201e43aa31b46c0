from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.tests.console.browser import Browser
from kqueue.tests.console.historian import historian
from kqueue.tests.telemetry.scraping import port_of


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        broker.create_topic("orders")
        yield broker


def test_requests_by_api_and_connections_by_listener_are_shown(broker: Broker) -> None:
    with historian(broker, (f"http://127.0.0.1:{port_of(broker)}",)) as past:
        assert "The first figures come with the second reading" in past.browser.text("/requests")
        past.client.metadata()
        past.step()
        text = past.browser.text("/requests")
    assert f"Broker {broker._server.broker.identity.node_id} http://127.0.0.1:" in text
    assert "Connections by listener Listener Connections PLAINTEXT" in text
    assert "Requests of the last minute by API" in text
    assert "Metadata" in text
    assert "µs" in text


def test_metrics_that_can_not_be_read_are_named(broker: Broker) -> None:
    with historian(broker, ("http://127.0.0.1:1",)) as past:
        assert "http://127.0.0.1:1/metrics can't be read" in past.browser.text("/requests")


def test_without_metrics_the_page_says_how_to_get_them(browser: Browser) -> None:
    text = browser.text("/requests")
    assert "kqueue console --metrics http://127.0.0.1:9404/metrics" in text
    assert "--history-interval is 0" in text

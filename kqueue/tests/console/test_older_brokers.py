"""Every page before brokers that serve what an older Kafka does, and with hostile addresses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from starlette.routing import Route

from kqueue import Broker
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.console.app import page_routes
from kqueue.tests.console.browser import Browser, Visit

HOSTILE = ["", "\x00", "../..", "%s%n", "<script>", "\u202e", "🙂", "a" * 5_000, "-1", "9" * 30, "__proto__"]
NAMES = ("q", "page", "state", "internal", "topic", "partition", "offset", "from", "time", "range", "type", "behind")
VALUES = {"name": "orders", "id": "1", "setting": "retention.ms", "partition": "0", "offset": "0", "part": "value"}


def addresses() -> list[str]:
    """The addresses of all pages, with the values of `VALUES` in their paths."""
    paths = [route.path for route in page_routes() if isinstance(route, Route) and "GET" in (route.methods or ())]
    return [
        path.replace(":path}", "}").replace(":int}", "}").format(**VALUES) for path in paths
    ]  # fmt: skip


@pytest.fixture(scope="module", params=["2.8", pytest.param("3.9", marks=pytest.mark.long)])
def older(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(settings={"kqueue.as.version": request.param, "offsets.topic.num.partitions": 1}) as broker:
        with Client(broker.bootstrap) as client:
            client.create_topics([NewTopic("orders", 2)])
            client.commit("orders", {TopicPartition("orders", 0): 0})
        yield broker


def test_pages_are_shown_or_say_what_the_broker_does_not_serve(older: Broker, visit: Visit) -> None:
    browser = visit(older.bootstrap, allow_changes=True)
    for address in addresses():
        response = browser.get(address)
        assert response.status_code != 500, address
        if response.status_code == 501:
            assert "does not serve what the page needs" in response.text, address


def test_a_topic_is_created_changed_and_deleted(older: Broker, visit: Visit) -> None:
    browser = visit(older.bootstrap, allow_changes=True)
    for path, fields in (
        ("/create-topic", {"name": "made"}),
        ("/topics/made/partitions", {"count": "3"}),
        ("/topics/made/settings/retention.ms", {"act": "set", "value": "5000"}),
        ("/topics/made/delete", {"confirmed": "made"}),
    ):
        assert browser.submit(path, fields).status_code == 200, path


@pytest.mark.thorough
def test_hostile_addresses_are_no_errors_of_the_console(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("orders", 1)])
    for path, (name, value) in itertools.product(addresses(), itertools.product(NAMES, HOSTILE)):
        response = editor.get(path, params={name: value})
        assert response.status_code != 500, (path, name, value)
        assert "<script>" not in response.text

"""What happens to connected clients when the broker's clock is pushed: waits end, idle connections may, and records get through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import kqueue
from kqueue.server.session import Session
from kqueue.tests.embedded.clients import KINDS, Clients, clients, until

Opened = Callable[..., Clients]


@pytest.fixture(params=sorted(KINDS))
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A broker with these settings, and clients of one library."""
    with ExitStack() as stack:

        def open_(**settings: Any) -> Clients:
            client = stack.enter_context(clients(request.param, stack.enter_context(kqueue.Broker(**settings))))
            client.broker.create_topic("t", retention_ms=-1)
            return client

        yield open_


def sessions(client: Clients) -> set[Session]:
    async def ask() -> set[Session]:
        return set(client.broker._server.hub.sessions)

    return client.broker._call(ask)


def fetches_waiting(client: Clients) -> int:
    async def ask() -> int:
        return len(client.broker._server.broker.waiting)

    return client.broker._call(ask)


def test_a_fetch_that_waits_for_more_is_answered_when_its_time_is_over(opened: Opened) -> None:
    client = opened()
    client.send("t", b"a")
    long = {"fetch_min_bytes": 1_000_000, "fetch_max_wait_ms": 200_000, "request_timeout_ms": 300_000}
    taken = client.soon(client.consumer("t", **long).take, 1)
    until(lambda: fetches_waiting(client), "the fetch")
    client.broker.clock.advance(seconds=199)
    assert not taken.done()
    assert fetches_waiting(client) == 1
    client.broker.clock.advance(seconds=2)
    assert taken.result(20) == [b"a"]


def test_idle_connections_are_closed_where_that_is_asked_for_and_clients_get_over_it(opened: Opened) -> None:
    client = opened(connections_max_idle_ms=600_000)
    consumer = client.consumer("t")
    client.send("t", b"before")
    assert consumer.take(1) == [b"before"]
    there = sessions(client)
    client.broker.clock.advance(minutes=9)
    assert sessions(client) & there
    client.broker.clock.advance(minutes=11)
    assert not sessions(client) & there
    client.send("t", b"after")
    assert consumer.take(1) == [b"after"]


def test_connections_stay_as_they_are_by_default(opened: Opened) -> None:
    client = opened()
    consumer = client.consumer("t")
    client.send("t", b"before")
    assert consumer.take(1) == [b"before"]
    there = sessions(client)
    client.broker.clock.advance(days=8)
    assert there <= sessions(client)


def test_producers_and_consumers_that_live_lose_nothing_and_see_no_error(opened: Opened) -> None:
    """An idempotent producer too: the broker forgets it in a day, and it must be able to go on."""
    client = opened()
    taken = client.soon(client.consumer("t", group_id="g").take_to, b"end")
    sent: list[bytes] = []
    for day in range(4):
        values = [b"%d of day %d" % (number, day) for number in range(5)]
        sent += values
        client.send("t", *values)
        client.broker.clock.advance(days=2)
    client.send("t", b"end")
    assert list(dict.fromkeys(taken.result(20))) == [*sent, b"end"]
    assert client.consumer("t").take_to(b"end") == [*sent, b"end"], "none was written twice"

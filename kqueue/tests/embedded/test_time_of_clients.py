"""Effects of `advance` on clients: delayed requests, idle connections, record delivery."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import kqueue
from kqueue.groups.classic.group import ClassicGroup
from kqueue.network.session import Session
from kqueue.schema import encode
from kqueue.tests.embedded.clients import KINDS, Clients, clients
from kqueue.tests.embedded.test_broker import ask, produce
from kqueue.tests.network.harness import API, framed
from kqueue.tests.waits import eventually
from kqueue.wire.headers import request_header
from kqueue.wire.messages.fetch import FetchPartition, FetchTopic
from kqueue.wire.messages.join_group import JoinGroupRequestProtocol

Opened = Callable[..., Clients]


@pytest.fixture(params=sorted(KINDS))
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A broker with these settings, and the clients of one library."""
    with ExitStack() as stack:

        def open_(**settings: Any) -> Clients:
            client = stack.enter_context(clients(request.param, stack.enter_context(kqueue.Broker(**settings))))
            client.broker.create_topic("t", retention_ms=-1)
            return client

        yield open_


def sessions(client: Clients) -> set[Session]:
    async def ask() -> set[Session]:
        return set(client.broker._server.connections.sessions)

    return client.broker._call(ask)


def fetches_waiting(client: Clients) -> int:
    async def ask() -> int:
        return len(client.broker._server.broker.scheduler.purgatory)

    return client.broker._call(ask)


def test_delayed_fetch_returns_at_its_deadline(opened: Opened) -> None:
    client = opened()
    client.send("t", b"a")
    long = {"fetch_min_bytes": 1_000_000, "fetch_max_wait_ms": 200_000, "request_timeout_ms": 300_000}
    taken = client.soon(client.consumer("t", **long).take, 1)
    eventually(lambda: fetches_waiting(client), "the fetch")
    client.broker.clock.advance(seconds=199)
    assert not taken.done()
    assert fetches_waiting(client) == 1
    client.broker.clock.advance(seconds=2)
    assert taken.result(60) == [b"a"]


def test_idle_connections_are_closed_on_request_and_clients_reconnect(opened: Opened) -> None:
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


def test_connections_stay_open_by_default(opened: Opened) -> None:
    client = opened()
    consumer = client.consumer("t")
    client.send("t", b"before")
    assert consumer.take(1) == [b"before"]
    there = sessions(client)
    client.broker.clock.advance(days=8)
    assert there <= sessions(client)


def test_running_producers_and_consumers_lose_nothing_and_see_no_error(opened: Opened) -> None:
    """An idempotent producer continues although the broker expires its state after a day."""
    client = opened()
    taken = client.soon(client.consumer("t", group_id="g").take_to, b"end")
    sent: list[bytes] = []
    for day in range(4):
        values = [b"%d of day %d" % (number, day) for number in range(5)]
        sent += values
        client.send("t", *values)
        client.broker.clock.advance(days=2)
    client.send("t", b"end")
    assert list(dict.fromkeys(taken.result(60))) == [*sent, b"end"]
    assert client.consumer("t").take_to(b"end") == [*sent, b"end"], "none was written twice"


# --- requests that no stock client sends, over a plain socket


def connected(broker: kqueue.Broker) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", broker.port), timeout=60)
    sock.sendall(framed(request_header(API["ApiVersions"].key, 0, 1, "t")))
    assert sock.recv(65536)
    return sock


def test_stalled_request_closes_the_connection() -> None:
    with kqueue.Broker(kqueue_slow_sender_timeout_ms=60_000) as broker, connected(broker) as sock:
        sock.sendall(b"\x00\x00\x01\x00half")
        broker.clock.advance(seconds=50)
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        sock.settimeout(60)
        broker.clock.advance(seconds=20)
        assert sock.recv(1) == b""


def test_client_that_does_not_read_is_disconnected() -> None:
    with kqueue.Broker(kqueue_slow_reader_timeout_ms=60_000) as broker, connected(broker) as sock:
        broker.create_topic("t")
        for _ in range(20):
            produce(broker.bootstrap, "t", bytes(900_000))
        wanted = [
            FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)])
        ]
        request = API["Fetch"].request_class(max_bytes=1 << 30, topics=wanted)
        sock.sendall(framed(request_header(API["Fetch"].key, 11, 1, "t") + encode(request, 11)))

        async def owes() -> bool:
            return bool(broker._server.connections.unsent())

        eventually(lambda: broker._call(owes), "an answer that waits")
        broker.clock.advance(seconds=50)
        assert broker._call(owes)
        broker.clock.advance(seconds=20)
        assert not broker._call(owes)


def test_connections_above_the_rate_are_accepted_later() -> None:
    with kqueue.Broker(max_connection_creation_rate=1) as broker, connected(broker):
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as late:
                late.sendall(framed(request_header(API["ApiVersions"].key, 0, 1, "t")))
                broker.clock.advance(seconds=2)
                assert late.recv(65536)


def join(broker: kqueue.Broker, version: int, *, session_ms: int) -> str:
    """Return the member id that the group `g` assigned to a member that has not joined yet."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    answer = ask(
        broker.bootstrap,
        "JoinGroup",
        version,
        group_id="g",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    return str(answer.member_id)


def test_unused_member_id_expires() -> None:
    with kqueue.Broker() as broker:
        member_id = join(broker, 5, session_ms=300_000)

        async def is_expected() -> bool:
            group = broker._server.broker.coordinators.groups._groups.get("g")
            return isinstance(group, ClassicGroup) and member_id in group.pending

        assert broker._call(is_expected)
        broker.clock.advance(minutes=4)
        assert broker._call(is_expected)
        broker.clock.advance(minutes=2)
        assert not broker._call(is_expected)


def test_member_that_does_not_sync_is_removed() -> None:
    with kqueue.Broker() as broker:
        member_id = join(broker, 3, session_ms=300_000)

        async def is_member() -> bool:
            group = broker._server.broker.coordinators.groups._groups.get("g")
            return isinstance(group, ClassicGroup) and member_id in group.members

        assert broker._call(is_member)
        broker.clock.advance(seconds=55)
        assert broker._call(is_member)
        broker.clock.advance(seconds=10)
        assert not broker._call(is_member)

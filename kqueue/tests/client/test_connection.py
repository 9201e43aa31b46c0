from __future__ import annotations

import contextlib
import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable

import pytest

import kqueue
from kqueue.base.addresses import Address, parse_addresses
from kqueue.base.errors import UnencodableMessage
from kqueue.client import Client, ClientOptions
from kqueue.client.connection import FIRST_RECEIVE_BYTES, Connection, ConnectionPool
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, BrokerUnreachable, ConnectionLost, DeadlinePassed, IncompatibleBroker
from kqueue.tests.client.serving import ORDERS, Impostor, answer_of, batch, framed, greeting
from kqueue.tests.tables import for_each
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kqueue.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from kqueue.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

LIST_GROUPS = BY_MODULE["list_groups"]
HOUR_MS = 3_600_000


def connect(bootstrap: str, timeout_ms: int = 5_000, **options: int) -> Connection:
    return Connection(
        parse_addresses(bootstrap)[0], ClientOptions(bootstrap=bootstrap, **options), Deadline(timeout_ms)
    )


# --- which version


def only(api_key: int, low: int, high: int) -> Callable[[int, int, int, bytes], bytes]:
    def answer(key: int, version: int, correlation: int, body: bytes) -> bytes:
        row = ApiVersion(api_key=api_key, min_version=low, max_version=high)
        return answer_of(key, version, correlation, ApiVersionsResponse(api_keys=[row]))

    return answer


def test_the_highest_version_that_both_know() -> None:
    with Impostor(only(LIST_GROUPS.key, 2, 5), greets=False) as broker:
        connection = connect(broker.bootstrap)
        assert connection.version(LIST_GROUPS, (0, 4)) == 4
        with pytest.raises(IncompatibleBroker, match=r"ListGroups is needed in versions 0 to 1, .* in versions 2 to 5"):
            connection.version(LIST_GROUPS, (0, 1))
        with pytest.raises(IncompatibleBroker, match=f"{broker.bootstrap}: Produce .* does not serve it"):
            connection.version(BY_MODULE["produce"])
        connection.close()


def test_a_broker_that_does_not_know_our_apiversions_is_asked_in_its_own() -> None:
    """KIP-511: it answers in version 0, with the versions of ApiVersions alone."""

    def old(key: int, version: int, correlation: int, body: bytes) -> bytes:
        row = ApiVersion(api_key=18, min_version=0, max_version=2)
        if version > 2:
            return answer_of(key, 0, correlation, ApiVersionsResponse(error_code=35, api_keys=[row]))
        return greeting(key, version, correlation, body)

    with Impostor(old, greets=False) as broker:
        connection = connect(broker.bootstrap)
        assert broker.asked == [(18, 4), (18, 2)]
        assert connection.version(LIST_GROUPS) == 5
        connection.close()


def test_kafka_2_8_is_such_a_broker() -> None:
    with kqueue.Broker(as_version="2.8") as broker:
        connection = connect(broker.bootstrap)
        assert [one.version for one in broker.requests("ApiVersions")] == [4, 3]
        connection.close()


# --- answers that are none


def ask(broker: Impostor, timeout_ms: int = 5_000, **options: int) -> object:
    connection = connect(broker.bootstrap, **options)
    try:
        return connection.call(LIST_GROUPS, 0, ListGroupsRequest(), Deadline(timeout_ms))
    finally:
        assert not connection.is_idle
        connection.close()


EMPTY = answer_of(LIST_GROUPS.key, 0, 2, ListGroupsResponse())


@for_each(
    "answer, words",
    [
        (
            struct.pack(">i", 1_000_001),
            "expected a frame of 0 to 1000000 bytes, found 1000001; .* raise response_bytes_max",
        ),
        (struct.pack(">i", -1), "found -1"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "found 1213486160"),
        (framed(b""), "expected more bytes"),
        (framed(b"\0\0\0"), "expected more bytes"),
        (framed(b"\0\0\0\2" + bytes(5)), "expected more bytes|count"),
        (framed(b"\0\0\0\2" + b"\0\0" + b"\x7f\xff\xff\xff"), "expected a count"),
        (framed(EMPTY[4:] + b"\0"), "1 bytes more"),
        (EMPTY + b"\0", "1 bytes more"),
        (answer_of(LIST_GROUPS.key, 0, 3, ListGroupsResponse()), "request 2, found one to request 3"),
        (answer_of(LIST_GROUPS.key, 0, -2, ListGroupsResponse()), "request 2, found one to request -2"),
        (framed(bytes(5000)), "request 2, found one to request 0"),
    ],
)
def test_hostile_answers_end_the_connection_with_words(answer: bytes, words: str) -> None:
    with Impostor(lambda *_: answer) as broker, pytest.raises(BadAnswer, match=words):
        ask(broker, response_bytes_max=1_000_000)


def test_an_answer_that_says_to_be_huge_costs_no_memory() -> None:
    with Impostor(lambda *_: struct.pack(">i", 2**31 - 1)) as broker:
        tracemalloc.start()
        try:
            with pytest.raises(BadAnswer, match="found 2147483647"):
                ask(broker)
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
        finally:
            tracemalloc.stop()


def test_records_are_not_copied_between_the_socket_and_the_caller() -> None:
    size = 20_000_000
    rows = [PartitionData(records=bytes(size), high_watermark=0)]
    sent = answer_of(1, 12, 2, FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)]))
    with Impostor(lambda *_: sent) as broker:
        connection = connect(broker.bootstrap)
        tracemalloc.start()
        try:
            response = connection.call(
                BY_MODULE["fetch"], 12, FetchRequest(max_wait_ms=0, min_bytes=0), Deadline(20_000)
            )
            assert tracemalloc.get_traced_memory()[1] < size * 1.1
        finally:
            tracemalloc.stop()
        assert response.responses[0].partitions[0].records == rows[0].records
        connection.close()


@for_each("cut", [0, 1, 3, 4, 6, len(EMPTY) - 1])
def test_answers_cut_off_are_lost(cut: int) -> None:
    """The rest never comes: once because the connection ends, once because nothing more is sent."""
    with (
        Impostor(lambda *_: None if cut == 0 else EMPTY[:cut]) as broker,
        pytest.raises(ConnectionLost, match="ListGroups") as caught,
    ):
        ask(broker, timeout_ms=1000)
    assert caught.value.sent
    assert "hung up" in str(caught.value) if cut == 0 else "timed out" in str(caught.value)


def test_answers_of_any_size_come_whole() -> None:
    for size in (10, FIRST_RECEIVE_BYTES - 14, FIRST_RECEIVE_BYTES - 13, FIRST_RECEIVE_BYTES, 3_000_000):
        with kqueue.Broker() as broker, Client(broker.bootstrap) as client:
            broker.create_topic("orders", max_message_bytes=5_000_000)
            sent = batch([bytes(size)])
            client.produce({ORDERS: sent})
            assert client.fetch({ORDERS: 0})[ORDERS].records[21:] == sent[21:]


def test_a_drip_of_bytes_does_not_stretch_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            accepted, _ = listener.accept()
            with accepted, contextlib.suppress(OSError):
                accepted.sendall(struct.pack(">i", 1_000_000))  # all bytes take hours
                while not stop.wait(0.03):
                    accepted.sendall(b"\0")

        stop = threading.Event()
        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(BrokerUnreachable):
            connect(f"127.0.0.1:{listener.getsockname()[1]}", connect_timeout_ms=200)
        stop.set()
        thread.join(60)


def test_a_listener_that_is_mute_or_no_broker_is_told_apart() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(BrokerUnreachable, match="something listens, but does not answer"),
    ):
        connect(f"127.0.0.1:{mute.getsockname()[1]}", connect_timeout_ms=100)
    with (
        Impostor(lambda *_: b"SSH-2.0-OpenSSH_9.6\r\n", greets=False) as other,
        Client(other.bootstrap) as client,
        pytest.raises(BadAnswer, match="is this a broker"),
    ):
        client.metadata()


def test_unencodable_request_leaves_the_connection_usable() -> None:
    with kqueue.Broker() as broker:
        connection = connect(broker.bootstrap)
        with pytest.raises(UnencodableMessage):
            connection.send(
                BY_MODULE["find_coordinator"], 2, FindCoordinatorRequest(key="x" * 40_000), Deadline(30_000)
            )
        assert connection.is_idle
        assert connection.call(LIST_GROUPS, 4, ListGroupsRequest(), Deadline(30_000)).error_code == 0
        connection.close()


def test_failed_send_counts_as_not_sent() -> None:
    with kqueue.Broker() as broker:
        connection = connect(broker.bootstrap)
        connection._socket.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionLost, match="while ListGroups was sent: Broken pipe") as caught:
            connection.send(LIST_GROUPS, 4, ListGroupsRequest(), Deadline(30_000))
        assert not caught.value.sent
        assert not connection.is_open


def test_whether_it_is_alive() -> None:
    with kqueue.Broker() as broker:
        connection = connect(broker.bootstrap)
        assert connection.is_alive()
        broker.stop()
        assert not connection.is_alive()
        connection.close()
        assert not connection.is_alive()


# --- one to each broker


def test_pool_keeps_one_connection_per_address() -> None:
    with kqueue.Broker() as broker, kqueue.Broker() as other:
        first, second = Address("127.0.0.1", broker.port), Address("127.0.0.1", other.port)
        connections = ConnectionPool(ClientOptions(bootstrap=broker.bootstrap))
        made = connections.to(first, Deadline(30_000))
        assert connections.to(first, Deadline(30_000)) is made
        assert connections.to_any(lambda: [second], Deadline(30_000)) is made
        assert connections.to(second, Deadline(30_000)) is not made
        made.send(LIST_GROUPS, 4, ListGroupsRequest(), Deadline(30_000))
        assert connections.to(first, Deadline(30_000)) is not made, (
            "an answer that nobody took would be taken for another's"
        )
        assert not made.is_open
        connections.keep_only({second})
        assert connections.to_any(lambda: [first], Deadline(30_000)).address == second
        connections.close()


def test_a_bootstrap_address_by_another_name_is_let_go() -> None:
    with kqueue.Broker() as broker, Client(f"localhost:{broker.port}") as client:
        client.metadata()
        client.metadata()
        assert list(client._router.connections._open) == [Address("127.0.0.1", broker.port)]


def test_a_call_in_time_ends_at_its_deadline_over_all_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        where = f"127.0.0.1:{mute.getsockname()[1]}"
        with (
            Client(f"{where},localhost:{mute.getsockname()[1]}", timeout_ms=200, connect_timeout_ms=HOUR_MS) as client,
            pytest.raises(DeadlinePassed),
        ):
            client.metadata()

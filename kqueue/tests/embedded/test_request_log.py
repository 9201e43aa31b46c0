"""`broker.requests`: its entries, its queries and its limits."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Iterator
from datetime import timedelta

import pytest

import kqueue
from kqueue.base.errors import MalformedMessage
from kqueue.embedded.request_log import KEPT_BYTES_MAX, RequestLog
from kqueue.schema import encode
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.network.harness import API
from kqueue.tests.testing.raw import Raw, fetch, produce
from kqueue.wire.headers import RequestHeader, request_header
from kqueue.wire.messages.produce import ProduceRequest


@pytest.fixture(scope="module")
def running() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("t", partitions=2)
        yield broker


@pytest.fixture
def broker(running: kqueue.Broker) -> kqueue.Broker:
    running.requests.clear()
    return running


def test_each_request_is_listed_with_its_fields(broker: kqueue.Broker) -> None:
    request = produce(("t", 0), ("t", 1), ("gone", 0))
    with Raw(broker.bootstrap, "me") as raw:
        raw.ask("Produce", 9, request)
        (one,) = broker.requests
        host, port = raw.sock.getsockname()
    assert (one.api, one.version, one.client_id, one.address) == ("Produce", 9, "me", f"{host}:{port}")
    assert one.topics == ("t", "gone")
    assert [tuple(each) for each in one.named] == [("t", (0, 1)), ("gone", (0,))]
    assert isinstance(one.body, ProduceRequest)
    sent = [bytes(each.records or b"") for topic in request.topic_data for each in topic.partition_data]
    assert [
        bytes(each.records or b"") for topic in one.body.topic_data for each in topic.partition_data
    ] == sent  # as it was sent
    assert one.errors == ("UNKNOWN_TOPIC_OR_PARTITION",)
    assert one.size > len(encode(request, 9))
    assert timedelta(milliseconds=-1) <= broker.clock.now() - one.time < timedelta(minutes=10)
    line = (
        r"<\d\d:\d\d:\d\d\.\d{3} Produce v9 of me \(127\.0\.0\.1:\d+\) about t\[0, 1\]; gone\[0\], "
        r"\d+ bytes -> UNKNOWN_TOPIC_OR_PARTITION>"
    )
    assert re.fullmatch(line, repr(one))
    assert repr(broker.requests) == f"<1 request of clients>\n{one}"


def test_requests_are_selected_by_api_topic_and_client(broker: kqueue.Broker) -> None:
    with Raw(broker.bootstrap, "me") as me, Raw(broker.bootstrap, "you") as you:
        me.ask("Produce", 9, produce(("t", 0)))
        you.ask("Produce", 9, produce(("u", 0)))
        you.ask("Fetch", 12, fetch(("t", 0), max_wait_ms=0))
    requests = broker.requests
    assert [one.client_id for one in requests("produce")] == ["me", "you"]
    assert [one.api for one in requests(topic="t")] == ["Produce", "Fetch"]
    assert [one.api for one in requests(client_id="you")] == ["Produce", "Fetch"]
    assert requests("Produce", topic="t", client_id="you") == []
    with pytest.raises(ValueError, match="no API 'Fetsh'; did you mean 'Fetch'"):
        requests("Fetsh")


def test_fetch_responses_list_their_errors(broker: kqueue.Broker) -> None:
    with Raw(broker.bootstrap) as raw:
        raw.ask("Produce", 9, produce(("t", 0)))
        raw.ask("Fetch", 12, fetch(("t", 0), ("gone", 0), max_wait_ms=0))
        raw.ask("Fetch", 12, fetch(("t", 0), max_wait_ms=0))
        raw.ask("ApiVersions", 3, client_software_name="n", client_software_version="1")
    assert [one.errors for one in broker.requests] == [(), ("UNKNOWN_TOPIC_OR_PARTITION",), (), ()]


def test_unreadable_request_is_listed_before_its_connection_is_closed(broker: kqueue.Broker) -> None:
    header = b"\0\0" + b"\0\x09" + b"\0\0\0\1" + b"\0\2me" + b"\0"
    with Raw(broker.bootstrap) as raw:
        raw.sock.sendall(len(header + b"\xff").to_bytes(4, "big") + header + b"\xff")
        with pytest.raises(EOFError):
            raw.receive()
    (one,) = broker.requests("Produce")
    assert (one.client_id, one.topics, one.errors, one.is_answered) == ("me", (), (), False)
    with pytest.raises(MalformedMessage):
        one.body  # noqa: B018
    assert "Produce v9 of me" in repr(one)


def test_unknown_version_of_api_versions_is_listed(broker: kqueue.Broker) -> None:
    with Raw(broker.bootstrap) as raw:
        raw.sock.sendall(b"\0\0\0\x0c" + b"\0\x12\x00\x63" + b"\0\0\0\1" + b"\0\0\0\0")
        assert raw.sock.recv(1)
    (one,) = broker.requests
    assert (one.api, one.version, one.topics, one.errors) == ("ApiVersions", 99, (), ())
    assert one.body is not None
    assert "ApiVersions v99" in repr(one)


def test_large_requests_are_listed_without_their_body(broker: kqueue.Broker) -> None:
    with Raw(broker.bootstrap) as raw:
        raw.ask("Produce", 9, produce(("t", 0), value=b"x" * KEPT_BYTES_MAX))
    (one,) = broker.requests
    assert one.size > KEPT_BYTES_MAX
    assert (one.body, one.topics, one.errors) == (None, (), ())
    assert broker.requests.bytes < 1000  # the answer


def test_request_log_survives_a_restart() -> None:
    with kqueue.Broker() as broker:
        for _ in range(2):
            with Raw(broker.bootstrap) as raw:
                raw.ask("Heartbeat", 4, group_id="g")
            broker.restart()
    assert [one.errors for one in broker.requests("Heartbeat")] == [("UNKNOWN_MEMBER_ID",)] * 2


def test_lines_are_readable_whatever_clients_send(broker: kqueue.Broker) -> None:
    places = [("t", number) for number in range(12)] + [(f"u{number}", 0) for number in range(7)]
    with Raw(broker.bootstrap, "\x1b[2J" + "x" * 500) as raw:
        raw.ask("Produce", 9, produce(*places))
        for _ in range(60):
            raw.ask("Heartbeat", 4, group_id="g")
    line = str(broker.requests("Produce")[0])
    assert " of '\\x1b[2Jxxxx" in line
    assert "x..." in line
    assert "about t[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]; u0[0]; u1[0]; u2[0]; u3[0] and 3 more topics," in line
    assert repr(broker.requests).splitlines()[:2] == ["<61 requests of clients>", "(11 before these)"]
    assert len(repr(broker.requests).splitlines()) == 52


# --- waiting


def test_requests_can_be_awaited(broker: kqueue.Broker) -> None:
    def send() -> None:
        with Raw(broker.bootstrap, "late") as raw:
            for _ in range(3):
                raw.ask("Heartbeat", 4, group_id="g")

    thread = threading.Thread(target=send)
    thread.start()
    request = broker.requests.wait_for("Heartbeat", 3, client_id="late")
    thread.join()
    assert len(request) == 3
    broker.requests.clear()
    message = "0 of 1 Heartbeat requests came within 0.01 s; there were: <0 requests of clients>"
    with pytest.raises(TimeoutError, match=message):
        broker.requests.wait_for("Heartbeat", timeout_s=0.01)


# --- bounds


def record(requests: RequestLog, body: bytes = b"", api: str = "Heartbeat") -> object:
    header = RequestHeader(api_key=API[api].key, api_version=0, correlation_id=1, client_id="me")
    return requests.record(memoryview(body), header, "10.0.0.1:1")


def test_number_of_requests_is_bounded() -> None:
    requests = RequestLog(ManualClock(), lambda: None, count_max=3)
    entries = [record(requests) for _ in range(5)]
    assert list(requests) == entries[2:]


def test_latest_large_bodies_and_responses_are_kept() -> None:
    """The requests stay in the list; a late response counts like its request."""
    requests = RequestLog(ManualClock(), lambda: None, bytes_max=10_000)
    header = RequestHeader(api_key=API["Heartbeat"].key, api_version=0)
    heartbeat = request_header(header.api_key, 0, 1, "me") + encode(API["Heartbeat"].request_class(), 0)
    first, *others = [requests.record(memoryview(heartbeat + bytes(3_000)), header, "") for _ in range(3)]
    small = requests.record(memoryview(heartbeat), header, "")
    size = len(heartbeat) + 3_000
    assert requests.bytes == 3 * size
    assert first.body is not None
    others[1].response_encoded([b"head", bytes(2_000)])
    assert requests.bytes == 2 * size + 2_000
    assert (first.body, first.size, first.is_answered) == (None, size, False)
    requests.record(memoryview(heartbeat + bytes(9_000)), header, "")
    assert requests.bytes == len(heartbeat) + 9_000
    assert [one.body is None for one in requests] == [True, True, True, False, False]
    assert (others[1].is_answered, others[1].errors) == (True, ())
    assert len(requests) == 5
    assert small in requests
    requests.clear()
    assert len(requests) == 0


def test_open_files_are_not_kept() -> None:
    """Of a file region in a response, only its length is kept."""

    class Region:
        def __len__(self) -> int:
            return 7

    region = Region()
    requests = RequestLog(ManualClock(), lambda: None)
    entry = requests.record(memoryview(b""), RequestHeader(), "")
    entry.response_encoded([b"head", b"before", region, b"behind"])  # type: ignore[list-item]
    gone = weakref.ref(region)
    del region
    gc.collect()
    assert gone() is None
    assert entry.is_answered

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.interbroker.contract import PeerAddress
from kqueue.interbroker.errors import BadPeerResponse, PeerIncompatible, PeerTimedOut, PeerUnavailable
from kqueue.network import peer_channel
from kqueue.network.peer_channel import IN_FLIGHT_MAX, WAITING_MAX
from kqueue.tests.network.harness import framed, until
from kqueue.tests.network.peer_harness import (
    FETCH,
    METADATA,
    RESPONSE_BYTES_MAX,
    Outcome,
    PeerHarness,
    ScriptedBroker,
    answering,
    echo,
    fetch,
    fetch_response,
    peered,
    response_frame,
)
from kqueue.tests.tables import for_each
from kqueue.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kqueue.wire.messages.write_txn_markers import WriteTxnMarkersRequest

ITEMS_MAX = 100
"""More than the elements of an ApiVersions response here."""


def test_a_request_goes_out_in_the_highest_common_version_after_api_versions() -> None:
    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer, {METADATA: (0, 9), FETCH: (4, 99)})
        for _ in range(2):
            key, version, correlation_id, request = await broker.request(reader)
            writer.write(response_frame(key, version, correlation_id, echo(key, request)))

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(serve)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        response = await harness.send(fetch()).value()
        assert bytes(response.responses[0].partitions[0].records) == b"x" * 10
        assert broker.requests == [
            (18, 4, "broker-0-requests"),
            (METADATA, 9, "broker-0-requests"),
            (FETCH, 18, "broker-0-requests"),
        ]

    peered(test)


def test_a_broker_that_knows_only_old_api_versions_is_asked_again_in_its_version() -> None:
    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, correlation_id, _ = await broker.request(reader)
        # error 35, one row: ApiVersions 0-2 (version 0 of the response)
        row = bytes([0, 18, 0, 0, 0, 2])
        writer.write(framed(correlation_id.to_bytes(4, "big") + bytes([0, 35, 0, 0, 0, 1]) + row))
        await broker.negotiate(reader, writer)
        key, version, correlation_id, request = await broker.request(reader)
        writer.write(response_frame(key, version, correlation_id, echo(key, request)))

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(serve)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        assert [version for key, version, _ in broker.requests if key == 18] == [4, 2]

    peered(test)


def test_an_api_without_a_common_version_fails_without_being_sent() -> None:
    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer, {METADATA: (0, 9), FETCH: (98, 99)})
        key, version, correlation_id, request = await broker.request(reader)
        writer.write(response_frame(key, version, correlation_id, echo(key, request)))
        await broker.request(reader)

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(serve)
        for request in (fetch(), WriteTxnMarkersRequest()):
            error = await harness.send(request).error()
            assert isinstance(error, PeerIncompatible)
        assert "does not serve it" in str(error)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)  # the connection is kept
        assert [key for key, _, _ in broker.requests] == [18, METADATA]

    peered(test)


def test_at_most_so_many_requests_are_in_flight_and_responses_keep_their_order() -> None:
    received: list[Any] = []
    go_on = asyncio.Event()

    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)

        async def read() -> None:
            while True:
                received.append(await broker.request(reader))

        task = asyncio.create_task(read())
        try:
            await go_on.wait()
            while True:
                await until(lambda: bool(received))
                key, version, correlation_id, request = received.pop(0)
                writer.write(response_frame(key, version, correlation_id, echo(key, request)))
        finally:
            task.cancel()

    async def test(harness: PeerHarness) -> None:
        await harness.broker(serve)
        outcomes = [harness.send(fetch(index)) for index in range(20)]
        await until(lambda: len(received) == IN_FLIGHT_MAX)
        await asyncio.sleep(0.02)
        assert len(received) == IN_FLIGHT_MAX
        go_on.set()
        for index, outcome in enumerate(outcomes):
            assert len((await outcome.value()).responses[0].partitions[0].records) == index

    peered(test)


def test_too_many_waiting_requests_are_refused() -> None:
    async def test(harness: PeerHarness) -> None:
        await harness.broker(answering(echo))
        outcomes = [harness.send(MetadataRequest()) for _ in range(WAITING_MAX + 1)]
        assert "requests wait" in str(await outcomes[-1].error())
        assert isinstance(await outcomes[0].value(), MetadataResponse)

    peered(test)


def test_a_broker_that_is_away_fails_requests_at_each_attempt_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kqueue.server")

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(answering(echo))
        await broker.stop()
        for _ in range(3):
            error = await harness.send(MetadataRequest()).error()
            assert isinstance(error, PeerUnavailable)
            assert not error.sent
            assert "refused" in str(error)
            harness.pass_ms(2000)
        assert len(caplog.records) == 1
        await harness.broker(answering(echo), port=broker.port)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        assert "again" in caplog.records[-1].message

    peered(test)


def test_attempts_are_a_growing_backoff_apart() -> None:
    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(answering(echo))
        await broker.stop()
        waits = []
        for _ in range(8):
            outcome = harness.send(MetadataRequest())
            waited = 0
            while not outcome.values:
                await asyncio.sleep(0.005)
                if not outcome.values:
                    harness.pass_ms(10)
                    waited += 10
            waits.append(waited)
        assert waits[0] == 0
        assert 30 <= waits[1] <= 90
        assert waits[1] < waits[3]
        assert all(700 <= wait <= 1300 for wait in waits[-2:])

    peered(test)


def test_a_lost_connection_fails_what_was_sent_and_the_next_request_opens_another() -> None:
    async def hang_up(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        await broker.request(reader)

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(hang_up, answering(echo))
        error = await harness.send(MetadataRequest()).error()
        assert isinstance(error, PeerUnavailable)
        assert error.sent
        harness.pass_ms(100)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        assert broker.connections == 2

    peered(test)


def test_a_connection_that_ends_between_responses_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def serve_one(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        key, version, correlation_id, request = await broker.request(reader)
        writer.write(response_frame(key, version, correlation_id, echo(key, request)))

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(serve_one)
        for connection in range(1, 4):
            assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
            channel = harness.peers._channels[1]["requests"]
            await until(lambda channel=channel: channel.state.value == "closed")  # type: ignore[misc]
            assert broker.connections == connection
        assert not caplog.records

    peered(test)


@for_each("answers_versions", [True, False])
def test_a_late_response_closes_the_connection(answers_versions: bool) -> None:
    async def silent(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answers_versions:
            await broker.negotiate(reader, writer)
        await reader.read()

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(silent, answering(echo))
        first, second = harness.send(MetadataRequest(), timeout_ms=500), harness.send(fetch(), timeout_ms=20_000)
        await until(lambda: broker.connections == 1)
        if answers_versions:
            await until(lambda: harness.peers._channels[1]["requests"].state.value == "open")
        harness.pass_ms(400)
        assert not first.values
        harness.pass_ms(100)
        error = await first.error()
        assert isinstance(error, PeerTimedOut)
        assert error.sent == answers_versions
        if not answers_versions:
            assert not second.values  # waits for a connection
            harness.pass_ms(10_000)
        assert not isinstance(await second.error(), PeerTimedOut)
        harness.pass_ms(2000)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)

    peered(test)


def test_a_cancelled_request_is_not_answered_and_the_connection_goes_on() -> None:
    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(answering(echo))
        cancelled, unknown = Outcome(), Outcome()
        harness.peers.send(1, MetadataRequest(), cancelled, timeout_ms=1000)()
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        in_flight = harness.peers.send(1, MetadataRequest(), cancelled, timeout_ms=1000)
        after = harness.send(MetadataRequest())
        in_flight()
        harness.peers.send(9, MetadataRequest(), unknown, timeout_ms=1000)()
        await after.value()
        assert not cancelled.values
        assert not unknown.values
        assert broker.connections == 1

    peered(test)


def test_a_host_name_is_looked_up_in_a_job() -> None:
    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(answering(echo))
        harness.addresses[1] = PeerAddress("localhost", broker.port, 1)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        harness.addresses[1] = PeerAddress("no-such-host.invalid", broker.port, 1)
        assert "looked up" in str(await harness.send(MetadataRequest()).error())

    peered(test)


# --- hostile brokers


def cut_frame(correlation_id: int) -> bytes:
    return response_frame(METADATA, 13, correlation_id, MetadataResponse())[:-1]


def wrong_correlation(correlation_id: int) -> bytes:
    return response_frame(METADATA, 13, correlation_id + 1, MetadataResponse())


def too_long(correlation_id: int) -> bytes:
    return (RESPONSE_BYTES_MAX + 1).to_bytes(4, "big") + bytes(100)


def negative(correlation_id: int) -> bytes:
    return b"\xff" * 100


def garbage(correlation_id: int) -> bytes:
    return framed(correlation_id.to_bytes(4, "big") + b"\0" + b"\x7f" * 50)


def bytes_left_over(correlation_id: int) -> bytes:
    return framed(response_frame(METADATA, 13, correlation_id, MetadataResponse())[4:] + b"!")


def empty_frame(correlation_id: int) -> bytes:
    return framed(b"")


def another_api(correlation_id: int) -> bytes:
    return response_frame(FETCH, 18, correlation_id, fetch_response(b"abc" * 100))


def too_many_elements(correlation_id: int) -> bytes:
    topics = [MetadataResponseTopic(name=str(number)) for number in range(ITEMS_MAX + 1)]
    return response_frame(METADATA, 13, correlation_id, MetadataResponse(topics=topics))


def unsolicited(correlation_id: int) -> bytes:
    frame = response_frame(METADATA, 13, correlation_id, MetadataResponse())
    return frame + frame


@pytest.mark.parametrize(
    "hostile",
    [
        cut_frame,
        wrong_correlation,
        too_long,
        negative,
        garbage,
        bytes_left_over,
        empty_frame,
        another_api,
        too_many_elements,
        unsolicited,
    ],
)
def test_a_hostile_broker_loses_its_connection_only(
    hostile: Callable[[int], bytes], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_channel, "RESPONSE_ITEMS_MAX", ITEMS_MAX)

    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        _, _, correlation_id, _ = await broker.request(reader)
        writer.write(hostile(correlation_id))
        if hostile is not cut_frame:
            assert not await reader.read()

    async def test(harness: PeerHarness) -> None:
        bad = await harness.broker(serve)
        await harness.broker(answering(echo), node_id=2)
        assert isinstance(await harness.send(MetadataRequest(), node_id=2).value(), MetadataResponse)
        for attempt in range(3):
            outcome = harness.send(MetadataRequest())
            if hostile is unsolicited:
                assert isinstance(await outcome.value(), MetadataResponse)
            else:
                kind = PeerUnavailable if hostile is cut_frame else BadPeerResponse
                assert isinstance(await outcome.error(), kind)
            await until(lambda: harness.peers._channels[1]["requests"].state.value == "closed")
            harness.pass_ms(2000)
            assert bad.connections == attempt + 1
        assert isinstance(await harness.send(MetadataRequest(), node_id=2).value(), MetadataResponse)
        assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) in range(1, 4), caplog.text
        assert "broker 1 at 127.0.0.1" in caplog.text

    peered(test)


def test_a_listener_of_another_protocol_is_named_in_the_error() -> None:
    async def web_server(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def test(harness: PeerHarness) -> None:
        await harness.broker(web_server)
        assert "no response" in str(await harness.send(MetadataRequest()).error())

    peered(test)


def test_a_handler_that_raises_harms_only_its_own_request(caplog: pytest.LogCaptureFixture) -> None:
    async def test(harness: PeerHarness) -> None:
        await harness.broker(answering(echo))

        def fail(response: object) -> None:
            raise ZeroDivisionError

        harness.peers.send(1, MetadataRequest(), fail, timeout_ms=1000)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        assert "ZeroDivisionError" in caplog.text

    peered(test)

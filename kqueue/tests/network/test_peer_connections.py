from __future__ import annotations

import asyncio
import gc

from kqueue.interbroker.contract import PeerAddress
from kqueue.interbroker.errors import PeerUnavailable
from kqueue.network.peer_connections import peer_client_id, peer_of
from kqueue.tests.network.harness import serving, until
from kqueue.tests.network.peer_harness import (
    FETCH,
    RESPONSE_BYTES_MAX,
    PeerHarness,
    ScriptedBroker,
    answering,
    echo,
    fetch,
    peered,
    response_frame,
)
from kqueue.tests.tables import for_each
from kqueue.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kqueue.wire.messages.metadata import MetadataRequest, MetadataResponse


def test_channels_have_connections_of_their_own() -> None:
    waiting = asyncio.Event()

    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        while True:
            key, version, correlation_id, request = await broker.request(reader)
            if key == FETCH:
                await waiting.wait()
            writer.write(response_frame(key, version, correlation_id, echo(key, request)))

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(serve)
        fetched = harness.send(fetch(), channel="fetch-0")
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        assert not fetched.values
        waiting.set()
        await fetched.value()
        assert broker.connections == 2
        assert {client for _, _, client in broker.requests} == {"broker-0-requests", "broker-0-fetch-0"}

    peered(test)


def test_a_node_outside_of_the_cluster_is_not_asked() -> None:
    async def test(harness: PeerHarness) -> None:
        error = await harness.send(MetadataRequest(), node_id=7).error()
        assert isinstance(error, PeerUnavailable)
        assert "broker 7" in str(error)
        assert not error.sent

    peered(test)


@for_each("by", ["send", "refresh", "forget"])
def test_a_restarted_or_moved_broker_gets_another_connection(by: str) -> None:
    async def first(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        await reader.read()

    async def test(harness: PeerHarness) -> None:
        broker = await harness.broker(first, answering(echo))
        lost = harness.send(MetadataRequest())
        await until(lambda: broker.connections == 1)
        address = harness.addresses[1]
        if by == "forget":
            harness.peers.forget(1)
        else:
            harness.addresses[1] = PeerAddress(address.host, address.port, address.epoch + 1)
        if by == "refresh":
            harness.peers.refresh()
        if by != "send":
            assert isinstance(await lost.error(), PeerUnavailable)
        assert isinstance(await harness.send(MetadataRequest()).value(), MetadataResponse)
        assert isinstance(await lost.error(), PeerUnavailable)
        assert broker.connections == 2

    peered(test)


def test_close_fails_all_requests_and_later_ones() -> None:
    async def silent(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        await reader.read()

    async def test(harness: PeerHarness) -> None:
        await harness.broker(silent)
        before = harness.send(MetadataRequest())
        await until(lambda: harness.peers._channels[1]["requests"].state.value == "open")
        harness.peers.close()
        harness.peers.close()
        after = harness.send(MetadataRequest())
        for outcome in (before, after):
            assert "stopping" in str(await outcome.error())

    peered(test)


def test_large_responses_count_as_long_as_they_are_referenced() -> None:
    async def test(harness: PeerHarness) -> None:
        await harness.broker(answering(echo))
        response = await harness.send(fetch(3_000_000)).value()
        records = response.responses[0].partitions[0].records
        assert bytes(records) == b"x" * 3_000_000
        assert harness.peers.budget.used > 3_000_000
        del response, records
        gc.collect()
        await until(lambda: harness.peers.budget.used == 0)

    peered(test)


def test_beyond_the_budget_only_one_connection_receives() -> None:
    async def test(harness: PeerHarness) -> None:
        for node_id in (1, 2, 3):
            await harness.broker(answering(echo), node_id=node_id)
        for node_id in (1, 2, 3):  # each connection is open
            await harness.send(fetch(1), node_id).value()
        harness.peers.budget.limit = 1_000_000
        size = 2_000_000
        held = [await harness.send(fetch(size), 1).value()]
        outcomes = [harness.send(fetch(size), node_id) for node_id in (2, 3)]
        await asyncio.sleep(0.05)
        assert not any(outcome.values for outcome in outcomes)
        for _ in range(2):
            held.clear()
            gc.collect()
            await until(lambda: any(outcome.values for outcome in outcomes))
            await asyncio.sleep(0.05)
            received = [outcome for outcome in outcomes if outcome.values]
            assert len(received) == 1
            outcomes.remove(received[0])
            held.append(received.pop().values.pop())
        assert not outcomes

    peered(test)


def test_a_length_alone_takes_no_memory() -> None:
    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        await broker.request(reader)
        writer.write(RESPONSE_BYTES_MAX.to_bytes(4, "big") + bytes(10))
        await reader.read()

    async def test(harness: PeerHarness) -> None:
        await harness.broker(serve)
        outcome = harness.send(fetch())
        await until(lambda: harness.peers.budget.used > 0)
        assert harness.peers.budget.used == 10
        harness.peers.forget(1)
        await outcome.error()
        await until(lambda: harness.peers.budget.used == 0)

    peered(test)


def test_a_real_broker_answers() -> None:
    async def test(harness: PeerHarness) -> None:
        async with serving() as server:
            host, port = server.bound("PLAINTEXT")
            harness.addresses[5] = PeerAddress(host, port, 1)
            metadata = await harness.send(MetadataRequest(), node_id=5).value()
            assert metadata.cluster_id == server.broker.identity.cluster_id
            offsets = await harness.send(ListOffsetsRequest(), node_id=5).value()
            assert isinstance(offsets, ListOffsetsResponse)

    peered(test)


def test_client_ids_tell_brokers_from_clients() -> None:
    assert peer_of(f"{peer_client_id(12)}-fetch-0") == 12
    for other in (None, "", "shop", "broker-1", "kqueue-broker-", "kqueue-broker-x-1"):
        assert peer_of(other) is None

"""A Produce of many partitions is appended over several turns by a whole broker.

The broker's receive buffer is overwritten after each request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kqueue.api import slices
from kqueue.app import Server
from kqueue.broker.produce import delayed_produce, record_copies
from kqueue.records.batch import iter_batches, iter_records
from kqueue.tests.api.harness import batch
from kqueue.tests.compiled import replaces_compiled
from kqueue.tests.network.harness import Client, connect, serving, until
from kqueue.tests.test_app import create_topic
from kqueue.wire.messages.produce import PartitionProduceData, TopicProduceData

COUNT = 60


def large(monkeypatch: pytest.MonkeyPatch, test: Callable[[Server, Client], Awaitable[None]]) -> None:
    monkeypatch.setattr(delayed_produce, "PARTITIONS_AT_ONCE_MAX", 20)
    monkeypatch.setattr(slices, "SLICE_ITEMS", 4)

    async def run() -> None:
        async with serving() as server:
            client = await connect(server)
            await create_topic(client, "t", COUNT)
            await test(server, client)

    asyncio.run(run())


def data(stem: str, count: int = COUNT) -> list[TopicProduceData]:
    parts = [PartitionProduceData(index=index, records=batch(f"{stem}{index}".encode())) for index in range(count)]
    return [TopicProduceData(name="t", partition_data=parts)]


def stored(server: Server, index: int) -> list[bytes | None]:
    log = server.broker.topics.partition("t", index).log
    raw = log.read(0, 1 << 20, end_offset=log.end_offset, min_one_batch=True).read() if log.end_offset else b""
    return [record.value for position, _ in iter_batches(raw) for record in iter_records(raw, position)]


def test_large_produce_is_appended_whole_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: Server, client: Client) -> None:
        client.send("Produce", 9, 1, acks=-1, timeout_ms=1000, topic_data=data("a"))
        client.send("Produce", 9, 2, acks=-1, timeout_ms=1000, topic_data=data("b", 1))
        client.send("Produce", 9, 3, acks=1, timeout_ms=1000, topic_data=data("c"))
        for expected in (1, 2, 3):
            number, response = await client.receive("Produce", 9)
            assert number == expected
            assert {one.error_code for one in response.responses[0].partition_responses} == {0}
        assert stored(server, 0) == [b"a0", b"b0", b"c0"]
        assert [stored(server, index) for index in range(1, COUNT)] == [
            [b"a%d" % index, b"c%d" % index] for index in range(1, COUNT)
        ]
        assert server.broker.produce.copies.bytes == 0

    large(monkeypatch, test)


def test_last_partition_never_follows_a_later_small_produce(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: Server, client: Client) -> None:
        last = data("z")
        last[0].partition_data = last[0].partition_data[-1:]
        client.send("Produce", 9, 1, acks=1, timeout_ms=1000, topic_data=data("a"))
        client.send("Produce", 9, 2, acks=1, timeout_ms=1000, topic_data=last)
        for _ in range(2):
            await client.receive("Produce", 9)
        assert stored(server, COUNT - 1) == [b"a59", b"z59"]

    large(monkeypatch, test)


def test_acks_0_gets_no_response_and_a_failure_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: Server, client: Client) -> None:
        client.send("Produce", 9, 1, acks=0, timeout_ms=1000, topic_data=data("a"))
        assert (await client.ask("ApiVersions", 0)).error_code == 0
        assert [stored(server, index) for index in range(COUNT)] == [[b"a%d" % index] for index in range(COUNT)]
        wrong = data("b")
        wrong[0].partition_data[-1].index = COUNT
        client.send("Produce", 9, 1, acks=0, timeout_ms=1000, topic_data=wrong)
        assert await client.closed() == b""
        assert server.broker.produce.copies.bytes == 0

    large(monkeypatch, test)


@pytest.mark.parametrize("refused", [{"transactional_id": "tx"}, {"topic_data": data("a", COUNT + 1)}, {}])
def test_a_failure_with_acks_0_is_no_error_of_the_broker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refused: dict[str, Any]
) -> None:
    """A client that only lacks a right, or asks a broker that leads no longer, closes its
    connection: one line says why, without a traceback.
    """
    caplog.set_level(logging.INFO)
    missing = [TopicProduceData(name="missing", partition_data=data("a", 1)[0].partition_data)]

    async def test(server: Server, client: Client) -> None:
        client.send("Produce", 9, 1, acks=0, timeout_ms=1000, **{"topic_data": missing, **refused})
        assert await client.closed() == b""

    large(monkeypatch, test)
    [line] = [record for record in caplog.records if "acks=0" in record.getMessage()]
    assert line.levelno < logging.ERROR
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]


@replaces_compiled
def test_disconnected_client_leaves_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: Server, client: Client) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(server.broker.scheduler.purgatory, "wake_in_later_turn", lambda key: None)
            client.send("Produce", 9, 1, acks=1, timeout_ms=1000, topic_data=data("a"))
            await until(lambda: server.broker.produce.copies.bytes > 0)
        await client.close()
        await until(lambda: not server.connections.sessions)
        assert server.broker.produce.copies.bytes == 0

    large(monkeypatch, test)


def test_produce_beyond_the_copy_limit_is_appended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: Server, client: Client) -> None:
        monkeypatch.setattr(record_copies, "COPIED_BYTES_MAX", 100)
        response = await client.ask("Produce", 9, acks=1, timeout_ms=1000, topic_data=data("a"))
        assert {one.error_code for one in response.responses[0].partition_responses} == {0}
        assert [stored(server, index) for index in range(COUNT)] == [[b"a%d" % index] for index in range(COUNT)]

    large(monkeypatch, test)

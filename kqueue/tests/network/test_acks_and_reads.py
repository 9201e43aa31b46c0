"""Each acks mode with each kind of read, on one connection that does not wait for responses.

Source: docs/internals/durability.md, "What each ack and each read promises".
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kqueue.app import Server
from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
from kqueue.tests.network.harness import Client, connect, serving
from kqueue.tests.test_app import create_topic
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from kqueue.wire.messages.fetch import FetchPartition, FetchTopic
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from kqueue.wire.messages.produce import PartitionProduceData, TopicProduceData

ROUNDS = 100
MODES = ["group", "kafka", "memory"]
ACKS = [0, 1, -1]
TIME_MS = 1_000


def server_in(mode: str, folder: Path) -> Any:
    return serving() if mode == "memory" else serving(folder, kqueue_flush=mode)


async def topic_of(server: Server) -> Client:
    client = await connect(server)
    await create_topic(client, "t")
    return client


def produce(client: Client, acks: int, number: int = 0) -> None:
    data = PartitionProduceData(index=0, records=bytes(build_batch([Record(0, TIME_MS + number, None, b"x")])))
    client.send(
        "Produce", 9, acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )


def list_offset(client: Client, timestamp: int) -> None:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    client.send("ListOffsets", 7, replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])


async def received(client: Client, name: str, version: int) -> Any:
    return (await client.receive(name, version))[1]


async def offset(client: Client) -> int:
    data = (await received(client, "ListOffsets", 7)).topics[0].partitions[0]
    assert data.error_code == 0
    return int(data.offset)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("acks", ACKS)
def test_end_offset_includes_each_record_sent_before(tmp_path: Path, mode: str, acks: int) -> None:
    """Latest offset, offset by time and offset of the greatest time are right in each of 100
    rounds.
    """

    async def run() -> None:
        async with server_in(mode, tmp_path) as server:
            client = await topic_of(server)
            offsets = []
            for number in range(ROUNDS):
                produce(client, acks, number)
                for timestamp in (-1, TIME_MS + number, -3):
                    list_offset(client, timestamp)
                if acks:
                    await received(client, "Produce", 9)
                offsets.append([await offset(client) for _ in range(3)])
            assert offsets == [[number + 1, number, number] for number in range(ROUNDS)]

    asyncio.run(run())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("acks", ACKS)
def test_delete_records_deletes_each_record_sent_before(tmp_path: Path, mode: str, acks: int) -> None:
    async def run() -> None:
        async with server_in(mode, tmp_path) as server:
            client = await topic_of(server)
            low_watermarks = []
            for _ in range(10):
                produce(client, acks)
                topics = [
                    DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
                ]
                client.send("DeleteRecords", 2, topics=topics, timeout_ms=30_000)
                if acks:
                    await received(client, "Produce", 9)
                low_watermarks.append(
                    (await received(client, "DeleteRecords", 2)).topics[0].partitions[0].low_watermark
                )
            assert low_watermarks == list(range(1, 11))

    asyncio.run(run())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("acks", ACKS)
def test_delayed_fetch_returns_each_record_sent_before(tmp_path: Path, mode: str, acks: int) -> None:
    async def run() -> None:
        async with server_in(mode, tmp_path) as server:
            client = await topic_of(server)
            for number in range(ROUNDS):
                produce(client, acks)
                partition = FetchPartition(partition=0, fetch_offset=number, partition_max_bytes=1 << 20)
                topics = [FetchTopic(topic="t", partitions=[partition])]
                client.send(
                    "Fetch", 4, replica_id=-1, max_wait_ms=30_000, min_bytes=1, max_bytes=1 << 20, topics=topics
                )
                if acks:
                    await received(client, "Produce", 9)
                data = (await received(client, "Fetch", 4)).responses[0].partitions[0]
                assert data.high_watermark == number + 1
                assert len(data.records or b"") > 0

    asyncio.run(run())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("acks", [1, -1])
def test_fetch_of_another_connection_returns_each_confirmed_record_at_once(
    tmp_path: Path, mode: str, acks: int
) -> None:
    """Five requests are sent without waiting; their responses come in order, each with its record
    visible.
    """

    async def run() -> None:
        async with server_in(mode, tmp_path) as server:
            client, reader = await topic_of(server), await connect(server)
            for number in range(0, ROUNDS, 5):
                for ahead in range(5):
                    produce(client, acks, number + ahead)
                for ahead in range(5):
                    answer = await received(client, "Produce", 9)
                    row = answer.responses[0].partition_responses[0]
                    assert (row.error_code, row.base_offset) == (0, number + ahead)
                    partition = FetchPartition(partition=0, fetch_offset=row.base_offset, partition_max_bytes=1 << 20)
                    topics = [FetchTopic(topic="t", partitions=[partition])]
                    reader.send("Fetch", 4, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics)
                    data = (await received(reader, "Fetch", 4)).responses[0].partitions[0]
                    assert data.high_watermark > row.base_offset
                    assert len(data.records or b"") > 0

    asyncio.run(run())

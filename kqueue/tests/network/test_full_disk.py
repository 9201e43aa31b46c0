"""A full disk: a small tmpfs and a broker over sockets that is killed and restarted.

Skipped where a test cannot mount a tmpfs.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kqueue.app import Server
from kqueue.config.properties import SourcedValue, make_config
from kqueue.records.batch import Record, iter_batches, iter_records
from kqueue.records.builder import build_batch
from kqueue.tests.network.harness import FREE_PORT, Client, connect, until
from kqueue.tests.test_app import create_topic
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from kqueue.wire.messages.fetch import FetchPartition, FetchTopic
from kqueue.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kqueue.wire.messages.produce import PartitionProduceData, TopicProduceData

STORAGE_ERROR = 56
MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a tmpfs of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a tmpfs can't be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def start(folder: Path, **settings: object) -> tuple[Server, Client]:
    values: dict[str, object] = {
        "listeners": FREE_PORT,
        "log.dirs": [str(folder / "data")],
        "log.segment.bytes": MIB,
        "log.segment.delete.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
    }
    given = {**values, **{name.replace("_", "."): value for name, value in settings.items()}}
    server = Server(make_config({name: SourcedValue(value, "test") for name, value in given.items()}))
    await server.start()
    return server, await connect(server)


async def put(client: Client, number: int, size: int = 50_000) -> int:
    """Produce one record; return the error code."""
    records = bytes(build_batch([Record(0, 0, None, b"%06d" % number + bytes(size))]))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    response = await client.ask("Produce", 8, acks=-1, timeout_ms=30_000, topic_data=[data])
    return int(response.responses[0].partition_responses[0].error_code)


async def fill(client: Client) -> int:
    """Produce until the broker refuses; return the number of confirmed records."""
    for number in range(1000):
        code = await put(client, number)
        if code:
            assert code == STORAGE_ERROR
            return number
    raise AssertionError("the disk has no end")


async def numbers(client: Client, start: int, end: int) -> list[int]:
    values: list[int] = []
    while len(values) < end - start:
        fetch_partition = FetchPartition(partition=0, fetch_offset=start + len(values), partition_max_bytes=MIB)
        topics = [FetchTopic(topic="t", partitions=[fetch_partition])]
        answer = await client.ask("Fetch", 4, replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=MIB, topics=topics)
        data = answer.responses[0].partitions[0]
        assert data.error_code == 0
        batches = [
            record for position, _ in iter_batches(data.records) for record in iter_records(data.records, position)
        ]
        values += [int((record.value or b"")[:6]) for record in batches if record.offset >= start + len(values)]
    return values


async def delete_before(client: Client, offset: int) -> Any:
    topics = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    return (await client.ask("DeleteRecords", 2, topics=topics, timeout_ms=30_000)).topics[0].partitions[0]


async def commit(client: Client, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    response = await client.ask(
        "OffsetCommit", 2, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    return int(response.topics[0].partitions[0].error_code)


def fill_up(path: Path) -> None:
    """Write until the disk is full.

    Raises: OSError: always.
    """
    with path.open("wb", buffering=0) as other:
        while True:
            other.write(bytes(4096))


async def served_again(client: Client, number: int) -> None:
    async with asyncio.timeout(60):
        while await put(client, number):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("reserve", [-1, 0])
def test_disk_full_of_records_is_read_freed_and_written_again(small_disk: Path, reserve: int) -> None:
    async def test() -> None:
        server, client = await start(small_disk, kqueue_disk_reserve_bytes=reserve)
        try:
            await create_topic(client, "t")
            end = await fill(client)
            assert end > 100
            assert await numbers(client, 0, end) == list(range(end)), "what can be read is read"
            assert await put(client, end) == STORAGE_ERROR
            if reserve:
                assert await commit(client, end) == 0, "groups have the reserve"
            assert (await delete_before(client, end - 20)).error_code == 0
            await served_again(client, end)
            assert await numbers(client, end - 20, end + 1) == list(range(end - 20, end + 1))
        finally:
            await client.close()
            await server.stop()

    asyncio.run(test())


def test_broker_on_a_full_disk_starts_serves_and_deletes(small_disk: Path) -> None:
    async def test() -> None:
        server, client = await start(small_disk)
        await create_topic(client, "t")
        for number in range(60):
            assert await put(client, number) == 0
        with pytest.raises(OSError, match="No space left"):
            fill_up(small_disk / "other")
        assert await put(client, 60) == STORAGE_ERROR
        await client.close()
        unclean(server)
        await server.stop()
        server, client = await start(small_disk)
        try:
            assert server.broker.logs.was_unclean
            await server.ready()
            assert await numbers(client, 0, 60) == list(range(60))
            assert await put(client, 60) == STORAGE_ERROR
            assert (await delete_before(client, 40)).low_watermark == 40
            await until(lambda: len(server.broker.topics.partition("t", 0).log.segments) < 3)
            assert (await client.ask("DeleteTopics", 4, topic_names=["t"], timeout_ms=30_000)).responses[
                0
            ].error_code == 0
            (small_disk / "other").unlink()
            await create_topic(client, "t")
            await served_again(client, 0)
            assert await numbers(client, 0, 1) == [0]
        finally:
            await client.close()
            await server.stop()

    asyncio.run(test())


def unclean(server: Server) -> None:
    """Suppress the clean-shutdown marker, as after a kill."""
    for folder in server.broker.logs._folders:
        close = folder.close
        folder.close = lambda *, clean, broker_epoch, close=close: close(clean=False, broker_epoch=broker_epoch)  # type: ignore[method-assign,misc]

"""Many open files, a failing disk and clients that do not read, on real sockets and a real disk."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kqueue.app import Server
from kqueue.base.settings import KiB
from kqueue.storage import descriptor_cache
from kqueue.storage.descriptor_cache import PROCESS
from kqueue.tests.api.harness import batch
from kqueue.tests.network.harness import API, Client, connect, request_bytes, serving, until
from kqueue.tests.test_app import create_topic
from kqueue.tests.thorough import corners
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

STORAGE_ERROR = 56
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names descriptors in /proc")


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def set_bound(count: int) -> None:
        monkeypatch.setattr(PROCESS, "_fixed", count)
        monkeypatch.setattr(descriptor_cache, "LIMIT_DEFAULT", 32)

    return set_bound


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Files (folder and name) whose next fdatasync fails once, as the kernel reports it.

    Other syncs take no time.
    """
    names: set[str] = set()

    def fdatasync(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if f"{path.parent.name}/{path.name}" in names:
            names.discard(f"{path.parent.name}/{path.name}")
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    return names


async def produce_to(client: Client, topic: str, indexes: list[int], value: bytes = b"x") -> dict[int, int]:
    """Produce one record to each of these partitions in one request; return the error codes."""
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=index, records=batch(value)) for index in indexes]
    )
    client.send_raw(request_bytes(API["Produce"], 8, ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data])))
    response = (await client.receive("Produce", 8))[1]
    return {one.index: one.error_code for one in response.responses[0].partition_responses}


def offline(server: Server, topic: str) -> list[int]:
    return [
        one.index
        for one in server.broker.topics.get(topic).partitions
        if one.is_open and one.log.health.failure is not None
    ]


@pytest.mark.long
@needs_proc
@pytest.mark.parametrize("open_files", corners([None, 1_000, 400], 400))
def test_failed_fsync_takes_only_its_own_partition_offline(
    tmp_path: Path, failing: set[str], bound: Callable[[int], None], open_files: int | None
) -> None:
    """One request to 700 partitions.

    With few open files some are refused, and succeed when the request is repeated.
    """
    if open_files is not None:
        bound(open_files)
    indexes = list(range(700))

    async def test() -> None:
        async with serving(tmp_path) as server:
            client = await connect(server)
            await create_topic(client, "t", len(indexes))
            failing.add("t-13/00000000000000000000.log")
            codes = await produce_to(client, "t", indexes)
            assert not failing
            assert codes[13] == STORAGE_ERROR
            assert offline(server, "t") == [13]
            refused = [index for index, code in codes.items() if code]
            if open_files != 400:
                assert refused == [13]
            for _ in range(20):
                again = [index for index in refused if index != 13]
                if not again:
                    break
                codes = await produce_to(client, "t", again)
                refused = [index for index, code in codes.items() if code]
            else:
                raise AssertionError("they are refused for good")
            assert (await produce_to(client, "t", [13])) == {13: STORAGE_ERROR}, "the failure does not go away"
            ends = [one.log_end_offset for one in server.broker.topics.get("t").partitions if one.index != 13]
            assert ends == [1] * 699
            assert offline(server, "t") == [13]

    asyncio.run(test())


@pytest.mark.thorough
@needs_proc
def test_kafka_mode_reports_writeback_errors_to_their_own_partition(
    tmp_path: Path, failing: set[str], bound: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(1000)
    loop_thread: list[int] = []
    synced_by: set[int] = set()
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced_by.add(threading.get_ident())
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)

    async def test() -> None:
        loop_thread.append(threading.get_ident())
        async with serving(tmp_path, kqueue_flush="kafka") as server:
            client = await connect(server)
            await create_topic(client, "t", 700)
            assert not any((await produce_to(client, "t", list(range(700)))).values())
            await until(lambda: not server.jobs.under_way)  # the first flush makes the folders durable
            failing.add("t-13/00000000000000000000.log")
            synced_by.clear()
            assert not any((await produce_to(client, "t", list(range(700)))).values())
            await until(lambda: not failing)
            await until(lambda: not server.jobs.under_way)
            assert loop_thread[0] not in synced_by, "no fsync on the loop"
            assert offline(server, "t") == [], "the log itself has not met the error yet"
            codes = await produce_to(client, "t", [12, 13, 14])
            assert codes == {12: 0, 13: STORAGE_ERROR, 14: 0}
            assert offline(server, "t") == [13]

    asyncio.run(test())


def fetch_bytes(topic: str, indexes: list[int]) -> bytes:
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in indexes]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=[FetchTopic(topic=topic, partitions=partitions)]
    )
    return request_bytes(API["Fetch"], 11, request)


def silent_client(server: Server) -> socket.socket:
    """A client that does not read, with a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KiB)
    client.connect(server.bound("PLAINTEXT"))
    client.setblocking(False)
    return client


@pytest.mark.long
@needs_proc
def test_clients_that_do_not_read_take_no_partition_offline(
    tmp_path: Path, failing: set[str], bound: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Twelve unread Fetches of 400 partitions, while another client uses a topic of its own."""
    indexes = list(range(400))
    bound(300)
    silent: list[socket.socket] = []

    async def test() -> None:
        async with serving(tmp_path, socket_send_buffer_bytes=64 * KiB) as server:
            client = await connect(server)
            await create_topic(client, "t", len(indexes))
            await create_topic(client, "other", 50)
            for start in range(0, 400, 50):
                codes = await produce_to(client, "t", indexes[start : start + 50], os.urandom(20 * KiB))
                assert not any(codes.values())
            for number in range(12):
                silent.append(silent_client(server))
                start = number * 100 % 400  # so that they do not share their files
                await asyncio.get_running_loop().sock_sendall(
                    silent[-1], fetch_bytes("t", indexes[start:] + indexes[:start])
                )
                for index in range(number * 4, number * 4 + 4):
                    assert (await produce_to(client, "other", [index])) == {index: 0}
                    client.send_raw(fetch_bytes("other", [index]))
                    response = (await client.receive("Fetch", 11))[1]
                    assert response.responses[0].partitions[0].error_code == 0
                    assert len(response.responses[0].partitions[0].records) > 0
                assert len(PROCESS.live) <= 300
            assert offline(server, "t") == offline(server, "other") == []
            assert "parts of log files wait for it to read them" in caplog.text
            client.send_raw(fetch_bytes("t", indexes))
            response = (await client.receive("Fetch", 11))[1]
            given = [one for one in response.responses[0].partitions if one.records]
            assert 0 < len(given) <= 64, "an answer holds no more files than this"
            assert not any(one.error_code for one in response.responses[0].partitions)

    try:
        asyncio.run(test())
    finally:
        for one in silent:
            one.close()

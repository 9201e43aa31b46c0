from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kqueue.app import Server
from kqueue.base.config import Config
from kqueue.base.errors import FolderInUse, ListenFailed, SettingError, StorageFailed
from kqueue.base.promise import Promise
from kqueue.config.catalog import CATALOG
from kqueue.records.batch import iter_batches, iter_records
from kqueue.records.builder import BatchBuilder
from kqueue.tests.network.harness import API, Client, connect, request_bytes, serving, until
from kqueue.wire.messages.create_topics import CreatableTopic
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.join_group import JoinGroupRequestProtocol
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def batch(*values: bytes) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(int(time.time() * 1000), None, value)
    return bytes(builder.build())


async def create_topic(client: Client, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = await client.ask("CreateTopics", 4, topics=[topic], timeout_ms=10_000)
    assert response.topics[0].error_code == 0


def send_produce(client: Client, topic: str, *values: bytes, acks: int = -1, correlation_id: int = 1) -> None:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch(*values))])
    client.send_raw(
        request_bytes(
            API["Produce"], 8, ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data]), correlation_id
        )
    )


async def produce(client: Client, topic: str, *values: bytes, acks: int = -1) -> Any:
    send_produce(client, topic, *values, acks=acks)
    response = (await client.receive("Produce", 8))[1].responses[0].partition_responses[0]
    assert response.error_code == 0
    return response


def send_fetch(client: Client, topic: str, offset: int = 0, max_wait_ms: int = 0, min_bytes: int = 1) -> None:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    client.send_raw(
        request_bytes(
            API["Fetch"],
            11,
            FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=1 << 20,
                topics=[FetchTopic(topic=topic, partitions=[partition])],
            ),
        )
    )


async def fetched(client: Client) -> Any:
    response = (await client.receive("Fetch", 11))[1]
    assert response.error_code == 0
    return response.responses[0].partitions[0]


def in_memory_or_in(tmp_path: Path, storage: str) -> Path | None:
    return tmp_path / "data" if storage == "disk" else None


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_records_come_back_as_they_were_sent(storage: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(in_memory_or_in(tmp_path, storage)) as server:
            client = await connect(server)
            await create_topic(client, "orders")
            assert (await produce(client, "orders", b"one", b"two")).base_offset == 0
            assert (await produce(client, "orders", b"three", acks=1)).base_offset == 2
            await produce(client, "orders", b"x" * 40_000)
            send_fetch(client, "orders")
            partition = await fetched(client)
            records = [
                record
                for position, _ in iter_batches(partition.records)
                for record in iter_records(partition.records, position, limit_bytes=1 << 20)
            ]
            assert [(record.offset, record.value) for record in records] == list(
                enumerate([b"one", b"two", b"three", b"x" * 40_000])
            )
            assert partition.high_watermark == 4

    asyncio.run(test())


@pytest.mark.parametrize("acks", [1, -1])
def test_a_stop_loses_nothing(acks: int, tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as server:
            client = await connect(server)
            await create_topic(client, "orders")
            for number in range(20):
                await produce(client, "orders", b"%d" % number, acks=acks)
            cluster_id = server.broker.identity.cluster_id
        assert (tmp_path / ".kafka_cleanshutdown").exists()
        async with serving(tmp_path) as server:
            assert server.broker.identity.cluster_id == cluster_id
            client = await connect(server)
            send_fetch(client, "orders", 19)
            partition = await fetched(client)
            assert (partition.high_watermark, b"19" in bytes(partition.records)) == (20, True)

    asyncio.run(test())


def test_requests_under_way_are_answered_before_a_stop(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as server:
            producer, consumer = await connect(server), await connect(server)
            await create_topic(producer, "orders")
            send_fetch(consumer, "orders", 0, max_wait_ms=300_000, min_bytes=1 << 20)
            for number in range(5):
                send_produce(producer, "orders", b"%d" % number, correlation_id=number)
            partition = server.broker.topics.get("orders").partition(0)
            await until(lambda: partition.log_end_offset == 5 and len(server.broker.scheduler.purgatory) > 0)
            stopping = asyncio.ensure_future(server.stop())
            for number in range(5):
                correlation_id, response = await producer.receive("Produce", 8)
                assert (correlation_id, response.responses[0].partition_responses[0].error_code) == (number, 0)
            assert (await fetched(consumer)).error_code == 0, (
                "a fetch that waits for more is answered with what there is"
            )
            assert await producer.closed() == b""
            await stopping

    asyncio.run(test())


def test_waiting_group_member_does_not_delay_a_stop() -> None:
    async def test() -> None:
        delays = {"group_initial_rebalance_delay_ms": 600_000, "kqueue_stop_timeout_ms": 600_000}
        async with serving(**delays) as server:
            client = await connect(server)
            client.send(
                "JoinGroup",
                2,
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            )
            await until(lambda: any(not session.is_idle for session in server.connections.sessions))  # type: ignore[attr-defined]
            await asyncio.wait_for(server.stop(), 60)
            assert await client.closed() == b""

    asyncio.run(test())


def test_client_that_does_not_read_delays_a_stop_up_to_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(kqueue_stop_timeout_ms=50, socket_send_buffer_bytes=2048) as server:
            slow = socket.socket()
            slow.setblocking(False)
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before connecting: the system takes no more
            await asyncio.get_running_loop().sock_connect(slow, server.bound("PLAINTEXT"))
            client = Client(*await asyncio.open_connection(sock=slow))
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(2_000):
                client.send("ApiVersions", 0)
            await until(lambda: server.connections.unsent() == 1)
            await asyncio.wait_for(server.stop(), 60)
            await client.close()

    asyncio.run(test())
    assert "closing 1 connection that did not take all responses" in caplog.text


def test_a_stopped_server_leaves_no_thread_port_or_lock(tmp_path: Path) -> None:
    async def test(topic: str) -> int:
        async with serving(tmp_path) as server:
            client = await connect(server)
            await create_topic(client, topic)
            await produce(client, topic, b"one")
            port = server.bound("PLAINTEXT")[1]
        await server.stop()  # twice is harmless
        return port

    before = set(threading.enumerate())
    port = asyncio.run(test("orders"))
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert asyncio.run(test("returns")) > 0, "the folder can be locked again"


def test_a_second_broker_on_the_same_folder_is_refused_and_leaves_no_port(tmp_path: Path) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        async with serving(tmp_path):
            with pytest.raises(FolderInUse, match=str(tmp_path)):
                async with serving(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port}"):
                    pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))

    asyncio.run(test())


@contextlib.contextmanager
def broken_store(folder: Path) -> Iterator[dict[str, object]]:
    folder.mkdir()
    store = folder / "kqueue.db"
    store.write_bytes(b"no database" * 1000)
    yield {}
    store.unlink()


@contextlib.contextmanager
def taken_port(folder: Path) -> Iterator[dict[str, object]]:
    with socket.create_server(("127.0.0.1", 0)) as blocker:
        yield {"listeners": f"PLAINTEXT://127.0.0.1:{blocker.getsockname()[1]}"}


@pytest.mark.parametrize(("trouble", "error"), [(broken_store, StorageFailed), (taken_port, ListenFailed)])
def test_failed_start_releases_everything(
    trouble: Callable[[Path], contextlib.AbstractContextManager[dict[str, object]]],
    error: type[Exception],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    before = set(threading.enumerate())

    async def test() -> None:
        with trouble(folder) as settings, pytest.raises(error):
            async with serving(folder, **settings):
                pass
        async with serving(folder):
            pass

    asyncio.run(test())
    assert set(threading.enumerate()) == before


def test_settings_are_checked_before_the_disk_is_touched(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(SettingError):
            async with serving(tmp_path / "data", listeners="SSL://127.0.0.1:0"):
                pass

    asyncio.run(test())
    assert not (tmp_path / "data").exists()


def test_each_listener_advertises_its_own_address() -> None:
    async def test() -> None:
        async with serving(
            listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
            advertised_listeners="OUTSIDE://broker.example.com:9999",
            listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        ) as server:
            inside, outside = await connect(server, "INSIDE"), await connect(server, "OUTSIDE")
            brokers = [(await client.ask("Metadata", 1, topics=[])).brokers[0] for client in (inside, outside)]
            assert [(broker.host, broker.port) for broker in brokers] == [
                server.bound("INSIDE"),
                ("broker.example.com", 9999),
            ]
            assert server.listener_names == ["INSIDE", "OUTSIDE"]

    asyncio.run(test())


def test_the_log_says_where_it_serves_and_that_it_stopped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> int:
        async with serving(tmp_path) as server:
            return server.bound("PLAINTEXT")[1]

    with caplog.at_level(logging.INFO, "kqueue.server"):
        port = asyncio.run(test())
    said = [record.getMessage() for record in caplog.records if record.name == "kqueue.server"]
    assert f"serves PLAINTEXT://127.0.0.1:{port}; data in {tmp_path}" in said[0]
    assert said[-1] == "stopped"


def test_a_limit_on_connections_that_the_system_can_not_hold_is_lowered_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kqueue.network.connection_quotas.open_files_max", lambda: 1024)

    async def test() -> None:
        async with serving(max_connections=5000):
            pass
        async with serving():
            pass

    asyncio.run(test())
    warned = [record.getMessage() for record in caplog.records if "max.connections" in record.getMessage()]
    assert warned == ["max.connections is 5000, but the limit on open files allows only 768"]


def test_given_memory_storage_outlives_the_server() -> None:
    from kqueue.metadata.memory import MemoryStore
    from kqueue.storage import MemoryStorage

    storage, store = MemoryStorage(), MemoryStore()
    config = Config(CATALOG, {"kqueue.storage": "memory", "listeners": "PLAINTEXT://127.0.0.1:0"})

    async def test(first: bool) -> None:
        server = Server(config, storages=[storage], store=store)
        await server.start()
        client = await connect(server)
        if first:
            await create_topic(client, "orders")
            await produce(client, "orders", b"kept")
        else:
            send_fetch(client, "orders")
            assert b"kept" in bytes((await fetched(client)).records)
        await server.stop()
        await client.close()

    asyncio.run(test(True))
    asyncio.run(test(False))


def test_a_result_that_nobody_waits_for_any_more_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with serving() as server:
            promise: Promise[int] = Promise()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(server.result(promise), 0.01)
            promise.resolve(1)
            server.broker.scheduler.purgatory.wake(promise)
            server.loop_driver.run_now()
            assert await server.result(promise) == 1

    asyncio.run(run())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]

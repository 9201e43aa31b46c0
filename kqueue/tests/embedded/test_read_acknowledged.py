"""Reads of records that were appended with acks=0, or confirmed with acks=1.

Of the former the disk syncs only after a request for the records was handled.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

import kqueue
from kqueue.client import Client
from kqueue.client import TopicPartition as ClientTopicPartition
from kqueue.network.interception import InterceptedRequest
from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
from kqueue.storage.fault_injection import InjectedFailure
from kqueue.tests.thorough import examples

pytestmark = pytest.mark.long

ROUNDS = examples(100)
PARTITION = TopicPartition("orders", 0)


class HeldDisk:
    """Each sync of a file of `orders` waits for a request of one of `apis` handled since `hold`."""

    def __init__(self, broker: kqueue.Broker, *apis: str) -> None:
        self._broker = broker
        self._apis = apis
        self._may_sync = threading.Event()
        self._produced = threading.Event()

    def hold(self) -> None:
        self._may_sync.clear()

    def append(self, time_ms: int = 1000) -> None:
        """Append a record with acks=0; returns when the broker has it in its log."""
        self._produced.clear()
        batch = build_batch([Record(0, time_ms, None, b"x")])
        with Client(self._broker.bootstrap) as client:
            client.produce({ClientTopicPartition("orders", 0): batch}, acks=0)
            self.wait_until_produced()

    def wait_until_produced(self) -> None:
        """Wait until a Produce request was handled, answered or not."""
        assert self._produced.wait(60), "no Produce request was handled"
        self._produced.clear()

    def release(self) -> None:
        self._may_sync.set()

    def show(self, asked: InterceptedRequest) -> None:
        if asked.api == "Produce":
            asyncio.get_running_loop().call_soon(self._produced.set)
        if asked.api in self._apis:
            asyncio.get_running_loop().call_soon(self._may_sync.set)  # after the handler has returned

    def ask(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        if kind == "sync" and path.startswith("orders"):
            assert self._may_sync.wait(60), "nothing asked for the end of the log"
        return None


@contextmanager
def held_disk(broker: kqueue.Broker, *apis: str) -> Iterator[HeldDisk]:
    disk = HeldDisk(broker, *apis)
    disk.release()
    broker._hooks.add(disk.show, disk.ask)
    try:
        yield disk
    finally:
        disk.release()
        broker._hooks.remove(disk.show, disk.ask)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kqueue.Broker]:
    with kqueue.Broker(path=tmp_path) as broker:
        broker.create_topic("orders")
        yield broker


async def ends_of_aiokafka(broker: kqueue.Broker, disk: HeldDisk) -> list[tuple[int, int | None, int]]:
    """After each record, return the end offset, the offset by time and the position after a seek to
    end.
    """
    # its other requests wait behind a fetch
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, fetch_max_wait_ms=5)
    ends = []
    partition = AioTopicPartition("orders", 0)
    await consumer.start()
    consumer.assign([partition])
    try:
        for number in range(ROUNDS):
            disk.hold()
            disk.append(1_000_000 + number)
            end = (await consumer.end_offsets([partition]))[partition]
            disk.hold()
            disk.append(2_000_000 + number)
            at = (await consumer.offsets_for_times({partition: 2_000_000 + number}))[partition]
            disk.hold()
            disk.append(1_500_000)
            await consumer.seek_to_end(partition)
            ends.append((end, at and at.offset, await consumer.position(partition)))
    finally:
        disk.release()
        await consumer.stop()
    return ends


def test_ends_for_aiokafka_include_each_record_appended_before(broker: kqueue.Broker) -> None:
    with held_disk(broker, "ListOffsets") as disk:
        ends = asyncio.run(ends_of_aiokafka(broker, disk))
    assert ends == [(3 * number + 1, 3 * number + 1, 3 * number + 3) for number in range(ROUNDS)]


def test_ends_for_kafka_python_include_each_record_appended_before(broker: kqueue.Broker) -> None:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    committed = KafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
    ends = []
    try:
        with held_disk(broker, "ListOffsets") as disk:
            for _ in range(ROUNDS):
                disk.hold()
                disk.append()
                end = consumer.end_offsets([PARTITION])[PARTITION]
                disk.hold()
                disk.append()
                ends.append((end, committed.end_offsets([PARTITION])[PARTITION]))
    finally:
        for client in (consumer, committed):
            client.close()
    assert ends == [(2 * number + 1, 2 * number + 2) for number in range(ROUNDS)]


def test_delete_records_deletes_each_record_appended_before(broker: kqueue.Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    starts = []
    try:
        with held_disk(broker, "DeleteRecords") as disk:
            for number in range(ROUNDS):
                disk.hold()
                disk.append()
                before = -1 if number % 2 else number + 1
                admin.delete_records({PARTITION: before})
                starts.append(broker.topics["orders"].start_offsets[0])
    finally:
        admin.close()
    assert starts == list(range(1, ROUNDS + 1))


def group_lag(broker: kqueue.Broker) -> int:
    return broker.groups["mail"].lag["orders"][0]


def records_to_consume(broker: kqueue.Broker) -> int:
    with pytest.raises(AssertionError) as error:
        broker.assert_consumed("orders", group="mail")
    match = re.search(r"consumed 0 of (\d+) record", str(error.value))
    assert match is not None
    return int(match[1])


VIEWS: dict[str, Callable[[kqueue.Broker], int]] = {
    "end_offsets": lambda broker: broker.topics["orders"].end_offsets[0],
    "records": lambda broker: len(broker.topics["orders"].records()),
    "read_committed": lambda broker: len(broker.topics["orders"].records(read_committed=True)),
    "assert_produced": lambda broker: len(broker.assert_produced("orders", [b"x"], exactly=False)),
    "group_lag": group_lag,
    "assert_consumed": records_to_consume,
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_show_each_record_appended_before(
    broker: kqueue.Broker, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = broker._call

    def call_and_release(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            asyncio.get_running_loop().call_soon(disk.release)  # after the first look
            return await work()

        return call(run)

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="mail", enable_auto_commit=False)
    consumer.assign([PARTITION])
    consumer.commit({PARTITION: OffsetAndMetadata(0, "", -1)})
    counts = []
    try:
        with held_disk(broker) as disk:
            for _ in range(10):
                disk.hold()
                disk.append()
                with monkeypatch.context() as patched:
                    patched.setattr(broker, "_call", call_and_release)
                    counts.append(VIEWS[view](broker))
    finally:
        consumer.close()
    assert counts == list(range(1, 11))


def fetch_at_once(broker: kqueue.Broker, offset: int) -> list[int]:
    """Offsets of the records that a consumer finds there without waiting for others."""
    place = ClientTopicPartition("orders", 0)
    with Client(broker.bootstrap) as client:
        fetched = client.fetch({place: offset}, max_wait_ms=0)[place]
    return [] if fetched.high_watermark <= offset else list(range(offset, fetched.high_watermark))


def test_kafka_python_reads_each_record_confirmed_with_acks_1(broker: kqueue.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks=1, enable_idempotence=False)
    try:
        with held_disk(broker) as disk:
            for number in range(20):
                disk.hold()
                sent = producer.send("orders", b"x")
                disk.wait_until_produced()
                assert fetch_at_once(broker, number) == []
                assert not sent.is_done, "confirmed before it is on the disk"
                disk.release()
                assert sent.get(30).offset == number
                assert fetch_at_once(broker, number) == [number]
    finally:
        producer.close()


def test_aiokafka_reads_each_record_confirmed_with_acks_1(broker: kqueue.Broker) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks=1)
        await producer.start()
        try:
            for number in range(20):
                await producer.send_and_wait("orders", b"x")
                assert fetch_at_once(broker, number) == [number]
        finally:
            await producer.stop()

    with held_disk(broker, "Produce"):
        asyncio.run(run())

"""Through stock clients, before and after partitions are added."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewPartitions
from kqueue_partitioner_rendezvous import rendezvous

import kqueue
from kqueue.records.partitioners import as_client_partitioner

KEYS = [b"customer-%d" % number for number in range(60)]
DEADLINE_S = 20


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with kqueue.Broker() as broker:
        broker.create_topic("orders", partitions=5)
        yield broker


def add_partitions(broker: kqueue.Broker, count: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.create_partitions({"orders": NewPartitions(count)})
    finally:
        admin.close()


def places(broker: kqueue.Broker, count: int) -> dict[bytes, set[int]]:
    """The partitions in which each key is found, in all of `count`."""
    by_key: dict[bytes, set[int]] = {}
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        partitions = [TopicPartition("orders", id) for id in range(count)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + DEADLINE_S
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            assert time.monotonic() < deadline, f"{len(by_key)} keys are read, up to {ends}"
            for partition, records in consumer.poll(timeout_ms=1000).items():
                for record in records:
                    by_key.setdefault(record.key, set()).add(partition.partition)
    finally:
        consumer.close()
    return by_key


def test_kafka_python_places_keys_by_it_and_moves_them_to_added_partitions_alone(broker: kqueue.Broker) -> None:
    def send() -> None:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, partitioner=as_client_partitioner("rendezvous"))
        try:
            for key in KEYS:
                producer.send("orders", key=key, value=b"x")
            producer.flush(timeout=DEADLINE_S)
        finally:
            producer.close()

    send()
    before = places(broker, 5)
    assert before == {key: {rendezvous(key, 5)} for key in KEYS}
    add_partitions(broker, 8)
    send()
    after = places(broker, 8)
    assert after == {key: {rendezvous(key, 5), rendezvous(key, 8)} for key in KEYS}
    moved = [key for key in KEYS if after[key] != before[key]]
    assert 0 < len(moved) < len(KEYS), "some keys move, and not all"
    assert all(max(after[key]) >= 5 for key in moved)


def test_aiokafka_places_keys_by_it(broker: kqueue.Broker) -> None:
    async def send() -> list[int]:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, partitioner=as_client_partitioner("rendezvous"))
        await producer.start()
        try:
            sent = [await producer.send_and_wait("orders", b"x", key=key) for key in KEYS]
        finally:
            await producer.stop()
        return [report.partition for report in sent]

    def run(count: int) -> None:
        assert asyncio.run(asyncio.wait_for(send(), DEADLINE_S)) == [rendezvous(key, count) for key in KEYS]

    run(5)
    add_partitions(broker, 8)
    run(8)

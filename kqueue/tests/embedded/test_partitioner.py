"""`kqueue.partitioner` with real clients: a plugin's partitioner chooses the partitions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

import kqueue
from kqueue.base.errors import PluginError
from kqueue.tests.plugged import BeyondPartition, LastPartition

PARTITIONS = 5
PATH = f"{LastPartition.__module__}:LastPartition"


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(partitioners={"last": LastPartition, "beyond": BeyondPartition}) as running:
        running.create_topic("t", PARTITIONS)
        yield running


def by_kafka_python(broker: kqueue.Broker, name: str, keys: list[bytes | None]) -> list[int]:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, partitioner=kqueue.partitioner(name))
    try:
        return [producer.send("t", key=key, value=b"v").get(60).partition for key in keys]
    finally:
        producer.close(timeout=5)


def by_aiokafka(broker: kqueue.Broker, name: str, keys: list[bytes | None]) -> list[int]:
    async def send() -> list[int]:
        async with asyncio.timeout(60):
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, partitioner=kqueue.partitioner(name))
            async with contextlib.AsyncExitStack() as stack:
                await producer.start()
                stack.push_async_callback(producer.stop)
                return [(await producer.send_and_wait("t", key=key, value=b"v")).partition for key in keys]

    return asyncio.run(send())


CLIENTS = pytest.mark.parametrize("send", [by_kafka_python, by_aiokafka])


@CLIENTS
@pytest.mark.parametrize("name", ["last", PATH])
def test_a_plugin_chooses_for_real_clients(broker: kqueue.Broker, name: str, send) -> None:
    assert send(broker, name, [b"a", b"b", None]) == [PARTITIONS - 1] * 3


@CLIENTS
def test_the_default_puts_keys_where_java_does(broker: kqueue.Broker, send) -> None:
    keys = [b"key-%d" % number for number in range(20)]
    partitions = send(broker, "murmur2", keys)
    assert partitions == send(broker, "murmur2", keys)
    assert len(set(partitions)) > 2
    assert partitions == by_default(broker, keys)


def by_default(broker: kqueue.Broker, keys: list[bytes]) -> list[int]:
    """kafka-python's own default."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    try:
        return [producer.send("t", key=key, value=b"v").get(60).partition for key in keys]
    finally:
        producer.close(timeout=5)


@CLIENTS
def test_failing_partitioner_is_named_to_the_producer(broker: kqueue.Broker, send) -> None:
    with pytest.raises(
        Exception, match=r"partitioner 'beyond' of Broker\(\.\.\.\) broke its contract: partition returned 5"
    ):
        send(broker, "beyond", [b"a"])


def test_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(PluginError, match="no partitioner is called 'murmur'; did you mean 'murmur2'"):
        kqueue.partitioner("murmur")
    assert callable(kqueue.partitioner())

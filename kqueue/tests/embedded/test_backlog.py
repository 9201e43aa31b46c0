"""Topics with a bound on their unread backlog, as stock clients see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import aiokafka
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import PolicyViolationError
from kafka.structs import OffsetAndMetadata

import kqueue

TOPIC = "orders"


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic(TOPIC, kqueue_backlog_messages_max=2)
        broker.topics[TOPIC].produce_all(["one"])
        yield broker


def consume_all(broker: kqueue.Broker) -> None:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="shop", enable_auto_commit=False)
    end = broker.topics[TOPIC].end_offsets[0]
    consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(end, "", -1)})
    consumer.close(autocommit=False)


def produce_requests(broker: kqueue.Broker) -> int:
    return len(broker.requests(api="Produce"))


@pytest.mark.parametrize("acks", ["all", 1])
def test_kafka_python(broker: kqueue.Broker, acks: str | int) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap, acks=acks, enable_idempotence=False) as producer:
        producer.send(TOPIC, b"two").get(timeout=10)
        before = produce_requests(broker)
        with pytest.raises(PolicyViolationError, match="takes no more records until its consumers have caught up"):
            producer.send(TOPIC, b"three").get(timeout=10)
        assert produce_requests(broker) == before + 1, "the client does not retry"
        backlog = broker.topics[TOPIC].backlog
        assert backlog is not None
        assert (backlog.state, backlog.messages, backlog.group, backlog.partitions) == ("refusing", 2, None, {0: 2})
        consume_all(broker)
        assert producer.send(TOPIC, b"four").get(timeout=10).offset == 2


def test_an_idempotent_producer_of_kafka_python_gives_up_at_the_refusal(broker: kqueue.Broker) -> None:
    """kafka-python 3.0 takes every error that it does not retry for the end of an idempotent
    producer; a new one goes on.
    """
    for value in (b"two", b"four"):
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(TOPIC, value).get(timeout=10)
            for _ in range(2):
                with pytest.raises(PolicyViolationError):
                    producer.send(TOPIC, b"three").get(timeout=10)
                consume_all(broker)
        broker.topics[TOPIC].produce_all(["one"])
    assert len(broker.topics[TOPIC].records()) == 5


def test_confluent(broker: kqueue.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    codes: list[int | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        codes.append(error.code() if error is not None else None)

    for value in ("two", "three"):
        producer.produce(TOPIC, value, on_delivery=delivered)
        producer.flush(10)
    consume_all(broker)
    producer.produce(TOPIC, "four", on_delivery=delivered)
    producer.flush(10)
    assert codes == [None, KafkaError.POLICY_VIOLATION, None]


def test_aiokafka(broker: kqueue.Broker) -> None:
    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait(TOPIC, b"two")
            with pytest.raises(aiokafka.errors.PolicyViolationError):
                await producer.send_and_wait(TOPIC, b"three")
            await asyncio.get_running_loop().run_in_executor(None, consume_all, broker)
            assert (await producer.send_and_wait(TOPIC, b"four")).offset == 2

    asyncio.run(test())


def test_throttled_clients_are_slowed() -> None:
    """That others are not: `tests/network/test_connections.py`."""
    with kqueue.Broker() as broker:
        throttle = {"kqueue_backlog_action": "throttle", "kqueue_backlog_throttle_max_ms": 150}
        broker.create_topic(TOPIC, kqueue_backlog_messages_max=1, **throttle)
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            began = time.monotonic()
            for _ in range(4):
                producer.send(TOPIC, b"order").get(timeout=10)
            assert time.monotonic() - began >= 0.29, "the second waits 1 ms, the third and the fourth 150 ms"
            backlog = broker.topics[TOPIC].backlog
            assert backlog is not None
            assert backlog.state == "slowing"


def test_a_topic_without_a_bound_has_no_backlog() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic(TOPIC)
        assert broker.topics[TOPIC].backlog is None

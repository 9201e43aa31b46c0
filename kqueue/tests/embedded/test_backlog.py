"""Topics with a bound on their unread backlog, as stock clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiokafka
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Offset
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import PolicyViolationError
from kafka.structs import OffsetAndMetadata

import kqueue
from kqueue.network.session import Session
from kqueue.tests.waits import eventually

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
        producer.send(TOPIC, b"two").get(timeout=60)
        before = produce_requests(broker)
        with pytest.raises(PolicyViolationError, match="takes no more records until its consumers have caught up"):
            producer.send(TOPIC, b"three").get(timeout=60)
        assert produce_requests(broker) == before + 1, "the client does not retry"
        backlog = broker.topics[TOPIC].backlog
        assert backlog is not None
        assert (backlog.state, backlog.messages, backlog.group, backlog.partitions) == ("refusing", 2, None, {0: 2})
        consume_all(broker)
        assert producer.send(TOPIC, b"four").get(timeout=60).offset == 2


def test_an_idempotent_producer_of_kafka_python_gives_up_at_the_refusal(broker: kqueue.Broker) -> None:
    """kafka-python 3.0 takes every error that it does not retry for the end of an idempotent
    producer; a new one goes on.
    """
    for value in (b"two", b"four"):
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(TOPIC, value).get(timeout=60)
            for _ in range(2):
                with pytest.raises(PolicyViolationError):
                    producer.send(TOPIC, b"three").get(timeout=60)
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
        producer.flush(60)
    consume_all(broker)
    producer.produce(TOPIC, "four", on_delivery=delivered)
    producer.flush(60)
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


def test_a_refused_transaction_can_be_aborted_and_repeated(broker: kqueue.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "till"})
    producer.init_transactions(60)
    errors = []
    for _ in range(3):  # librdkafka 2.16 aborts twice: it asks for a new epoch with the second abort
        producer.begin_transaction()
        try:
            for value in ("two", "three"):
                producer.produce(TOPIC, value)
                producer.flush(60)
            producer.commit_transaction(60)
            break
        except KafkaException as error:
            errors.append(error.args[0].code())
            producer.abort_transaction(60)
            broker.topics[TOPIC].alter_config(kqueue_backlog_messages_max=10)
    assert errors[0] == KafkaError.POLICY_VIOLATION
    assert [record.value for record in broker.topics[TOPIC].records(read_committed=True)] == [b"one", b"two", b"three"]


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_a_transaction_count_when_it_is_committed(broker: kqueue.Broker, commits: bool) -> None:
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap} | settings)
    consumer.subscribe([TOPIC])
    eventually(lambda: consumer.consume(1, timeout=0.2))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "till"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([Offset(TOPIC, 0, 1)], consumer.consumer_group_metadata())
    backlog = broker.topics[TOPIC].backlog
    assert backlog is not None
    assert (backlog.messages, backlog.group) == (1, None)
    if commits:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)
    consumer.close()
    backlog = broker.topics[TOPIC].backlog
    assert backlog is not None
    assert (backlog.messages, backlog.group) == ((0, "g") if commits else (1, None))


def test_the_bound_can_be_raised_by_an_admin_client(broker: kqueue.Broker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap}
    with KafkaProducer(enable_idempotence=False, **settings) as producer, KafkaAdminClient(**settings) as admin:
        producer.send(TOPIC, b"two").get(timeout=60)
        with pytest.raises(PolicyViolationError):
            producer.send(TOPIC, b"three").get(timeout=60)
        change = {"kqueue.backlog.messages.max": ("SET", "3")}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, change)], incremental=True)
        producer.send(TOPIC, b"three").get(timeout=60)
        with pytest.raises(PolicyViolationError):
            producer.send(TOPIC, b"four").get(timeout=60)


def test_throttled_clients_are_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What that is, and that others are not: `tests/network/test_connections.py`."""
    throttled_ms: list[int] = []
    hold_back = Session.throttle
    monkeypatch.setattr(Session, "throttle", lambda self, ms: (throttled_ms.append(ms), hold_back(self, ms)))
    with kqueue.Broker() as broker:
        throttle = {"kqueue_backlog_action": "throttle", "kqueue_backlog_throttle_max_ms": 150}
        broker.create_topic(TOPIC, kqueue_backlog_messages_max=1, **throttle)
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(4):
                producer.send(TOPIC, b"order").get(timeout=60)
            assert throttled_ms == [1, 150, 150, 150]
            backlog = broker.topics[TOPIC].backlog
            assert backlog is not None
            assert backlog.state == "slowing"


def test_a_topic_without_a_bound_has_no_backlog() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic(TOPIC)
        assert broker.topics[TOPIC].backlog is None

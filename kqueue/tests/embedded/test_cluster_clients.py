"""What clients see of a cluster of which a broker fails: records that were confirmed are there,
once and in order, and producers wait no longer than promised.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

import kqueue
from kqueue.embedded import Cluster
from kqueue.tests.waits import HangLimit, eventually

TOPIC = "orders"
WITHIN_S = 60.0
REQUEST_TIMEOUT_MS = 1000


@dataclass
class Flow:
    """The records that a producer has sent so far: each record was confirmed before the next."""

    confirmed: list[bytes] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def next(self) -> bytes:
        return str(len(self.confirmed)).encode()

    def was_confirmed(self, value: bytes) -> None:
        self.confirmed.append(value)

    def wait_for_more(self, count: int = 20) -> None:
        """Wait until so many more records have been confirmed."""
        target = len(self.confirmed) + count
        eventually(lambda: len(self.confirmed) >= target, f"{target} confirmed records")


def kafka_python_produce(bootstrap: str, flow: Flow) -> None:
    with KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=True,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        retry_backoff_ms=20,
    ) as producer:
        while not flow.stop.is_set():
            value = flow.next()
            producer.send(TOPIC, value).get(WITHIN_S)
            flow.was_confirmed(value)


def kafka_python_consume(bootstrap: str, count: int) -> list[bytes]:
    received: list[bytes] = []
    consumer = KafkaConsumer(TOPIC, bootstrap_servers=bootstrap, group_id="mail", auto_offset_reset="earliest")
    try:
        while len(received) < count:
            for records in consumer.poll(timeout_ms=5000).values():
                received += [record.value for record in records]
    finally:
        consumer.close()
    return received


def aiokafka_produce(bootstrap: str, flow: Flow) -> None:
    async def produce() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            request_timeout_ms=3 * REQUEST_TIMEOUT_MS,  # also how long it keeps a record without a leader
            retry_backoff_ms=20,
        ) as producer:
            while not flow.stop.is_set():
                value = flow.next()
                await producer.send_and_wait(TOPIC, value)
                flow.was_confirmed(value)

    asyncio.run(produce())


def aiokafka_consume(bootstrap: str, count: int) -> list[bytes]:
    async def consume() -> list[bytes]:
        options = {"group_id": "mail", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(TOPIC, bootstrap_servers=bootstrap, **options) as consumer:
            return [(await consumer.getone()).value for _ in range(count)]

    return asyncio.run(asyncio.wait_for(consume(), WITHIN_S))


def confluent_produce(bootstrap: str, flow: Flow) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "socket.timeout.ms": REQUEST_TIMEOUT_MS,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 200,  # else it looks for a new leader once a second
            "log_level": 0,
        }
    )
    failures: list[object] = []
    while not flow.stop.is_set():
        value = flow.next()
        producer.produce(TOPIC, value, on_delivery=lambda error, message: failures.append(error) if error else None)
        assert producer.flush(WITHIN_S) == 0
        assert failures == []
        flow.was_confirmed(value)


def confluent_consume(bootstrap: str, count: int) -> list[bytes]:
    received: list[bytes] = []
    options = {"bootstrap.servers": bootstrap, "group.id": "mail", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(options)
    try:
        consumer.subscribe([TOPIC])
        limit = HangLimit(f"{count} records")
        while len(received) < count:
            limit.check()
            for message in consumer.consume(500, timeout=5):
                if message.error() is None:
                    value = message.value()
                    assert value is not None
                    received.append(value)
    finally:
        consumer.close()
    return received


@dataclass(frozen=True)
class Client:
    name: str
    produce: Callable[[str, Flow], None]
    consume: Callable[[str, int], list[bytes]]


CLIENTS = [
    Client("kafka-python", kafka_python_produce, kafka_python_consume),
    Client("aiokafka", aiokafka_produce, aiokafka_consume),
    Client("confluent-kafka", confluent_produce, confluent_consume),
]
HARMS: dict[str, Callable[[Cluster], None]] = {
    "stop": lambda cluster: cluster.stop(0),
    "kill": lambda cluster: cluster.kill(0),
    "pause": lambda cluster: cluster.pause(0),
    "cut off": lambda cluster: cluster.partition({0}, {1, 2}, without_store={0}),
    "follower cut off": lambda cluster: cluster.partition({0, 1}, {2}),
}
CASES = [
    pytest.param(
        client,
        harm,
        id=f"{client.name}-{harm}",
        marks=[] if (client, harm) == (CLIENTS[0], "kill") else pytest.mark.thorough,
    )
    for client in CLIENTS
    for harm in HARMS
    # librdkafka would go on asking the broker that is cut off: it has no other open connection
    if (client.name, harm) != ("confluent-kafka", "cut off")
]


@contextmanager
def producing(cluster: Cluster, client: Client) -> Iterator[Flow]:
    """Send records until the end of the `with`. Raises: what the client raised."""
    flow, failures = Flow(), list[BaseException]()

    def run() -> None:
        try:
            client.produce(cluster.bootstrap, flow)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield flow
    finally:
        flow.stop.set()
        thread.join(2 * WITHIN_S)
        assert not failures, failures
        assert not thread.is_alive()


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Collect what a client left before another module's test has to."""
    yield
    gc.collect()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with kqueue.Cluster(brokers=3) as running:
        running.create_topic(TOPIC, replicas={0: [0, 1, 2]}, min_insync_replicas=2)
        yield running


@pytest.mark.parametrize(("client", "harm"), CASES)
def test_confirmed_records_are_there_once_and_in_order(cluster: Cluster, client: Client, harm: str) -> None:
    with producing(cluster, client) as flow:
        flow.wait_for_more()
        HARMS[harm](cluster)
        cluster.wait_leader(TOPIC, other_than=2 if harm == "follower cut off" else 0)
        flow.wait_for_more()
        cluster.restore()
        cluster.elect(TOPIC, leader=0)
        flow.wait_for_more()
    assert client.consume(cluster.bootstrap, len(flow.confirmed)) == flow.confirmed
    cluster.wait_in_sync()
    for broker in cluster.brokers:
        broker.assert_produced(TOPIC, flow.confirmed, within_s=60)

"""Clients with quotas, over real sockets: those that wait when they are told to, and one that never
does.

Only a machine that is not busy keeps rates over seconds: those tests are thorough ones. Decisions
about single requests are tested on the manual clock, in `broker.access.test_client_quotas`.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

import kqueue
from kqueue.schema import decode
from kqueue.tests.api.harness import batch
from kqueue.tests.network.harness import API, request_bytes
from kqueue.wire.headers import read_response_header
from kqueue.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataInRequest,
    OpData,
)
from kqueue.wire.messages.api_versions import ApiVersionsRequest
from kqueue.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "orders"
RATE = 200_000
VALUE = b"v" * 5_000
SECONDS = 4.0
FETCH_SECONDS = 8.0
"""A consumer has nothing for up to a second where a window begins: over longer it is held."""
WINDOWS = 2
WINDOW_S = 1


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(quota_window_num=WINDOWS) as broker:
        broker.create_topic(TOPIC)
        yield broker


class RawClient:
    """A client that never waits because it is told to."""

    def __init__(self, broker: kqueue.Broker, client_id: str) -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.client_id = client_id

    def send(self, name: str, version: int, request: object) -> None:
        self.socket.sendall(request_bytes(API[name], version, request, client_id=self.client_id))

    def ask(self, name: str, version: int, request: object) -> Any:
        self.send(name, version, request)
        api = API[name]
        size = int.from_bytes(self._exactly(4), "big")
        body = memoryview(self._exactly(size))
        _, position = read_response_header(body, api.key, version)
        return decode(api.response_class, version, body[position:])

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return bytes(data)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.socket.close()


def bound(broker: kqueue.Broker, client_id: str, **change: float | None) -> None:
    entity = [EntityData(entity_type="client-id", entity_name=client_id)]
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in change.items()]
    request = AlterClientQuotasRequest(entries=[EntryDataInRequest(entity=entity, ops=ops)])
    with RawClient(broker, "admin") as admin:
        [row] = admin.ask("AlterClientQuotas", 1, request).entries
        assert row.error_code == 0, row.error_message


def produce_request(acks: int, *values: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(*values))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])])


def assert_held(size: int, seconds: float) -> None:
    """What a client sends at once, up to a window's worth, it waits for later. Its wait may not be
    over yet; and what it could not send because the machine was busy it does not send later.
    """
    assert 0.4 * RATE * seconds < size < 1.1 * RATE * (seconds + WINDOW_S)


@pytest.mark.thorough
def test_kafka_python_is_held_to_its_quota_of_produced_bytes(broker: kqueue.Broker) -> None:
    bound(broker, "app", producer_byte_rate=RATE)
    with KafkaProducer(
        bootstrap_servers=broker.bootstrap, client_id="app", batch_size=20_000, max_in_flight_requests_per_connection=1
    ) as producer:
        began, size = time.monotonic(), 0
        while time.monotonic() < began + SECONDS:
            producer.send(TOPIC, VALUE).get(timeout=30)
            size += len(VALUE) + 80
        assert_held(size, time.monotonic() - began)


@pytest.mark.thorough
def test_confluent_is_held_to_its_quota_of_produced_bytes(broker: kqueue.Broker) -> None:
    bound(broker, "app", producer_byte_rate=RATE)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "app", "batch.size": 20_000})
    began, size = time.monotonic(), 0

    def delivered(error: object, message: object) -> None:
        nonlocal size
        assert error is None
        size += len(VALUE)

    while time.monotonic() < began + SECONDS:
        if len(producer) < 20:
            producer.produce(TOPIC, VALUE, on_delivery=delivered)
        producer.poll(0.005)
    assert_held(size, time.monotonic() - began)
    producer.purge()


def fill(broker: kqueue.Broker) -> None:
    for _ in range(int(RATE * (FETCH_SECONDS + 3) / len(VALUE) / 3)):
        broker.topics[TOPIC].produce_all([VALUE] * 3)  # one batch, less than a fetch


@pytest.mark.thorough
def test_kafka_python_is_held_to_its_quota_of_fetched_bytes(broker: kqueue.Broker) -> None:
    fill(broker)
    bound(broker, "app", consumer_byte_rate=RATE)
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=broker.bootstrap, client_id="app", auto_offset_reset="earliest",
        max_partition_fetch_bytes=20_000,
    )  # fmt: skip
    began, size = time.monotonic(), 0
    while time.monotonic() < began + FETCH_SECONDS:
        size += sum(len(record.value) for records in consumer.poll(100).values() for record in records)
    assert_held(size, time.monotonic() - began)
    consumer.close()


@pytest.mark.thorough
def test_confluent_is_held_to_its_quota_of_fetched_bytes(broker: kqueue.Broker) -> None:
    fill(broker)
    bound(broker, "app", consumer_byte_rate=RATE)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "client.id": "app", "group.id": "g", "auto.offset.reset": "earliest",
         "fetch.message.max.bytes": 20_000}
    )  # fmt: skip
    consumer.subscribe([TOPIC])
    began, size = 0.0, 0
    while not began or time.monotonic() < began + FETCH_SECONDS:
        message = consumer.poll(0.1)
        if message is not None:
            began = began or time.monotonic()
            size += len(message.value() or b"")
    assert_held(size, time.monotonic() - began)
    consumer.close()


@pytest.mark.thorough
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_client_that_does_not_wait_is_held_too_and_its_neighbours_are_not(broker: kqueue.Broker, acks: int) -> None:
    bound(broker, "app", producer_byte_rate=RATE)
    request = request_bytes(API["Produce"], 9, produce_request(acks, VALUE), client_id="app")
    stop = threading.Event()
    with RawClient(broker, "app") as greedy, RawClient(broker, "neighbour") as neighbour:

        def flood() -> None:
            with contextlib.suppress(OSError):
                while not stop.is_set():
                    greedy.socket.sendall(request)

        def read() -> None:
            with contextlib.suppress(OSError):
                while greedy.socket.recv(1 << 16):
                    pass

        threads = [threading.Thread(target=flood), threading.Thread(target=read)]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        took_s: list[float] = []
        while time.monotonic() < began + SECONDS:
            asked = time.monotonic()
            assert neighbour.ask("Produce", 9, produce_request(1, b"v")).throttle_time_ms == 0
            took_s.append(time.monotonic() - asked)
            time.sleep(0.01)
        count = sum(len(record.value or b"") == len(VALUE) for record in broker.topics[TOPIC].records())
        seconds = time.monotonic() - began
        stop.set()
        greedy.socket.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
    assert_held(count * len(request), seconds)
    assert statistics.median(took_s) < 0.25


def test_a_quota_that_is_changed_or_removed_holds_from_the_next_request_on(broker: kqueue.Broker) -> None:
    with RawClient(broker, "app") as client:
        assert client.ask("Produce", 9, produce_request(1, VALUE)).throttle_time_ms == 0
        bound(broker, "app", producer_byte_rate=10_000)
        assert client.ask("Produce", 9, produce_request(1, VALUE)).throttle_time_ms == 0
        throttle_ms = client.ask("Produce", 9, produce_request(1, VALUE * 2)).throttle_time_ms
        assert 300 < throttle_ms < 1_500
        began = time.monotonic()
        client.ask("ApiVersions", 3, ApiVersionsRequest(client_software_name="a", client_software_version="1"))
        assert time.monotonic() - began > throttle_ms / 1000 - 0.1
        bound(broker, "app", producer_byte_rate=None)
        assert client.ask("Produce", 9, produce_request(1, VALUE * 10)).throttle_time_ms == 0
        bound(broker, "app", producer_byte_rate=1_000)
        assert client.ask("Produce", 9, produce_request(1, VALUE)).throttle_time_ms > 0


def test_time_of_requests_is_bounded(broker: kqueue.Broker) -> None:
    bound(broker, "app", request_percentage=0.01)
    with RawClient(broker, "app") as client, RawClient(broker, "neighbour") as neighbour:
        throttled = [client.ask("Metadata", 9, MetadataRequest(topics=None)).throttle_time_ms for _ in range(3)]
        assert max(throttled) > 0
        assert max(throttled) <= 1_000
        assert neighbour.ask("Metadata", 9, MetadataRequest(topics=None)).throttle_time_ms == 0


def test_topics_that_are_created_on_demand_count_as_created_ones() -> None:
    """As by Kafka, the client learns that there is no such topic yet, and asks again."""
    with kqueue.Broker(controller_quota_window_num=1, num_partitions=4) as broker:
        bound(broker, "app", controller_mutation_rate=2)
        with RawClient(broker, "app") as client, RawClient(broker, "other") as other:

            def codes(asking: RawClient, *names: str) -> list[int]:
                topics = [MetadataRequestTopic(name=name) for name in names]
                response = asking.ask("Metadata", 9, MetadataRequest(topics=topics, allow_auto_topic_creation=True))
                assert response.throttle_time_ms == 0
                return [topic.error_code for topic in response.topics]

            assert codes(client, "a", "b") == [0, 3]
            assert "b" not in broker.topics
            assert codes(client, "a", "b") == [0, 3]
            assert codes(other, "c", "d") == [0, 0]
            broker.clock.advance(seconds=3)
            assert codes(client, "b") == [0]


def test_partitions_above_the_quota_are_refused_or_make_the_client_wait() -> None:
    with kqueue.Broker(controller_quota_window_num=1) as broker:
        bound(broker, "app", controller_mutation_rate=2)
        with RawClient(broker, "app") as client:
            new = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=4, replication_factor=1)])
            response = client.ask("CreateTopics", 7, new)
            assert (response.throttle_time_ms, response.topics[0].error_code) == (0, 0)
            new.topics[0].name = "b"
            response = client.ask("CreateTopics", 7, new)
            assert response.topics[0].error_code == 89
            assert 500 < response.throttle_time_ms <= 1_000
            began = time.monotonic()
            response = client.ask("CreateTopics", 5, new)
            assert time.monotonic() - began > 0.4
            assert response.topics[0].error_code == 0
            assert response.throttle_time_ms > 1_000

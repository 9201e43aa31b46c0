"""Brokers that emulate a Kafka version: advertised APIs, refused requests, and stock clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import IncompatibleBrokerVersion

import kqueue
from kqueue.api import version_profiles
from kqueue.base.errors import SettingError
from kqueue.records.batch import iter_batches, iter_records
from kqueue.schema import decode, encode
from kqueue.tests.embedded.test_broker import ask
from kqueue.tests.network.harness import API, framed
from kqueue.tests.tables import for_each
from kqueue.wire.headers import read_response_header, request_header
from kqueue.wire.messages.api_versions import ApiVersionsResponse
from kqueue.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic

NAMED = {"client_software_name": "t", "client_software_version": "1"}
DETECTED = {"2.8": (2, 8), "3.9": (3, 9), "4.3": (4, 3)}


def exchange(bootstrap: str, request: bytes) -> bytes:
    """Return the response bytes to one request; empty if the connection is closed."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as sock, sock.makefile("rb") as stream:
        sock.sendall(framed(request))
        return stream.read(int.from_bytes(stream.read(4), "big"))


def plain(name: str, version: int) -> bytes:
    api = API[name]
    return request_header(api.key, version, 1, "t") + encode(api.request_class(), version)


@for_each("version", version_profiles.VERSIONS)
def test_broker_advertises_the_versions_of_the_profile(version: str) -> None:
    """Without those of clients' metrics, for which this broker has no receiver."""
    hidden = {API[name].key for name in version_profiles.WITH_RECEIVER}
    expected = [tuple(row) for row in version_profiles.VersionProfile(version).advertised if row.key not in hidden]
    with kqueue.Broker(as_version=version) as broker:
        for number in range(4):
            answer = ask(broker.bootstrap, "ApiVersions", number, **(NAMED if number >= 3 else {}))
            assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == expected


@for_each(
    "version, name, served, closed",
    [
        ("2.8", "Fetch", [0, 11], [13, 16]),  # topic ids came with 3.1
        ("2.8", "OffsetFetch", [1, 7], [8]),  # several groups at once came with 3.0
        ("2.8", "Metadata", [0, 11], [12]),
        ("3.9", "Produce", [0, 1, 11], [12, 13]),
        ("3.9", "ListOffsets", [0, 9], [10]),
        ("4.3", "Produce", [3, 13], [0, 1, 2]),  # KIP-896, although it advertises them
        ("4.3", "Fetch", [4, 17], [0, 3]),
        ("4.3", "ListOffsets", [1, 11], [0]),
    ],
)
def test_unsupported_version_closes_the_connection(
    version: str, name: str, served: list[int], closed: list[int]
) -> None:
    with kqueue.Broker(as_version=version) as broker:
        for number in served:
            assert exchange(broker.bootstrap, plain(name, number) if name != "Produce" else produce_nothing(number)), (
                number
            )
        for number in closed:
            assert (
                exchange(broker.bootstrap, plain(name, number) if name != "Produce" else produce_nothing(number)) == b""
            ), number


def produce_nothing(version: int) -> bytes:
    api = API["Produce"]
    return request_header(api.key, version, 1, "t") + encode(api.request_class(acks=1, timeout_ms=1000), version)


def test_2_8_answers_a_newer_api_versions_as_2_8_does() -> None:
    with kqueue.Broker(as_version="2.8") as broker:
        frame = memoryview(
            exchange(
                broker.bootstrap, request_header(18, 4, 1, "t") + encode(API["ApiVersions"].request_class(**NAMED), 4)
            )
        )
        _, position = read_response_header(frame, 18, 0)
        assert (
            bytes(frame[position:]).hex() == "0023" + "00000001" + "0012" + "0000" + "0003"
        )  # as recorded from Kafka 2.8.2
        assert decode(ApiVersionsResponse, 0, frame[position:]).error_code == 35


def produce_and_consume(bootstrap: str) -> tuple[int, ...]:
    """Produce and consume through kafka-python; return the broker version it detects."""
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        producer.send("orders", b"two coffees", key=b"k").get(timeout=60)
        version = tuple(producer.config["api_version"])
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    assert next(consumer).value == b"two coffees"
    consumer.commit()
    consumer.close()
    return version


@for_each("version", version_profiles.VERSIONS)
def test_kafka_python_detects_the_emulated_version(version: str) -> None:
    with kqueue.Broker(as_version=version) as broker:
        assert produce_and_consume(broker.bootstrap) == DETECTED[version]
        assert broker.groups["g"].offsets == {"orders": {0: 1}}


@for_each("version", version_profiles.VERSIONS)
def test_aiokafka_works_with_it(version: str) -> None:
    async def through(bootstrap: str) -> bytes | None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("orders", b"two coffees")
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            value: bytes | None = (await consumer.getone()).value
            await consumer.commit()
        return value

    async def test() -> None:
        async with asyncio.timeout(60):
            async with kqueue.Broker(as_version=version) as broker:
                assert await through(broker.bootstrap) == b"two coffees"
                assert broker.groups["g"].offsets == {"orders": {0: 1}}

    asyncio.run(test())


@pytest.mark.parametrize(("version", "offset", "transaction"), [("2.8", 3, 0), ("3.9", 3, 0), ("4.3", 4, 1)])
def test_records_of_internal_topics_have_the_versions_of_the_profile(
    tmp_path: Path, version: str, offset: int, transaction: int
) -> None:
    with kqueue.Broker(tmp_path, as_version=version, offsets_topic_num_partitions=1) as broker:
        broker.create_topic("t")
        ids = ask(broker.bootstrap, "InitProducerId", 1, transactional_id="tx", transaction_timeout_ms=60_000)
        assert ids.error_code == 0
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        committed = ask(broker.bootstrap, "OffsetCommit", 5, group_id="g", topics=topics)
        assert committed.topics[0].partitions[0].error_code == 0
    assert value_versions(tmp_path, "__consumer_offsets") == {offset}
    assert value_versions(tmp_path, "__transaction_state") == {transaction}
    with kqueue.Broker(tmp_path) as broker:
        assert broker.groups["g"].offsets == {"t": {0: 3}}


def value_versions(data_dir: Path, topic: str) -> set[int]:
    values = [
        record.value
        for data in [file.read_bytes() for file in data_dir.glob(f"{topic}-*/*.log")]
        for position, _ in iter_batches(data)
        for record in iter_records(data, position)
    ]
    return {int.from_bytes(value[:2], "big") for value in values if value is not None}


def test_client_that_needs_more_than_2_8_is_refused() -> None:
    """Listing groups of one type needs Kafka 3.8."""
    refused = pytest.raises(IncompatibleBrokerVersion, match=r"broker \[0-4\]")
    with kqueue.Broker(as_version="2.8") as broker, admin(broker) as client, refused:
        client.list_groups(types_filter=["classic"])
    with kqueue.Broker(as_version="3.9") as broker, admin(broker) as client:
        assert client.list_groups(types_filter=["classic"]) == []


@contextmanager
def admin(broker: kqueue.Broker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        yield client
    finally:
        client.close()


def test_unknown_version_is_refused_with_the_known_ones() -> None:
    for unknown in ("2.7", "4", ""):
        with pytest.raises(SettingError, match=r"kqueue\.as\.version.*one of 2\.8, 3\.9, 4\.3"):
            kqueue.Broker(as_version=unknown)
    with pytest.raises(SettingError, match="given twice"):
        kqueue.Broker(as_version="2.8", settings={"kqueue.as.version": "3.9"})

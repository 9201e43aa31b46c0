"""MirrorMaker 2 of Kafka 4.3 copies topics between Apache Kafka and kqueue, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

import kqueue
from compat_tests.frameworks import jvm
from compat_tests.frameworks.connect import write_properties
from compat_tests.frameworks.running import Program
from compat_tests.kafka import jvm as kafka_jvm
from compat_tests.kafka.node import Kafka
from compat_tests.waits import HangLimit

RECORDS = 300
PARTITIONS = 2
GROUP = "readers"
Pairs = list[tuple[bytes, bytes]]


@pytest.fixture
def apache(tmp_path: Path) -> Iterator[Kafka]:
    if reason := jvm.missing() or kafka_jvm.missing():
        pytest.skip(f"skipped, because {reason}")
    node = Kafka(tmp_path / "kafka")
    node.format()
    with node:
        yield node


def settings(apache: str, ours: str) -> dict[str, object]:
    own: dict[str, object] = {
        "clusters": "apache,kqueue",
        "apache.bootstrap.servers": apache,
        "kqueue.bootstrap.servers": ours,
        "apache->kqueue.enabled": "true",
        "apache->kqueue.topics": "orders",
        "kqueue->apache.enabled": "true",
        "kqueue->apache.topics": "payments",
        "replication.factor": 1,
        "refresh.topics.interval.seconds": 2,
        "sync.topic.configs.interval.seconds": 2,
        "emit.heartbeats.interval.seconds": 1,
        "emit.checkpoints.interval.seconds": 1,
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": 1,
        "offset.flush.interval.ms": 500,
        "offset.storage.partitions": 2,
        "status.storage.partitions": 2,
    }
    for name in ("config.storage", "offset.storage", "status.storage", "offset-syncs.topic", "heartbeats.topic"):
        own[f"{name}.replication.factor"] = 1
    own["checkpoints.topic.replication.factor"] = 1
    return own


def pairs(first: int, kind: str) -> Pairs:
    return [(f"k{number}".encode(), f"{kind} {number}".encode()) for number in range(first, first + RECORDS)]


def send(bootstrap: str, topic: str, records: Pairs) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for key, value in records:
            producer.send(topic, value, key)
        producer.flush()


def read(bootstrap: str, topic: str) -> Pairs:
    """Return the records of a topic; none: there is no such topic."""
    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        known = [TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic) or ()]
        if not known:
            return []
        consumer.assign(known)
        ends = consumer.end_offsets(known)
        records: Pairs = []
        limit = HangLimit(f"all records of {topic}: {ends}")
        while any(consumer.position(one) < ends[one] for one in known):
            limit.check(len(records))
            for batch in consumer.poll(timeout_ms=2000).values():
                records += [(one.key, one.value) for one in batch]
        return records


def commit_all(bootstrap: str, topic: str) -> None:
    """Read the RECORDS records of a topic as GROUP, and commit."""
    with KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=GROUP, auto_offset_reset="earliest") as consumer:
        count = 0
        limit = HangLimit(f"{RECORDS} records of {topic}")
        while count < RECORDS:
            limit.check(count)
            count += sum(map(len, consumer.poll(timeout_ms=2000).values()))
        consumer.commit()


def test_topics_are_copied_both_ways_over_a_crash(apache: Kafka, broker: kqueue.Broker, tmp_path: Path) -> None:
    with KafkaAdminClient(bootstrap_servers=apache.bootstrap) as admin:
        compacted = {"cleanup.policy": "compact"}
        admin.create_topics([NewTopic("orders", PARTITIONS, 1, topic_configs=compacted)])
    broker.create_topic("payments", PARTITIONS)
    orders, payments = pairs(0, "order"), pairs(0, "payment")
    send(apache.bootstrap, "orders", orders)
    send(broker.bootstrap, "payments", payments)
    commit_all(apache.bootstrap, "orders")
    folder = tmp_path / "app"
    folder.mkdir()
    properties = write_properties(folder / "mirror.properties", settings(apache.bootstrap, broker.bootstrap))

    def ours() -> Pairs:
        topics = broker.topics
        return [(one.key, one.value) for one in topics["apache.orders"].records()] if "apache.orders" in topics else []

    def theirs() -> Pairs:
        return read(apache.bootstrap, "kqueue.payments")

    def translated() -> dict[int, int]:
        offsets = broker.groups[GROUP].offsets if GROUP in broker.groups else {}
        return dict(offsets.get("apache.orders", {}))

    def are_complete() -> bool:
        return set(ours()) == set(orders) and set(theirs()) == set(payments)

    with Program(jvm.command("org.apache.kafka.connect.mirror.MirrorMaker", properties), folder) as program:
        program.wait_until(are_complete, "a copy of the first records")
        orders += pairs(RECORDS, "order")
        send(apache.bootstrap, "orders", orders[RECORDS:])
        program.crash()
        payments += pairs(RECORDS, "payment")
        send(broker.bootstrap, "payments", payments[RECORDS:])
        program.wait_until(are_complete, "a copy of all records")
        program.wait_until(lambda: sum(translated().values()) > 0, "the group's offsets")
    copied = broker.topics["apache.orders"]
    assert copied.partitions == PARTITIONS
    assert copied.config["cleanup.policy"] == ["compact"]
    # a crash repeats records in the copy; the group may read some again, and must not miss any
    offsets = translated()
    unread = [(one.key, one.value) for one in copied.records() if one.offset >= offsets.get(one.partition, 0)]
    assert set(unread) >= set(orders[RECORDS:])

"""The clients' admin APIs: topics, partitions, configs, groups and the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import (
    ADMIN_CONFIGS,
    ADMIN_DELETE_GROUPS,
    ADMIN_DELETE_RECORDS,
    ADMIN_GROUPS,
    ADMIN_LOG_DIRS,
    ADMIN_PARTITIONS,
    ALL_RECORDS,
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC,
    NON_EMPTY_GROUP,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    GroupDescription,
    Place,
    RecordMetadata,
)
from compat_tests.clients.brokers import RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.scenario_helpers import collect, nothing_more, numbered, send_all
from compat_tests.report import FEATURE
from compat_tests.waits import eventually
from kqueue.base.addresses import parse_addresses

Topic = Callable[..., str]
Name = Callable[[str], str]
Needs = Callable[[str], None]
Serves = Callable[[int], None]
DELETE_RECORDS, ALTER_CONFIGS, DESCRIBE_LOG_DIRS, INCREMENTAL_ALTER_CONFIGS = 21, 33, 35, 44


def test_topic_create_describe_delete(connect: ClientFactory, broker: RunningBroker, name: Name) -> None:
    admin = connect.admin(broker.bootstrap)
    chosen = name("topic")
    assert chosen not in admin.topics()
    admin.create_topic(chosen, 3)
    eventually(lambda: chosen in admin.topics(), "the new topic is listed")
    leaders = admin.describe_topic(chosen)
    assert set(leaders) == {0, 1, 2}
    assert len(set(leaders.values())) == broker.members
    producer = connect.producer(broker.bootstrap)
    assert producer.send(chosen, b"value", partition=2).result() == RecordMetadata(2, 0)
    producer.close()  # otherwise their metadata requests may recreate the topic
    admin.delete_topic(chosen)
    eventually(lambda: chosen not in admin.topics(), "the deleted topic is gone")


def test_topic_can_be_recreated(connect: ClientFactory, broker: RunningBroker, name: Name) -> None:
    admin = connect.admin(broker.bootstrap)
    chosen = name("topic")
    for round_number in range(2):
        admin.create_topic(chosen)
        eventually(lambda: chosen in admin.topics(), "the new topic is listed")
        producer = connect.producer(broker.bootstrap)
        values = numbered(5 + round_number, f"round-{round_number}")
        send_all(producer, chosen, values)
        consumer = connect.consumer(broker.bootstrap, assign=[Place(chosen, 0)])
        records = collect(consumer, len(values))
        assert [(record.offset, record.value) for record in records] == list(enumerate(values))
        producer.close()  # otherwise their metadata requests may recreate the topic
        consumer.close()
        admin.delete_topic(chosen)
        eventually(lambda: chosen not in admin.topics(), "the deleted topic is gone")


def test_invalid_topic_creations_are_rejected(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    admin = connect.admin(broker.bootstrap)
    taken = topic()
    collides = name("a.b")
    admin.create_topic(collides)
    for chosen, code, options in (
        (taken, TOPIC_ALREADY_EXISTS, {}),
        (collides.replace("a.b", "a_b"), INVALID_TOPIC, {}),
        (name("no/slash"), INVALID_TOPIC, {}),
        ("x" * 250, INVALID_TOPIC, {}),
        ("..", INVALID_TOPIC, {}),
        (name("topic"), INVALID_REPLICATION_FACTOR, {"replicas": broker.members + 1}),
        (name("topic"), INVALID_PARTITIONS, {"partitions": 0}),
        (name("topic"), INVALID_CONFIG, {"settings": {"no.such.setting": "1"}}),
        (name("topic"), INVALID_CONFIG, {"settings": {"retention.ms": "soon"}}),
    ):
        with pytest.raises(BrokerError) as refusal:
            admin.create_topic(chosen, **options)
        assert refusal.value.code == code, f"{chosen} {options}: {refusal.value}"


def test_deleting_unknown_topic_fails(connect: ClientFactory, broker: RunningBroker, name: Name) -> None:
    with pytest.raises(BrokerError) as refusal:
        connect.admin(broker.bootstrap).delete_topic(name("nobody"))
    assert refusal.value.code == UNKNOWN_TOPIC_OR_PARTITION


def test_describe_cluster(connect: ClientFactory, broker: RunningBroker) -> None:
    assert sorted(connect.admin(broker.bootstrap).brokers()) == sorted(parse_addresses(broker.bootstrap))


def test_add_partitions(connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Needs) -> None:
    needs(ADMIN_PARTITIONS)
    admin = connect.admin(broker.bootstrap)
    chosen = topic(partitions=2)
    producer = connect.producer(broker.bootstrap)
    assert producer.send(chosen, b"old", partition=1).result() == RecordMetadata(1, 0)
    admin.add_partitions(chosen, 4)
    eventually(lambda: set(admin.describe_topic(chosen)) == {0, 1, 2, 3}, "four partitions")
    fresh = connect.producer(broker.bootstrap)
    assert fresh.send(chosen, b"new", partition=3).result() == RecordMetadata(3, 0)
    assert fresh.send(chosen, b"more", partition=1).result() == RecordMetadata(1, 1)
    for count in (4, 3):
        with pytest.raises(BrokerError) as refusal:
            admin.add_partitions(chosen, count)
        assert refusal.value.code == INVALID_PARTITIONS


def test_topic_configs_are_described(connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Needs) -> None:
    needs(ADMIN_CONFIGS)
    settings = connect.admin(broker.bootstrap).topic_settings(
        topic(**{"retention.ms": "3600000", "cleanup.policy": "compact"})
    )
    assert settings["retention.ms"] == "3600000"
    assert settings["cleanup.policy"] == "compact"
    assert settings["segment.bytes"] == str(2**30)


def test_topic_configs_are_altered(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Needs, serves: Serves
) -> None:
    needs(ADMIN_CONFIGS)
    serves(ALTER_CONFIGS)
    serves(INCREMENTAL_ALTER_CONFIGS)
    admin = connect.admin(broker.bootstrap)
    chosen = topic(**{"retention.ms": "3600000", "cleanup.policy": "compact"})
    admin.alter_topic(chosen, {"retention.ms": "7200000", "max.message.bytes": "2000"})
    eventually(lambda: admin.topic_settings(chosen)["retention.ms"] == "7200000", "the new retention time")
    assert admin.topic_settings(chosen)["max.message.bytes"] == "2000"
    with pytest.raises(BrokerError):
        connect.producer(broker.bootstrap).send(chosen, bytes(3_000), key=b"key").result()
    with pytest.raises(BrokerError) as refusal:
        admin.alter_topic(chosen, {"retention.ms": "soon"})
    assert refusal.value.code == INVALID_CONFIG
    assert admin.topic_settings(chosen)["retention.ms"] == "7200000"


def test_groups_are_listed_described_and_deleted(
    connect: ClientFactory,
    broker: RunningBroker,
    topic: Topic,
    name: Name,
    needs: Needs,
    record_property: Callable[[str, object], None],
) -> None:
    needs(ADMIN_GROUPS)
    admin = connect.admin(broker.bootstrap)
    chosen, group = topic(), name("group")
    consumer = connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms)
    send_all(connect.producer(broker.bootstrap), chosen, numbered(3))
    collect(consumer, 3)
    consumer.commit()
    assert group in admin.groups()
    assert admin.describe_group(group) == GroupDescription("Stable", 1)
    if ADMIN_DELETE_GROUPS in connect.client.features:
        with pytest.raises(BrokerError) as refusal:
            admin.delete_group(group)
        assert refusal.value.code == NON_EMPTY_GROUP
    consumer.close()
    eventually(lambda: admin.describe_group(group) == GroupDescription("Empty", 0), "the group is empty")
    if ADMIN_DELETE_GROUPS in connect.client.features:
        record_property(FEATURE, ADMIN_DELETE_GROUPS)
        admin.delete_group(group)
        assert group not in admin.groups()
        assert connect.consumer(broker.bootstrap, group=group).committed(Place(chosen, 0)) is None


def test_delete_records_before_offset(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Needs, serves: Serves
) -> None:
    needs(ADMIN_DELETE_RECORDS)
    serves(DELETE_RECORDS)
    place = Place(topic(), 0)
    send_all(connect.producer(broker.bootstrap), place.topic, numbered(20))
    connect.admin(broker.bootstrap).delete_records(place, 15)
    consumer = connect.consumer(broker.bootstrap, assign=[place])
    assert consumer.beginning_offset(place) == 15
    records = collect(consumer, 5)
    assert [record.offset for record in records] == list(range(15, 20))
    nothing_more(consumer)


def test_delete_all_records(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Needs, serves: Serves
) -> None:
    needs(ADMIN_DELETE_RECORDS)
    serves(DELETE_RECORDS)
    place = Place(topic(), 0)
    producer, admin = connect.producer(broker.bootstrap), connect.admin(broker.bootstrap)
    send_all(producer, place.topic, numbered(3))
    admin.delete_records(place, ALL_RECORDS)
    consumer = connect.consumer(broker.bootstrap, assign=[place])
    assert (consumer.beginning_offset(place), consumer.end_offset(place)) == (3, 3)
    send_all(producer, place.topic, [b"new"])
    assert [(record.offset, record.value) for record in collect(consumer, 1)] == [(3, b"new")]


def test_consumer_resets_offset_after_record_deletion(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Needs, serves: Serves
) -> None:
    needs(ADMIN_DELETE_RECORDS)
    serves(DELETE_RECORDS)
    place = Place(topic(), 0)
    send_all(connect.producer(broker.bootstrap), place.topic, numbered(20))
    consumer = connect.consumer(broker.bootstrap, assign=[place], reset="earliest")
    connect.admin(broker.bootstrap).delete_records(place, 15)
    consumer.seek(place, 3)
    assert [record.offset for record in collect(consumer, 5)] == list(range(15, 20))


def test_invalid_record_deletions_are_rejected(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Needs, serves: Serves
) -> None:
    needs(ADMIN_DELETE_RECORDS)
    serves(DELETE_RECORDS)
    admin = connect.admin(broker.bootstrap)
    for place, offset, code in (
        (Place(topic(), 0), 1, OFFSET_OUT_OF_RANGE),
        (Place(topic(**{"cleanup.policy": "compact"}), 0), 0, POLICY_VIOLATION),
    ):
        with pytest.raises(BrokerError) as refusal:
            admin.delete_records(place, offset)
        assert refusal.value.code == code, f"{place}: {refusal.value}"


def test_describe_log_dirs(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Needs, serves: Serves
) -> None:
    needs(ADMIN_LOG_DIRS)
    serves(DESCRIBE_LOG_DIRS)
    chosen = topic(partitions=2)
    send_all(connect.producer(broker.bootstrap), chosen, [b"x" * 1000], partition=1)
    folders = connect.admin(broker.bootstrap).log_dirs()
    sizes = {place: size for folder in folders for place, size in folder.items() if place.topic == chosen}
    assert sizes[Place(chosen, 0)] == 0
    assert 1000 < sizes[Place(chosen, 1)] < 1200


def test_produce_to_invalid_topic_name_fails(connect: ClientFactory, broker: RunningBroker) -> None:
    """The broker rejects the name, because not every client validates it.

    No client may wait indefinitely for such a topic.
    """
    with pytest.raises(BrokerError) as refusal:
        protocol_client.create_topic(broker.bootstrap, "not a name")
    assert refusal.value.code == INVALID_TOPIC

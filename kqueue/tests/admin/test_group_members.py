from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer

import kqueue
from kqueue.admin.group_members import assigned_partitions, describe_group
from kqueue.client import ClassicGroup, ClassicMember, Client, GroupMember, TopicPartition
from kqueue.groups.log.schemas import VERSION, ConsumerProtocolAssignment, TopicPartitions
from kqueue.schema import encode
from kqueue.tests.tables import for_each


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("orders", 2)
        yield broker


def test_a_classic_group_has_the_partitions_of_its_members(broker: kqueue.Broker) -> None:
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap, group_id="billing", client_id="one", enable_auto_commit=False
    )
    while not consumer.assignment():
        consumer.poll(1000)
    with Client(broker.bootstrap) as client:
        group = describe_group(client, "billing", "classic")
    consumer.close(autocommit=False)
    assert (group.state, group.type, group.epoch) == ("Stable", "classic", None)
    assert group.assignor
    (member,) = group.members
    assert member.client_id == "one"
    assert member.assigned == (TopicPartition("orders", 0), TopicPartition("orders", 1))


def test_members_that_are_no_consumers_have_no_partitions() -> None:
    assignment = VERSION.pack(0) + encode(ConsumerProtocolAssignment(assigned_partitions=[]), 0)
    member = ClassicMember("m", "c", "/h", None, assignment)

    class Connect:
        def describe_classic_group(self, name: str, *, timeout_ms: int | None) -> ClassicGroup:
            return ClassicGroup(name, "Stable", "connect", "sessioned", (member,))

    client: Any = Connect()
    group = describe_group(client, "connect-cluster", "classic")
    assert group.members == (GroupMember("m", "c", "/h"),)
    assert group.assignor == "sessioned"


def test_a_group_that_does_not_exist_is_dead(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client:
        assert describe_group(client, "none", "").state == "Dead"


def test_an_assignment_of_a_later_version_is_read() -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="t", partitions=[3, 1])])
    assert assigned_partitions(VERSION.pack(3) + encode(assignment, 3)) == (("t", 1), ("t", 3))


@for_each("data", [b"", b"\0", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\1"])
def test_an_assignment_that_can_not_be_decoded_is_empty(data: bytes) -> None:
    assert assigned_partitions(data) == ()

from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidReplicationFactor
from kqueue.broker.topics.topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each


@for_each("name, min_isr", [(OFFSETS_TOPIC, 1), (TRANSACTIONS_TOPIC, 2), (SHARE_TOPIC, 2)])
def test_internal_topics_of_a_cluster_have_their_own_factor_and_minimum(name: str, min_isr: int) -> None:
    members = Members(3)
    topic = members.result(members[2].broker.topics.create_on_demand(name))
    assert {len(partition.replicas) for partition in topic.partitions} == {3}
    assert topic.config["min.insync.replicas"] == min_isr


def test_coordinator_topic_needs_enough_brokers() -> None:
    members = Members(2)
    with pytest.raises(InvalidReplicationFactor, match="3"):
        members[1].broker.topics.create_on_demand(OFFSETS_TOPIC)
    smaller = Members(2, {"offsets.topic.replication.factor": 1})
    topic = smaller.result(smaller[1].broker.topics.create_on_demand(OFFSETS_TOPIC))
    assert {len(partition.replicas) for partition in topic.partitions} == {1}

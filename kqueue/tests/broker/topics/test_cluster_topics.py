"""Topics of a cluster: every broker follows their records, whoever commits them."""

from __future__ import annotations

import json
import logging

import pytest

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.base.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.topics.topics import NewTopic
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import fetch
from kqueue.tests.tables import for_each


def test_all_brokers_have_a_topic_that_one_creates_and_those_with_replicas_its_folders() -> None:
    members = Members(3)
    new = NewTopic("t", assignments={0: [2, 3], 1: [3, 1]}, configs={"retention.ms": "5000"})
    topic = members.result(members[1].broker.topics.create(new))
    for sim in members.sims.values():
        seen = sim.broker.topics.get("t")
        assert (seen.id, seen.config["retention.ms"]) == (topic.id, 5000)
        assert [partition.registration for partition in seen.partitions] == [
            PartitionRegistration((2, 3), (2, 3), 2), PartitionRegistration((3, 1), (3, 1), 3),
        ]  # fmt: skip
    folders = {node: [sim.storage.exists(f"t-{index}") for index in (0, 1)] for node, sim in members.sims.items()}
    assert folders == {1: [False, True], 2: [True, False], 3: [True, True]}


def test_replicas_are_placed_by_the_factor_of_the_request_or_of_the_broker() -> None:
    members = Members(3, {"default.replication.factor": 2})
    topics = members[1].broker.topics
    members.result(topics.create(NewTopic("asked", 6, 3)))
    members.result(topics.create(NewTopic("default", 6)))
    for name, factor in (("asked", 3), ("default", 2)):
        partitions = members.registration(name).partitions
        assert {len(set(partition.replicas)) for partition in partitions} == {factor}
        assert {partition.leader for partition in partitions} == {1, 2, 3}, "leaders are spread"


def test_a_topic_that_is_created_anew_has_leader_epochs_above_those_of_the_former() -> None:
    members = Members(3)
    new = NewTopic("t", assignments={0: [1, 2], 1: [2, 3]})
    members.result(members[1].broker.topics.create(new))
    members.write(lambda old: old._replace(leader=2, leader_epoch=5))
    members.settle()
    members.result(members[2].broker.topics.delete("t"))
    members.settle()
    for node in (3, 1):  # whichever creates it
        topic = members.result(members[node].broker.topics.create(new))
        epochs = [partition.registration.leader_epoch for partition in topic.partitions]
        assert epochs == [6, 6] if node == 3 else epochs == [7, 7]
        members.result(members[node].broker.topics.delete("t"))
        members.settle()
    other = members.result(members[1].broker.topics.create(NewTopic("u", 1)))
    assert other.partitions[0].registration.leader_epoch == 0


@for_each(
    "new, error, message",
    [
        (NewTopic("t", 1, 4), InvalidReplicationFactor, "4.*3 broker"),
        (NewTopic("t", 1, 0), InvalidReplicationFactor, "0"),
        (NewTopic("t", assignments={0: [1, 9]}), InvalidReplicaAssignment, "broker 9 is not registered"),
        (NewTopic("t", assignments={0: [1, 2], 1: [1]}), InvalidReplicaAssignment, "others of the topic have 2"),
    ],
)
def test_replicas_that_can_not_be_are_refused(new: NewTopic, error: type[Exception], message: str) -> None:
    members = Members(3)
    with pytest.raises(error, match=message):
        members[1].broker.topics.create(new)


def test_topic_created_at_two_brokers_exists_already_for_one() -> None:
    members = Members(2)
    first = members[1].broker.topics.create(NewTopic("t", 1))
    second = members[2].broker.topics.create(NewTopic("t", 2))
    members.settle()
    assert len(first.result().partitions) == 1
    with pytest.raises(TopicAlreadyExists):
        second.result()
    assert len(members[2].broker.topics.get("t").partitions) == 1


def test_partitions_are_added_beside_a_change_of_the_record_by_another_broker() -> None:
    members = Members(3)
    members.result(members[1].broker.topics.create(NewTopic("t", 1, 2)))
    grown = members[2].broker.topics.add_partitions("t", 3)
    members.store.commit(
        {}, {"/topics/t": members.registration()._replace(configs={"retention.ms": "7"}).to_bytes()}, []
    )
    assert len(members.result(grown).partitions) == 3
    for sim in members.sims.values():
        topic = sim.broker.topics.get("t")
        assert [len(partition.replicas) for partition in topic.partitions] == [2, 2, 2]
        assert topic.config["retention.ms"] == 7
    with pytest.raises(InvalidReplicaAssignment, match="others of the topic have 2"):
        members[1].broker.topics.add_partitions("t", 4, [[1]])
    with pytest.raises(InvalidPartitions):
        members[1].broker.topics.add_partitions("t", 3)


def test_a_deleted_topic_goes_everywhere_and_from_a_broker_that_was_down_at_its_start() -> None:
    members = Members(3)
    members.result(members[1].broker.topics.create(NewTopic("t", 1, 3)))
    down = members.sims.pop(3)
    down.stop()
    members.result(members[2].broker.topics.delete("t"))
    for node in (1, 2):
        assert members[node].broker.topics.names() == []
        assert not members[node].storage.exists("t-0")
    (entry,) = members.store.read("/deleted_topics/").values()
    assert json.loads(entry.value) == {"name": "t", "nodes": [3]}
    assert down.storage.exists("t-0")
    members.start(3)
    members.settle()
    assert not down.storage.exists("t-0")
    assert members.store.read("/deleted_topics/") == {}


def test_a_topic_made_anew_while_a_broker_was_down_starts_without_the_old_records() -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [2]})))
    append(members.partition(2), b"old")
    members.settle()
    members.sims.pop(2).stop()
    members.result(members[1].broker.topics.delete("t"))
    created = members[1].broker.topics.create(NewTopic("t", assignments={0: [2]}))
    members.start(2)
    members.result(created)
    assert members.partition(2).log_end_offset == 0


def test_settings_reach_all_brokers() -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t")))
    change = [ConfigChange(ConfigOperation.SET, "retention.ms", "9")]
    members.result(members[2].broker.configs.alter(ConfigResource(ResourceType.TOPIC, "t"), change))
    group = [ConfigChange(ConfigOperation.SET, "consumer.session.timeout.ms", "46000")]
    members.result(members[1].broker.configs.alter(ConfigResource(ResourceType.GROUP, "g"), group))
    members.result(
        members[1].broker.configs.alter(
            ConfigResource(ResourceType.BROKER, ""),
            [ConfigChange(ConfigOperation.SET, "log.retention.ms", "123456")],
        )
    )
    for sim in members.sims.values():
        assert sim.broker.topics.get("t").config["retention.ms"] == 9
        assert sim.broker.configs.groups.set_values("g") == {"consumer.session.timeout.ms": 46000}
        assert sim.broker.config["log.retention.ms"] == 123456


def test_a_setting_that_one_broker_does_not_know_leaves_its_topic_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    members = Members(1)
    members.result(members[1].broker.topics.create(NewTopic("t")))
    strange = members.registration()._replace(configs={"of.a.plugin": "1"})
    with caplog.at_level(logging.ERROR):
        members.store.commit({}, {"/topics/t": strange.to_bytes()}, [])
        members.settle()
    assert "topic t stays as it was: topic t was made with a setting that can't be used now" in caplog.text
    assert members[1].broker.topics.names() == ["t"]


def test_partitions_that_went_to_another_broker_lose_their_folder_at_the_start() -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [2], 1: [2]})))
    members.sims.pop(2).stop()
    members.write(lambda old: old._replace(replicas=(1,), isr=(1,), leader=1, leader_epoch=1))
    sim = members.start(2)
    members.settle()
    assert [sim.storage.exists(f"t-{index}") for index in (0, 1)] == [False, True]


def test_a_topic_deleted_while_its_partitions_are_added_is_reported_as_gone() -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t")))
    deleted = members[1].broker.topics.delete("t")
    grown = members[2].broker.topics.add_partitions("t", 2)
    members.result(deleted)
    with pytest.raises(UnknownTopicOrPartition):
        grown.result()


@for_each("minimum, eligible", [("1", ()), ("2", (2,))])
def test_an_in_sync_set_that_commits_alone_leaves_nobody_else_eligible(minimum: str, eligible: tuple[int, ...]) -> None:
    members = Members(2)
    topics = members[1].broker.topics
    members.result(topics.create(NewTopic("t", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"})))
    members.write(lambda partition: partition._replace(isr=(1,), elr=(2,)))
    resource = ConfigResource(ResourceType.TOPIC, "t")
    change = ConfigChange(ConfigOperation.SET, "min.insync.replicas", minimum)
    members.result(members[2].broker.configs.alter(resource, [change]))
    assert members.registration().configs["min.insync.replicas"] == minimum
    assert members.registration().partitions[0].elr == eligible
    assert members.partition(1).registration.elr == members.partition(2).registration.elr == eligible


def test_a_record_that_names_a_node_without_a_replica_in_sync_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    members = Members(2)
    for name in ("t", "u"):
        members.result(members[1].broker.topics.create(NewTopic(name, assignments={0: [1, 2]})))
    before = members.partition(1).registration
    registration = members.registration("u")
    later = registration._replace(partitions=(registration.partitions[0]._replace(isr=(1,), partition_epoch=1),))
    damaged = members.registration("t")
    damaged = damaged._replace(partitions=(before._replace(isr=(1, 2, 3), partition_epoch=1),))
    with caplog.at_level(logging.ERROR):
        members.store.commit({}, {"/topics/t": damaged.to_bytes(), "/topics/u": later.to_bytes()}, [])
        members.settle()
    assert [line for line in caplog.messages if line.startswith("topic t stays as it was: ")][:1]
    assert members.partition(1).registration == before
    assert members.partition(1, "u").isr == (1,), "others are taken over"
    append(members.partition(1), b"a")
    fetch(members, 2)

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.base.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    RequestRefused,
    StorageFailed,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import OFFSETS_TOPIC, NewTopic, Topic, TopicEvents, Topics
from kqueue.metadata.memory import MemoryStore
from kqueue.testing.simulation import Simulation
from kqueue.tests.tables import for_each


def test_a_created_topic_is_found_by_name_and_id_and_outlives_a_restart() -> None:
    sim = Simulation()
    topic = sim.topic("orders", 3, retention_ms="1000")
    assert [partition.index for partition in topic.partitions] == [0, 1, 2]
    assert sim.broker.topics.by_id(topic.id) is topic
    assert sim.storage.exists("orders-2"), "S3.1: one folder per partition"
    sim.stop()
    again = sim.restarted().broker.topics.get("orders")
    assert (again.id, len(again.partitions), again.config["retention.ms"]) == (topic.id, 3, 1000)


def test_the_broker_gives_what_a_request_leaves_open() -> None:
    sim = Simulation({"num.partitions": 5})
    assert len(sim.result(sim.broker.topics.create(NewTopic("orders"))).partitions) == 5


@for_each(
    "new, error",
    [
        (NewTopic(".."), InvalidTopic),
        (NewTopic("a/b"), InvalidTopic),
        (NewTopic("a" * 250), InvalidTopic),
        (NewTopic("there"), TopicAlreadyExists),
        (NewTopic("dotted_name"), InvalidTopic),
        (NewTopic("__consumer_offsets"), InvalidTopic),
        (NewTopic("new", 0), InvalidPartitions),
        (NewTopic("new", -2), InvalidPartitions),
        (NewTopic("new", 2**31 - 1), PolicyViolation),
        (NewTopic("new", 1, 2), InvalidReplicationFactor),
        (NewTopic("new", 1, 0), InvalidReplicationFactor),
        (NewTopic("new", assignments={0: [7]}), InvalidReplicaAssignment),
        (NewTopic("new", assignments={0: [1, 1]}), InvalidReplicaAssignment),
        (NewTopic("new", assignments={1: [1]}), InvalidReplicaAssignment),
        (NewTopic("new", 1, assignments={0: [1]}), InvalidRequest),
        (NewTopic("new", configs={"retention.ms": "x"}), InvalidConfig),
        (NewTopic("new", configs={"retention.mss": "1"}), InvalidConfig),
        (NewTopic("new", configs={"retention.ms": None}), InvalidConfig),
    ],
)
def test_invalid_topic_is_refused_and_leaves_nothing(new: NewTopic, error: type[RequestRefused]) -> None:
    sim = Simulation()
    sim.topic("there")
    sim.topic("dotted.name")
    with pytest.raises(error):
        sim.broker.topics.create(new)
    sim.settle()
    assert sim.broker.topics.names() == ["dotted.name", "there"]


def test_a_topic_under_way_is_joined_by_those_who_need_it_and_refused_to_those_who_create_it() -> None:
    sim = Simulation()
    first = sim.broker.topics.create_on_demand("orders")
    assert sim.broker.topics.create_on_demand("orders") is first
    with pytest.raises(TopicAlreadyExists):
        sim.broker.topics.create(NewTopic("orders"))
    with pytest.raises(UnknownTopicOrPartition):
        sim.broker.topics.get("orders")
    assert sim.result(first) is sim.broker.topics.get("orders")


def test_a_deleted_topic_loses_its_folders_and_can_be_created_again() -> None:
    sim = Simulation()
    topic = sim.topic("orders", 2)
    sim.result(sim.broker.topics.delete("orders"))
    with pytest.raises(UnknownTopicOrPartition):
        sim.broker.topics.get("orders")
    with pytest.raises(UnknownTopicId):
        sim.broker.topics.by_id(topic.id)
    sim.advance(120_000)
    assert not [entry.name for entry in sim.storage.list("") if entry.name.startswith("orders")]
    assert sim.topic("orders").id != topic.id


def test_deletion_is_refused_for_internal_topics_and_where_it_is_switched_off() -> None:
    sim = Simulation({"delete.topic.enable": False})
    sim.topic("orders")
    with pytest.raises(TopicDeletionDisabled):
        sim.broker.topics.delete("orders")
    sim.result(sim.broker.topics.create_on_demand(OFFSETS_TOPIC))
    with pytest.raises(InvalidTopic):
        sim.broker.topics.delete(OFFSETS_TOPIC)


def test_partitions_only_grow() -> None:
    sim = Simulation({"kqueue.max.partitions": 10})
    topic = sim.topic("orders", 2)
    for count, error in [(2, InvalidPartitions), (1, InvalidPartitions), (11, PolicyViolation)]:
        with pytest.raises(error):
            sim.broker.topics.add_partitions("orders", count)
    with pytest.raises(InvalidReplicaAssignment):
        sim.broker.topics.add_partitions("orders", 4, [[1]])
    old = list(topic.partitions)
    sim.result(sim.broker.topics.add_partitions("orders", 4, [[1], [1]]))
    assert topic.partitions[:2] == old
    assert len(topic.partitions) == 4
    sim.stop()
    assert len(sim.restarted().broker.topics.get("orders").partitions) == 4


def test_the_offsets_topic_is_made_on_demand_without_folders() -> None:
    sim = Simulation({"offsets.topic.num.partitions": 7})
    topic = sim.result(sim.broker.topics.create_on_demand(OFFSETS_TOPIC))
    assert topic.is_internal
    assert len(topic.partitions) == 7
    assert topic.config["cleanup.policy"] == ["compact"]
    assert not [entry.name for entry in sim.storage.list("") if entry.name.startswith(OFFSETS_TOPIC)]


class BrokenStore(MemoryStore):
    """A store whose disk fails while `broken`."""

    broken = False

    def commit(self, guards, puts, deletes):  # type: ignore[no-untyped-def]
        if self.broken:
            raise StorageFailed("the disk is gone")
        return super().commit(guards, puts, deletes)


def test_a_store_that_fails_changes_nothing() -> None:
    store = BrokenStore()
    sim = Simulation(store=store)
    sim.topic("orders", 2)
    store.broken = True
    for promise in (
        sim.broker.topics.create(NewTopic("other")),
        sim.broker.topics.delete("orders"),
        sim.broker.topics.add_partitions("orders", 3),
    ):
        with pytest.raises(StorageFailed, match="the disk is gone"):
            sim.result(promise)  # type: ignore[arg-type]
    assert sim.broker.topics.names() == ["orders"]
    assert len(sim.broker.topics.get("orders").partitions) == 2
    store.broken = False
    sim.topic("other")


def test_the_second_of_two_concurrent_changes_sees_the_first() -> None:
    sim = Simulation()
    sim.topic("orders", 2)
    first = sim.broker.topics.add_partitions("orders", 3)
    second = sim.broker.topics.add_partitions("orders", 4)
    late = sim.broker.topics.add_partitions("orders", 4)
    assert [sim.result(promise).name for promise in (first, second)] == ["orders"] * 2
    with pytest.raises(InvalidPartitions, match="has 4 partitions; 4 is not more"):
        sim.result(late)
    assert len(sim.broker.topics.get("orders").partitions) == 4


class Recorder(TopicEvents):
    """Records its name, the event, and whether the topic is known then."""

    def __init__(self, name: str, topics: Topics, events: list[tuple[object, ...]]) -> None:
        self.name = name
        self.topics = topics
        self.events = events

    def note(self, event: str, topic: Topic, *more: object) -> None:
        self.events.append((self.name, event, self.topics.find(topic.name) is topic, *more))

    def created(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        self.note("created", topic, [partition.index for partition in partitions])

    def configured(self, topic: Topic) -> None:
        self.note("configured", topic, topic.config["retention.ms"])

    def deleted(self, topic: Topic) -> None:
        self.note("deleted", topic)


def test_subscribers_are_called_in_their_order_after_the_topic_has_changed() -> None:
    sim, events = Simulation(), list[tuple[object, ...]]()
    topics = sim.broker.topics
    topics.observers += [Recorder(name, topics, events) for name in ("first", "second")]
    sim.topic("t", 2)
    sim.result(topics.add_partitions("t", 3))
    change = ConfigChange(ConfigOperation.SET, "retention.ms", "5")
    sim.result(sim.broker.configs.alter(ConfigResource(ResourceType.TOPIC, "t"), [change]))
    sim.result(topics.delete("t"))
    expected = [
        ("created", True, [0, 1]),
        ("created", True, [2]),
        ("configured", True, 5),
        ("deleted", False),
    ]
    assert events == [(name, *event) for event in expected for name in ("first", "second")]


def test_topics_of_the_start_are_no_events() -> None:
    sim = Simulation()
    sim.topic("t")
    sim.stop()
    events = list[tuple[object, ...]]()
    again = Simulation(
        storage=sim.storage,
        store=sim.store,
        clock=sim.clock,
        before_start=lambda broker: broker.topics.observers.append(Recorder("one", broker.topics, events)),
    )
    assert again.broker.topics.find("t") is not None
    assert events == []

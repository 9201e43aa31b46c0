from __future__ import annotations

from collections.abc import Sequence

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topic_events import TopicEvents
from kqueue.broker.topics.topics import Topic, Topics
from kqueue.testing.simulation import Simulation


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

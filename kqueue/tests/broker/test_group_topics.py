from __future__ import annotations

from kqueue.broker.group_topics import GroupTopics
from kqueue.testing.simulation import Simulation


def test_topics_are_those_of_the_broker() -> None:
    sim = Simulation({})
    topics = sim.broker.groups.consumer.topics
    version = topics.version
    topic = sim.topic("t", 2)
    assert topics.version > version
    assert topics.find("t") == (topic.id, "t", 2, ())
    assert (topics.find("x"), topics.name_of(bytes(16))) == (None, None)
    assert topics.name_of(topic.id) == "t"
    assert topics.names() == ["t"]
    racks = GroupTopics(sim.broker.topics, "r").find("t")
    assert racks is not None
    assert racks.racks == (("r",), ("r",))
    version = topics.version
    sim.broker.topics.delete("t")
    sim.settle()
    assert topics.version > version

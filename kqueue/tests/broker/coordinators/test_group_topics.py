from __future__ import annotations

from kqueue.broker.topics.topics import NewTopic
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.members import Members


def test_topics_are_those_of_the_broker() -> None:
    sim = Simulation({})
    topics = sim.broker.coordinators.groups.consumer.topics
    version = topics.version
    topic = sim.topic("t", 2)
    assert topics.version > version
    assert topics.find("t") == (topic.id, "t", 2, ())
    assert (topics.find("x"), topics.name_of(bytes(16))) == (None, None)
    assert topics.name_of(topic.id) == "t"
    assert topics.names() == ["t"]
    version = topics.version
    sim.broker.topics.delete("t")
    sim.settle()
    assert topics.version > version


def test_the_rack_of_a_single_broker_is_that_of_all_partitions() -> None:
    sim = Simulation({"broker.rack": "r"})
    sim.topic("t", 2)
    topic = sim.broker.coordinators.groups.consumer.topics.find("t")
    assert topic is not None
    assert topic.racks == (("r",), ("r",))


def test_partitions_of_a_cluster_have_the_racks_of_their_replicas() -> None:
    members = Members(4, racks={1: "a", 2: "b", 3: "a"})
    topics = members[2].broker.coordinators.groups.consumer.topics

    def racks() -> tuple[tuple[str, ...], ...]:
        topic = topics.find("t")
        assert topic is not None
        return topic.racks

    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [2, 1], 1: [1, 3], 2: [4, 2]})))
    assert racks() == (("a", "b"), ("a",), ("b",))
    version = topics.version
    members.write(lambda partition: partition._replace(replicas=(4, 2), isr=(2,)), index=0)
    assert (racks()[0], topics.version > version) == (("b",), True)
    version = topics.version
    members.register(4, epoch=2, rack="c")
    members.settle()
    assert (racks()[0], topics.version > version) == (("b", "c"), True)

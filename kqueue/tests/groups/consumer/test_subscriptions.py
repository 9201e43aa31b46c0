from __future__ import annotations

from kqueue.tests.groups.consumer.consumers import U, indexes
from kqueue.tests.groups.support import World


def test_new_partitions_are_assigned() -> None:
    world = World()
    world.consume("m")
    world.topics.put("t", 6)
    world.advance(1000)
    assert indexes(world.consume("m", 2).assigned) == set(range(6))


def test_a_deleted_topic_is_taken_away() -> None:
    world = World()
    world.consume("m", topics=["t", "u"])
    world.topics.delete("u")
    world.advance(1000)
    assigned = world.consume("m", 2).assigned
    assert (indexes(assigned), indexes(assigned, U)) == ({0, 1, 2, 3}, set())


def test_a_changed_subscription_is_followed() -> None:
    world = World()
    world.consume("m")
    assigned = world.consume("m", 2, topics=["u"]).assigned
    assert indexes(assigned) == set(), "before the next assignment"
    world.advance(1000)
    world.consume("m", 2, owned={})
    assert world.consumer_group().members["m"].current.assigned.keys() == {U}


def test_patterns_are_resolved_and_follow_new_topics() -> None:
    world = World()
    assert world.consume("m", regex="t.*").member_epoch == 1, "not resolved within the heartbeat"
    assert indexes(world.consume("m", 1).assigned) == {0, 1, 2, 3}
    other = world.topics.put("t2", 1)
    world.advance(10_000)
    world.consume("m", 2)
    world.advance(1000)
    assigned = world.consume("m", world.consumer_group().members["m"].current.epoch).assigned
    assert indexes(assigned, other) == {0}
    world.consume("m", -1)
    assert not world.consumer_group().regexes

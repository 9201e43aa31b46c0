from __future__ import annotations

from kqueue.tests.groups.consumer.consumers import T, U
from kqueue.tests.groups.support import World


def test_settings_of_a_group_count() -> None:
    world = World(group_consumer_min_session_timeout_ms=1, group_consumer_min_heartbeat_interval_ms=1)
    world.settings["g"] = {"consumer.session.timeout.ms": 1000, "consumer.heartbeat.interval.ms": 300}
    assert world.consume("m").heartbeat_interval_ms == 300
    assert world.consume("m", group_id="h").heartbeat_interval_ms == 5000
    world.advance(1000)
    assert world.consumer_group().is_empty
    assert not world.consumer_group("h").is_empty


def test_members_choose_the_assignor() -> None:
    world = World(group_consumer_assignors="uniform,range", group_consumer_assignment_interval_ms=0)
    world.consume("a", topics=["t", "u"], assignor="range")
    world.consume("b", topics=["t", "u"], assignor="range")
    group = world.consumer_group()
    assert group.target_of("a") == {T: {0, 1}, U: {0}}
    assert group.preferred_assignor(["uniform", "range"]) == "range"

from __future__ import annotations

from dataclasses import replace

from kqueue.groups.config import GroupConfig
from kqueue.tests.groups.streams.applications import beat, group_of, new_world


def test_settings_of_a_group_count() -> None:
    world = new_world(group_streams_min_session_timeout_ms=1, group_streams_min_heartbeat_interval_ms=1)
    world.settings["g"] = {"streams.session.timeout.ms": 1000, "streams.heartbeat.interval.ms": 300}
    assert beat(world, "m").heartbeat_interval_ms == 300
    assert beat(world, "m", group_id="h").heartbeat_interval_ms == 5000
    world.advance(1000)
    assert group_of(world).is_empty
    assert not group_of(world, "h").is_empty


def test_settings_are_kept_within_the_brokers_bounds() -> None:
    config = replace(GroupConfig().streams, standby_replicas=1, standby_replicas_max=2)
    assert [config.standby_replicas_of(own) for own in ({}, {"streams.num.standby.replicas": 9})] == [1, 2]
    assert config.session_timeout.of({"streams.session.timeout.ms": 1}) == 45_000
    assert config.initial_delay.of({"streams.initial.rebalance.delay.ms": 0}) == 0


def test_the_defaults_are_those_of_the_settings() -> None:
    defaults = GroupConfig().streams
    assert GroupConfig.of(new_world().config).streams == replace(
        defaults,
        assignment_interval=defaults.assignment_interval._replace(default=0),
        initial_delay=defaults.initial_delay._replace(default=0),
    )

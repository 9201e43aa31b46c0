"""Members, subscriptions and patterns without end: they are refused, and another group goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.errors import GroupMaxSizeReached
from kqueue.tests.api.test_costliest_requests import CallCounter
from kqueue.tests.groups.consumer.consumers import indexes
from kqueue.tests.groups.support import World
from kqueue.tests.thorough import corners

GROUP_BYTES = 100_000
ALL_BYTES = 250_000
CALLS_MAX = 60_000
"""Of one heartbeat of the flood: about 10 ms."""


def many_members(number: int) -> dict[str, Any]:
    return {"member_id": f"m{number}"}


def long_names(number: int) -> dict[str, Any]:
    return {"member_id": f"{number}".rjust(1000, "x"), "rack_id": "r" * 1000, "topics": []}


def many_topics(number: int) -> dict[str, Any]:
    return {"member_id": f"m{number}", "topics": [f"t{number}-{index}" for index in range(200)]}


def one_that_changes(number: int) -> dict[str, Any]:
    return {"member_id": "m", "topics": [f"t{number}-{index}" for index in range(10 * number)]}


def many_patterns(number: int) -> dict[str, Any]:
    return {"member_id": f"m{number}", "regex": f"(a|b|t)*{number}?{'x?' * 100}"}


def many_groups(number: int) -> dict[str, Any]:
    return {"member_id": "m", "group_id": f"g{number}", "topics": ["t" * 200]}


@pytest.mark.parametrize(
    "flood",
    corners([many_members, long_names, many_topics, one_that_changes, many_patterns, many_groups], many_members),
)
def test_a_flood_is_refused_and_leaves_another_group_alone(
    flood: Callable[[int], dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    world = World(
        kqueue_max_group_bytes=GROUP_BYTES,
        kqueue_max_groups_bytes=ALL_BYTES,
        group_consumer_assignment_interval_ms=0,
    )
    world.topics.put("t", 50)
    world.consume("good", group_id="good")
    counter, refused = CallCounter(), 0
    for number in range(1000):
        with counter:
            promise = world.beat_consumer(**flood(number))
        assert counter.count <= CALLS_MAX, f"heartbeat {number} takes {counter.count} calls"
        assert promise.error is None or isinstance(promise.error, GroupMaxSizeReached)
        refused += promise.error is not None
    assert refused
    assert world.groups.limits.member_bytes <= ALL_BYTES
    assert len(caplog.records) <= 2, "a line per minute and setting"
    world.advance(5000)
    assert world.consume("good", 2, group_id="good").member_epoch == 2
    assert indexes(world.consume("good", 0, group_id="good").assigned) == set(range(50))
    assert described(world) == described(world.restarted())


def described(world: World) -> dict[str, Any]:
    groups = {one.group_id: world.groups.consumer.find(one.group_id) for one in world.groups.groups()}
    return {group_id: (group.epoch, group.members) for group_id, group in groups.items() if group is not None}

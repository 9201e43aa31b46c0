from __future__ import annotations

from typing import Any

import pytest

from kqueue.base import errors
from kqueue.base.errors import KqueueError
from kqueue.groups import errors as group_errors
from kqueue.tests.groups.consumer.consumers import T
from kqueue.tests.groups.support import World
from kqueue.tests.tables import for_each


@for_each(
    "options, error, words",
    [
        ({"member_id": ""}, errors.InvalidRequest, "MemberId can't be empty."),
        ({"group_id": ""}, errors.InvalidRequest, "GroupId can't be empty."),
        ({"instance_id": ""}, errors.InvalidRequest, "InstanceId can't be empty."),
        ({"rack_id": ""}, errors.InvalidRequest, "RackId can't be empty."),
        ({"epoch": -3}, errors.InvalidRequest, "MemberEpoch is invalid."),
        ({"epoch": -2}, errors.InvalidRequest, "InstanceId can't be null."),
        ({"rebalance_timeout_ms": -1}, errors.InvalidRequest, "RebalanceTimeoutMs must be provided"),
        ({"owned": {T: frozenset({1})}}, errors.InvalidRequest, "TopicPartitions must be empty"),
        ({"assignor": "x"}, group_errors.UnsupportedAssignor, "Supported assignors: uniform, range."),
        ({"regex": "["}, group_errors.InvalidRegularExpression, "is not a valid regular expression"),
        ({"regex": "x" * 1001}, group_errors.InvalidRegularExpression, "at most 1000 characters"),
    ],
)
def test_invalid_heartbeat_is_refused_and_leaves_nothing(
    options: dict[str, Any], error: type[KqueueError], words: str
) -> None:
    world = World()
    with pytest.raises(error, match=words.replace("(", "[(]")):
        world.consume(**options)
    assert not world.groups.groups()
    assert not list(world.log.records())


@for_each(
    "member_id, epoch, options, error",
    [
        ("m", 3, {}, group_errors.FencedMemberEpoch),
        ("m", 1, {}, group_errors.FencedMemberEpoch),
        ("x", 2, {}, errors.UnknownMember),
        ("m", 2, {"group_id": "h"}, errors.GroupIdNotFound),
        ("x", -1, {}, errors.UnknownMember),
        ("m", -1, {"group_id": "h"}, errors.GroupIdNotFound),
        ("m", 2, {"instance_id": "i"}, errors.UnknownMember),
    ],
)
def test_heartbeat_of_a_wrong_member_or_epoch_is_refused(
    member_id: str, epoch: int, options: dict[str, Any], error: type[KqueueError]
) -> None:
    world = World()
    world.consume("m")
    with pytest.raises(error):
        world.consume(member_id, epoch, **options)

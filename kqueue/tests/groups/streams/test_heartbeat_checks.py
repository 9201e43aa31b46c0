from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import InvalidRequest
from kqueue.groups.streams.errors import StreamsInvalidTopology
from kqueue.groups.streams.heartbeat_checks import check_heartbeat, check_tasks, is_leave
from kqueue.groups.streams.member import StreamsHeartbeat
from kqueue.groups.streams.topology import Subtopology, Topology
from kqueue.tests.groups.streams.applications import A0, MAP
from kqueue.tests.tables import for_each

JOIN: dict[str, Any] = {"topology": MAP, "rebalance_timeout_ms": 1, "active": {}, "standby": {}, "warmup": {}}


def test_valid_heartbeats_pass() -> None:
    check_heartbeat(StreamsHeartbeat("g", "m", 0, **JOIN))
    check_heartbeat(StreamsHeartbeat("g", "m", 5))
    check_heartbeat(StreamsHeartbeat("g", "m", -1))
    assert [is_leave(StreamsHeartbeat("g", "m", epoch)) for epoch in (-1, 0, 1)] == [True, False, False]


@for_each(
    "epoch, fields, words",
    [
        (0, {"member_id": ""}, "MemberId"),
        (0, {"member_id": "x" * 1001}, "MemberId has at most 1000"),
        (0, {"group_id": ""}, "GroupId"),
        (0, {"rack_id": ""}, "RackId"),
        (0, {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        (0, {"active": {"0": frozenset({1})}}, "ActiveTasks"),
        (0, {"standby": {"0": frozenset({1})}}, "StandbyTasks"),
        (0, {"topology": None}, "Topology must be non-null"),
        (1, {}, "Topology can only be provided"),
        (1, {"topology": None, "warmup": None}, "If one task-type"),
        (0, {"warmup": {"0": frozenset({1})}}, "WarmupTasks are not supported"),
        (0, {"instance_id": "i"}, "Static membership"),
        (0, {"has_offsets": True}, "TaskOffsets"),
        (0, {"has_patterns": True}, "Regular expressions"),
        (-2, {"topology": None}, "InstanceId can't be null"),
        (-3, {"topology": None}, "MemberEpoch is -3"),
    ],
)
def test_invalid_heartbeat_is_refused(epoch: int, fields: dict[str, Any], words: str) -> None:
    given = {"group_id": "g", "member_id": "m", "member_epoch": epoch, **JOIN, **fields}
    with pytest.raises(InvalidRequest, match=words):
        check_heartbeat(StreamsHeartbeat(**given))


def test_the_topology_is_looked_at() -> None:
    with pytest.raises(StreamsInvalidTopology):
        check_heartbeat(StreamsHeartbeat("g", "m", 0, **{**JOIN, "topology": Topology(0, (Subtopology("0"),))}))


def test_tasks_must_exist() -> None:
    check_tasks(None, {})
    check_tasks({A0: frozenset({0, 3})}, {"0": 4})
    for counts, words in (({}, "Subtopology 0 does not exist"), ({"0": 3}, "Number of tasks for this subtopology: 3")):
        with pytest.raises(InvalidRequest, match=words):
            check_tasks({A0: frozenset({3})}, counts)

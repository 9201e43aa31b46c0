from __future__ import annotations

from kqueue.groups.streams.member import StreamsGroupMember, StreamsHeartbeat, StreamsMemberMetadata, TaskRole, tasks_of
from kqueue.tests.groups.streams.applications import A0, A1, S1


def test_tasks_in_one_role() -> None:
    owned = {A1: {1: 5, 0: 5}, S1: {2: 5}, A0: {0: 5}}
    assert tasks_of(owned, TaskRole.ACTIVE) == {"0": [0], "1": [0, 1]}
    assert tasks_of(owned, TaskRole.STANDBY) == {"1": [2]}
    assert tasks_of(owned, TaskRole.WARMUP) == {}


def test_a_heartbeat_names_all_roles_or_none() -> None:
    assert StreamsHeartbeat("g", "m", 1).owned() is None
    sent = StreamsHeartbeat("g", "m", 1, active={"0": frozenset({1})}, standby={"1": frozenset()}, warmup={})
    assert sent.owned() == {A0: {1}}
    assert sent._replace(warmup=None).owned() is None


def test_a_member_has_the_time_that_it_sent() -> None:
    assert StreamsGroupMember("m", StreamsMemberMetadata(rebalance_timeout_ms=5)).rebalance_timeout_ms == 5

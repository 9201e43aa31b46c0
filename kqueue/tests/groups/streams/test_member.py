from __future__ import annotations

from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.streams.member import (
    StreamsHeartbeat,
    TaskRole,
    tasks_of,
    with_epochs_of_active,
)
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


def test_only_active_tasks_have_epochs_of_their_own() -> None:
    current = CurrentAssignment(5, 4, assigned={A0: {0: 3}, S1: {1: 3}}, revoking={A1: {0: 2}, S1: {2: 2}})
    tasks = with_epochs_of_active(current)
    assert (tasks.assigned, tasks.revoking) == ({A0: {0: 3}, S1: {1: 5}}, {A1: {0: 2}, S1: {2: 5}})

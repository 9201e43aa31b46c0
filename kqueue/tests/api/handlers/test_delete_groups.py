from __future__ import annotations

from kqueue.api.handlers import delete_groups
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.tests.api.group_client import commit, committed, leave, stable, world
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from kqueue.wire.messages.leave_group import MemberIdentity

VERSIONS = versions_of("delete_groups")


@for_each("version", VERSIONS)
def test_groups_without_members_go(version: int) -> None:
    client = world()
    commit(client, {("t", 0): 1}, group_id="a")
    commit(client, {("t", 0): 1}, group_id="b")
    stable(client)
    response = client.ask(DeleteGroupsRequest(groups_names=["a", "nobody", "g", "a", "", "b"]), version)
    assert response.results == [
        DeletableGroupResult(group_id="a"),
        DeletableGroupResult(group_id="nobody", error_code=ErrorCode.GROUP_ID_NOT_FOUND),
        DeletableGroupResult(group_id="g", error_code=ErrorCode.NON_EMPTY_GROUP),
        DeletableGroupResult(group_id="", error_code=ErrorCode.GROUP_ID_NOT_FOUND),
        DeletableGroupResult(group_id="b"),
    ]
    assert [group.group_id for group in client.sim.broker.coordinators.groups.groups()] == ["g"]
    assert committed(client, "a") == {}


def test_a_group_whose_members_have_left_can_go() -> None:
    client = world()
    joined = stable(client)
    leave(client, MemberIdentity(member_id=joined.member_id))
    assert client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results == [DeletableGroupResult(group_id="g")]


def test_nothing_to_delete_is_no_error() -> None:
    assert world().ask(DeleteGroupsRequest(), 2).results == []


def test_the_answer_comes_when_it_is_on_disk() -> None:
    client = world(kqueue_storage="local")
    commit(client, {("t", 0): 1})
    started = client.start(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert started.response is None
    client.sim.settle()
    assert started.response.results == [DeletableGroupResult(group_id="g")]  # type: ignore[attr-defined]
    client.sim.stop()
    assert client.sim.restarted().broker.coordinators.groups.groups() == []


def test_a_flush_timeout_is_reported() -> None:
    client = world(kqueue_storage="local")
    commit(client, {("t", 0): 1})
    started = client.start(DeleteGroupsRequest(groups_names=["g", "nobody"]), 2)
    client.sim.clock.advance(5_000)
    client.sim.broker.scheduler.timers.run_due(5_000)
    assert [result.error_code for result in started.response.results] == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]


@for_each("version", VERSIONS)
def test_an_error_is_reported_for_every_group(version: int) -> None:
    response = delete_groups.error_response(
        DeleteGroupsRequest(groups_names=["a", "b"]), version, CoordinatorNotAvailable("later")
    )
    assert [(result.group_id, result.error_code) for result in response.results] == [("a", 15), ("b", 15)]

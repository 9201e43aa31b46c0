from __future__ import annotations

from kqueue.api.authorized_operations import ALL_OPERATIONS, NOT_REQUESTED
from kqueue.api.handlers import describe_groups
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.security.operations import ResourceType
from kqueue.tests.api.access_requests import Deciding, nothing
from kqueue.tests.api.group_client import RANGE, commit, join, stable, world
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest

VERSIONS = versions_of("describe_groups")


def describe(client: SimulatedClient, version: int, *groups: str, operations: bool = False) -> list[DescribedGroup]:
    request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations)
    described: list[DescribedGroup] = client.ask(request, version).groups
    return described


@for_each("version", VERSIONS)
def test_a_stable_group_shows_everything(version: int) -> None:
    client = world()
    joined = stable(client)
    member = DescribedGroupMember(
        member_id=joined.member_id,
        client_id="tester",
        client_host="/127.0.0.1",
        member_metadata=RANGE,
        member_assignment=b"mine",
    )
    assert describe(client, version, "g") == [
        DescribedGroup(
            group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
        )
    ]


@for_each("version", VERSIONS)
def test_a_group_whose_assignment_is_awaited_keeps_it_to_itself(version: int) -> None:
    client = world()
    joined = join(client, group_instance_id="i")
    [group] = describe(client, version, "g")
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert [(member.member_metadata, member.member_assignment) for member in group.members] == [(b"", b"")]
    assert [(member.member_id, member.group_instance_id) for member in group.members] == [
        (joined.member_id, "i" if version >= 4 else None)
    ]


@for_each("version", VERSIONS)
def test_groups_come_in_the_order_asked_for(version: int) -> None:
    client = world()
    commit(client, {("t", 0): 1}, group_id="simple")
    stable(client)
    groups = describe(client, version, "simple", "nobody", "g", "")
    assert [group.group_id for group in groups] == ["simple", "nobody", "g", ""]
    assert [group.group_state for group in groups] == ["Empty", "Dead", "Stable", "Dead"]


def test_a_group_that_is_named_twice_is_described_once() -> None:
    client = world()
    stable(client)
    assert [group.group_id for group in describe(client, 6, "g", "nobody", "g", "nobody")] == ["g", "nobody"]


@for_each("version", VERSIONS)
def test_denied_group_is_described_without_state(version: int) -> None:
    client = world()
    stable(client)
    client.sim.broker.security.authorizer = Deciding(nothing)
    for group in describe(client, version, "g", "nobody"):
        assert (group.error_code, group.group_state) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "")


@for_each("version", VERSIONS)
def test_a_group_that_is_not_there_is_dead_and_from_version_6_on_an_error(version: int) -> None:
    [group] = describe(world(), version, "nobody", operations=version >= 3)
    if version >= 6:
        assert (group.error_code, group.authorized_operations) == (ErrorCode.GROUP_ID_NOT_FOUND, NOT_REQUESTED)
        assert "nobody" in (group.error_message or "")
    else:
        assert group.error_code == ErrorCode.NONE
    assert group.group_state == "Dead"


@for_each("version", [version for version in VERSIONS if version >= 3])
def test_authorized_operations_are_returned_on_request(version: int) -> None:
    client = world()
    stable(client)
    assert (
        describe(client, version, "g", operations=True)[0].authorized_operations == ALL_OPERATIONS[ResourceType.GROUP]
    )
    assert describe(client, version, "g")[0].authorized_operations == NOT_REQUESTED


@for_each("version", VERSIONS)
def test_an_error_is_reported_for_every_group(version: int) -> None:
    response = describe_groups.error_response(
        DescribeGroupsRequest(groups=["a", "b"]), version, CoordinatorNotAvailable("later")
    )
    assert [(group.group_id, group.error_code) for group in response.groups] == [
        ("a", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]

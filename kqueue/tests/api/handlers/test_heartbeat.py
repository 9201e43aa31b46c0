from __future__ import annotations

from kqueue.tests.api.group_client import heartbeat, join, stable, start_join, world
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

VERSIONS = versions_of("heartbeat")


@for_each("version", VERSIONS)
def test_a_heartbeat_keeps_a_member_alive(version: int) -> None:
    client = world()
    joined = stable(client)
    for _ in range(5):
        client.sim.advance(9_999)
        assert heartbeat(client, joined, version) == ErrorCode.NONE
    client.sim.advance(10_000)
    assert heartbeat(client, joined, version) == ErrorCode.UNKNOWN_MEMBER_ID


@for_each("version", VERSIONS)
def test_a_member_learns_that_it_has_to_join_again(version: int) -> None:
    client = world()
    joined = stable(client)
    start_join(client)
    assert heartbeat(client, joined, version) == ErrorCode.REBALANCE_IN_PROGRESS
    again = start_join(client, member_id=joined.member_id).response
    assert heartbeat(client, again, version) == ErrorCode.NONE
    assert heartbeat(client, joined, version) == ErrorCode.ILLEGAL_GENERATION


@for_each(
    "fields, code",
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_unknown_members_are_refused(fields: dict[str, object], code: ErrorCode) -> None:
    client = world()
    assert heartbeat(client, stable(client), **fields) == code


def test_the_former_holder_of_an_instance_is_fenced() -> None:
    client = world()
    joined = join(client, group_instance_id="i")
    join(client, group_instance_id="i")
    assert heartbeat(client, joined, group_instance_id="i") == ErrorCode.FENCED_INSTANCE_ID

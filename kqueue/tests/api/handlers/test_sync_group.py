from __future__ import annotations

from kqueue.tests.api.group_client import join, stable, start_join, sync, sync_request, world
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sync_group import SyncGroupResponse

VERSIONS = versions_of("sync_group")


def expected_response(version: int, assignment: bytes) -> SyncGroupResponse:
    known = version >= 5
    return SyncGroupResponse(
        protocol_type="consumer" if known else None, protocol_name="range" if known else None, assignment=assignment
    )


@for_each("version", VERSIONS)
@for_each("assignment", [b"anything \xff\x00", b""])
def test_every_member_gets_the_leaders_assignment(version: int, assignment: bytes) -> None:
    client = world()
    leader = stable(client)
    newcomer = start_join(client)
    again = start_join(client, member_id=leader.member_id).response
    waiting = client.start(sync_request(version, newcomer.response), version)
    assert waiting.response is None
    lead = client.ask(
        sync_request(version, again, {newcomer.response.member_id: assignment, "stranger": b"x"}), version
    )
    assert (waiting.response, lead) == (expected_response(version, assignment), expected_response(version, b""))
    assert client.ask(sync_request(version, newcomer.response), version) == expected_response(version, assignment)


@for_each("version", VERSIONS)
@for_each(
    "fields, code",
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_unknown_members_get_no_assignment(version: int, fields: dict[str, object], code: ErrorCode) -> None:
    client = world()
    assert client.ask(sync_request(version, stable(client), **fields), version) == SyncGroupResponse(error_code=code)


@for_each(
    "fields", [{"protocol_type": "connect"}, {"protocol_name": "rr"}, {"protocol_type": None}, {"protocol_name": None}]
)
def test_from_version_5_on_members_say_which_protocol_they_mean(fields: dict[str, object]) -> None:
    client = world()
    assert client.ask(sync_request(5, stable(client), **fields), 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_waiting_sync_fails_when_a_rebalance_begins() -> None:
    client = world()
    leader = stable(client)
    newcomer = start_join(client)
    start_join(client, member_id=leader.member_id)
    waiting = client.start(sync_request(5, newcomer.response), 5)
    start_join(client)
    assert waiting.response == SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert sync(client, newcomer.response).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_answer_comes_when_the_assignment_is_on_disk() -> None:
    client = world(kqueue_storage="local")
    joined = join(client)
    started = client.start(sync_request(5, joined, {joined.member_id: b"mine"}), 5)
    assert started.response is None
    client.sim.settle()
    assert started.response.assignment == b"mine"  # type: ignore[attr-defined]
    client.sim.stop()
    [member] = client.sim.restarted().broker.coordinators.groups.describe("g").members
    assert (member.member_id, member.assignment) == (joined.member_id, b"mine")

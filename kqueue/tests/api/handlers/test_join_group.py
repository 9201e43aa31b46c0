from __future__ import annotations

from kqueue.tests.api.group_client import RANGE, heartbeat, join, join_request, start_join, sync, world
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember

VERSIONS = versions_of("join_group")


@for_each("version", VERSIONS)
def test_a_newcomer_becomes_the_leader_of_a_new_group(version: int) -> None:
    client = world()
    response = join(client, version)
    assert response.member_id.startswith("tester-")
    assert response == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer" if version >= 7 else None,
        protocol_name="range",
        leader=response.member_id,
        member_id=response.member_id,
        members=[JoinGroupResponseMember(member_id=response.member_id, metadata=RANGE)],
    )


@for_each("version", VERSIONS)
def test_from_version_4_on_a_newcomer_is_first_given_its_id(version: int) -> None:
    client = world()
    response = client.ask(join_request(version), version)
    if version < 4:
        client.sim.advance(0)
        assert client.sim.broker.coordinators.groups.describe("g").members
        return
    assert (response.error_code, response.generation_id, response.leader) == (ErrorCode.MEMBER_ID_REQUIRED, -1, "")
    assert response.protocol_name == (None if version >= 7 else "")
    assert response.member_id.startswith("tester-")


@for_each("version", VERSIONS)
def test_the_members_wait_for_each_other(version: int) -> None:
    client = world()
    leader = join(client, version)
    sync(client, leader)
    waiting = start_join(client, version)
    assert waiting.response is None
    again = start_join(client, version, leader.member_id)
    assert (waiting.response.generation_id, again.response.generation_id) == (2, 2)  # type: ignore[attr-defined]
    assert waiting.response.members == []  # type: ignore[attr-defined]
    assert {member.member_id for member in again.response.members} == {leader.member_id, waiting.response.member_id}  # type: ignore[attr-defined]


def test_the_client_host_and_id_are_kept() -> None:
    client = world()
    join(client)
    [member] = client.sim.broker.coordinators.groups.describe("g").members
    assert (member.client_id, member.client_host) == ("tester", "/127.0.0.1")


def test_version_0_has_its_session_timeout_for_joining_too() -> None:
    client = world()
    leader = join(client, 0)
    sync(client, leader)
    newcomer = start_join(client, 0)
    client.sim.advance(9_000)
    heartbeat(client, leader)
    client.sim.advance(999)
    assert newcomer.response is None
    client.sim.advance(1)
    assert newcomer.response.generation_id == 2  # type: ignore[attr-defined]


@for_each("version", [version for version in VERSIONS if version >= 5])
def test_a_leader_that_comes_back_learns_from_version_9_on_that_it_leads(version: int) -> None:
    client = world()
    leader = join(client, version, group_instance_id="i")
    sync(client, leader, {leader.member_id: b"mine"}, group_instance_id="i")
    back = join(client, version, group_instance_id="i")
    assert back.generation_id == 1
    assert back.member_id.startswith("i-")
    if version >= 9:
        assert (back.leader, back.skip_assignment) == (back.member_id, True)
        assert [(member.member_id, member.group_instance_id) for member in back.members] == [(back.member_id, "i")]
    else:
        assert (back.leader, back.members) == (leader.member_id, [])
    assert sync(client, back, group_instance_id="i").assignment == b"mine"


@for_each("version", VERSIONS)
@for_each(
    "fields, code",
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_invalid_join_is_refused(version: int, fields: dict[str, object], code: ErrorCode) -> None:
    response = world().ask(join_request(version, **fields), version)
    name = None if version >= 7 else ""
    assert response == JoinGroupResponse(error_code=code, protocol_name=name, member_id=fields.get("member_id", ""))


def test_a_full_group_sends_newcomers_away_without_an_id() -> None:
    client = world(group_max_size=1)
    leader = join(client)
    sync(client, leader)
    response = client.ask(join_request(9), 9)
    assert (response.error_code, response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_waiting_static_member_that_is_replaced_is_fenced() -> None:
    client = world()
    waiting = client.start(join_request(9, group_instance_id="i"), 9)
    client.start(join_request(9, group_instance_id="i"), 9)
    client.sim.settle()
    assert waiting.response.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_the_members_favourite_protocol_comes_first() -> None:
    client = world()
    protocols = [JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in ("b", "a", "c")]
    response = join(client, protocols=protocols)
    assert (response.protocol_name, response.members[0].metadata) == ("b", b"b")


def test_a_client_without_a_name_gets_an_id_all_the_same() -> None:
    client = world()
    response = client.ask(join_request(9), 9)
    assert len(response.member_id) > 36


@for_each("name", ["x" * 32767, "\U0001d11e" * 8191])
def test_a_name_of_any_length_makes_an_id_that_fits(name: str) -> None:
    client = world()
    joined = join(client, group_instance_id=name)
    assert joined.member_id.startswith(name[:255])
    assert sync(client, joined, {joined.member_id: b"mine"}, group_instance_id=name).assignment == b"mine"


def test_the_metadata_outlives_the_frame_that_brought_it() -> None:
    client = world()
    started = start_join(client)
    started.frame[:] = bytes(len(started.frame))
    client.sim.advance(0)
    assert started.response.members[0].metadata == RANGE

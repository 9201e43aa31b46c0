from __future__ import annotations

import pytest

from kqueue.tests.api.group_client import join, stable, start_join, sync, sync_request, world
from kqueue.tests.api.harness import versions_of
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sync_group import SyncGroupResponse

VERSIONS = versions_of("sync_group")


def told(version: int, assignment: bytes) -> SyncGroupResponse:
    known = version >= 5
    return SyncGroupResponse(
        protocol_type="consumer" if known else None, protocol_name="range" if known else None, assignment=assignment
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("assignment", [b"anything \xff\x00", b""])
def test_everybody_gets_what_the_leader_made(version: int, assignment: bytes) -> None:
    asker = world()
    leader = stable(asker)
    newcomer = start_join(asker)
    again = start_join(asker, member_id=leader.member_id).response
    waiting = asker.start(sync_request(version, newcomer.response), version)
    assert waiting.response is None
    lead = asker.ask(sync_request(version, again, {newcomer.response.member_id: assignment, "stranger": b"x"}), version)
    assert (waiting.response, lead) == (told(version, assignment), told(version, b""))
    assert asker.ask(sync_request(version, newcomer.response), version) == told(version, assignment)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_strangers_get_nothing(version: int, fields: dict[str, object], code: ErrorCode) -> None:
    asker = world()
    assert asker.ask(sync_request(version, stable(asker), **fields), version) == SyncGroupResponse(error_code=code)


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocol_name": "rr"}, {"protocol_type": None}, {"protocol_name": None}]
)
def test_from_version_5_on_members_say_which_protocol_they_mean(fields: dict[str, object]) -> None:
    asker = world()
    assert asker.ask(sync_request(5, stable(asker), **fields), 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_who_waits_is_sent_back_by_a_rebalance() -> None:
    asker = world()
    leader = stable(asker)
    newcomer = start_join(asker)
    start_join(asker, member_id=leader.member_id)
    waiting = asker.start(sync_request(5, newcomer.response), 5)
    start_join(asker)
    assert waiting.response == SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert sync(asker, newcomer.response).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_answer_comes_when_the_assignment_is_on_disk() -> None:
    asker = world(kqueue_storage="local")
    joined = join(asker)
    started = asker.start(sync_request(5, joined, {joined.member_id: b"mine"}), 5)
    assert started.response is None
    asker.sim.settle()
    assert started.response.assignment == b"mine"
    asker.sim.stop()
    [member] = asker.sim.restarted().broker.groups.describe("g").members
    assert (member.member_id, member.assignment) == (joined.member_id, b"mine")

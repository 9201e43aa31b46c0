from __future__ import annotations

import pytest

from kqueue.tests.api.group_client import heartbeat, join, stable, start_join, world
from kqueue.tests.api.harness import versions_of
from kqueue.wire.error_codes import ErrorCode

VERSIONS = versions_of("heartbeat")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_keeps_a_member_alive(version: int) -> None:
    asker = world()
    joined = stable(asker)
    for _ in range(5):
        asker.sim.advance(9_999)
        assert heartbeat(asker, joined, version) == ErrorCode.NONE
    asker.sim.advance(10_000)
    assert heartbeat(asker, joined, version) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_learns_that_it_has_to_join_again(version: int) -> None:
    asker = world()
    joined = stable(asker)
    start_join(asker)
    assert heartbeat(asker, joined, version) == ErrorCode.REBALANCE_IN_PROGRESS
    again = start_join(asker, member_id=joined.member_id).response
    assert heartbeat(asker, again, version) == ErrorCode.NONE
    assert heartbeat(asker, joined, version) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_strangers_are_refused(fields: dict[str, object], code: ErrorCode) -> None:
    asker = world()
    assert heartbeat(asker, stable(asker), **fields) == code


def test_the_former_holder_of_an_instance_is_fenced() -> None:
    asker = world()
    joined = join(asker, group_instance_id="i")
    join(asker, group_instance_id="i")
    assert heartbeat(asker, joined, group_instance_id="i") == ErrorCode.FENCED_INSTANCE_ID

"""An empty share group is moved; one with members is not."""

from __future__ import annotations

from kqueue.tests.api.share_client import Member, acquired, alter_offset, beat, group_offsets, share_group_at_2
from kqueue.wire.error_codes import ErrorCode


def test_a_group_with_members_stays() -> None:
    assert alter_offset(share_group_at_2(), 1)[0] == ErrorCode.NON_EMPTY_GROUP


def test_an_empty_group_is_moved() -> None:
    client = share_group_at_2()
    beat(client, "m1", -1)
    assert alter_offset(client, 1) == (0, 0)
    assert group_offsets(client) == (0, 1, 4)
    assert acquired(Member(client).fetch()) == [(1, 4, 1)]


def test_refused() -> None:
    client = share_group_at_2()
    beat(client, "m1", -1)
    assert alter_offset(client, 1, "nowhere") == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert alter_offset(client, -5) == (0, ErrorCode.INVALID_REQUEST)
    assert group_offsets(client) == (0, 2, 2)

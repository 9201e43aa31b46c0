"""An empty share group forgets topics; one with members does not."""

from __future__ import annotations

from kqueue.tests.api.share_client import beat, delete_offsets, group_offsets, share_group_at_2
from kqueue.wire.error_codes import ErrorCode


def test_a_group_with_members_forgets_nothing() -> None:
    client = share_group_at_2()
    assert delete_offsets(client)[0] == ErrorCode.NON_EMPTY_GROUP
    assert group_offsets(client) == (0, 2, 2)


def test_an_empty_group_forgets_a_topic() -> None:
    client = share_group_at_2()
    beat(client, "m1", -1)
    assert delete_offsets(client) == (0, 0)
    assert group_offsets(client) == (0, -1, -1)
    assert group_offsets(client, named=False) == (0, -1, -1)
    assert delete_offsets(client, "nowhere") == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

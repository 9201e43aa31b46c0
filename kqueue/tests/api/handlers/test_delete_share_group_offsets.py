"""An empty share group forgets topics; one with members does not."""

from __future__ import annotations

from kqueue.tests.api.share_client import beat, delete_offsets, group_offsets, share_group_at_2
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)


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


def test_a_topic_that_the_group_never_read_has_nothing_to_delete() -> None:
    client = share_group_at_2()
    client.sim.topic("u")
    beat(client, "m1", -1)
    assert delete_offsets(client, "u") == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete_offsets(client) == (0, 0)
    assert delete_offsets(client) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_requests_without_a_group_or_topics() -> None:
    client = share_group_at_2()
    beat(client, "m1", -1)
    for group, topics, code in (("", ["t"], 24), ("absent", ["t"], 69), ("absent", [], 69), ("g", [], 0)):
        named = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
        answer = client.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=named), 0)
        assert (answer.error_code, answer.responses) == (code, []), group


def test_a_topic_named_twice_is_deleted_once() -> None:
    client = share_group_at_2()
    beat(client, "m1", -1)
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")] * 2
    answer = client.ask(DeleteShareGroupOffsetsRequest(group_id="g", topics=named), 0)
    assert [topic.error_code for topic in answer.responses] == [0]

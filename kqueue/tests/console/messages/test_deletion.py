from __future__ import annotations

import pytest

from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.console.messages.deletion import PartitionDeletion, delete_before, preview_deletion
from kqueue.tests.console.messages.support import batch


def test_what_the_preview_says_is_deleted(client: Client) -> None:
    client.create_topics([NewTopic("old", 2)])
    client.produce({TopicPartition("old", 1): batch([b"x"] * 10)})
    assert preview_deletion(client, "old", {1: 4, 0: 0}) == [
        PartitionDeletion(0, 0, 0, 0),
        PartitionDeletion(1, 4, 4, 6),
    ]
    assert delete_before(client, "old", {1: 4}) == {1: 4}
    assert preview_deletion(client, "old", {1: 3}) == [PartitionDeletion(1, 4, 0, 6)]


def test_an_offset_beyond_the_end_is_refused(client: Client) -> None:
    client.create_topics([NewTopic("short", 1)])
    with pytest.raises(ValueError, match="ends at 0"):
        preview_deletion(client, "short", {0: 1})

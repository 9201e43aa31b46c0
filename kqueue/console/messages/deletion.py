"""Deletes messages before an offset; a preview says how many go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.client import Client, TopicPartition
from kqueue.console.messages.message_page import offset_ranges


class PartitionDeletion(NamedTuple):
    """What a deletion does to one partition.

    Attributes:
        before: the first offset that stays.
        offsets: how many offsets go; after compaction fewer messages than these.
        left: how many offsets stay.
    """

    partition: int
    before: int
    offsets: int
    left: int


def preview_deletion(client: Client, topic: str, before: Mapping[int, int]) -> list[PartitionDeletion]:
    """Return what `delete_before` would delete now.

    Args: before: by partition the first offset to keep.
    Raises: ValueError: an offset is beyond the end of its partition. ClientError.
    """
    ranges = offset_ranges(client, topic, sorted(before))
    deletions = []
    for partition, offset in sorted(before.items()):
        start, end = ranges[partition]
        if offset > end:
            raise ValueError(f"partition {partition} of {topic} ends at {end}: expected an offset up to it")
        offset = max(offset, start)
        deletions.append(PartitionDeletion(partition, offset, offset - start, end - offset))
    return deletions


def delete_before(client: Client, topic: str, before: Mapping[int, int]) -> dict[int, int]:
    """Delete the messages before an offset at each partition's leader; return the new starts.

    Raises: ClientError: for example of a topic that is only compacted.
    """
    starts = client.delete_records({TopicPartition(topic, partition): offset for partition, offset in before.items()})
    return {one.partition: start for one, start in starts.items()}

"""DescribeShareGroupOffsets: where a share group is in its partitions."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)


class ShareOffset(NamedTuple):
    """A share group's position in a partition.

    `start`: all records before it are done; None: the group has not read there yet.
    `lag`: the number of records from `start` on that are not done; None: unknown.
    """

    start: int | None
    lag: int | None


class DescribeShareOffsets:
    """DescribeShareGroupOffsets of all partitions of one group."""

    api = BY_MODULE["describe_share_group_offsets"]
    versions = (0, 1)
    repeatable = True

    def __init__(self, group: str) -> None:
        self.group = group

    def request(self, version: int) -> DescribeShareGroupOffsetsRequest:
        return DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=None)]
        )

    def result(
        self, version: int, response: DescribeShareGroupOffsetsResponse, broker: str
    ) -> dict[TopicPartition, ShareOffset]:
        about = f"group {self.group!r}"
        if [group.group_id for group in response.groups] != [self.group]:
            raise bad_answer(self.api.name, broker, f"is not about {about}")
        [group] = response.groups
        if group.error_code:
            raise response_error(
                group.error_code, self.api.name, broker, message=group.error_message or None, about=about
            )
        offsets = {}
        for topic in group.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.topic_name, one.partition_index)
                if one.error_code:
                    raise response_error(
                        one.error_code, self.api.name, broker, partition, one.error_message or None, about
                    )
                offsets[partition] = ShareOffset(_known(one.start_offset), _known(one.lag))
        return offsets


def _known(number: int) -> int | None:
    return number if number >= 0 else None

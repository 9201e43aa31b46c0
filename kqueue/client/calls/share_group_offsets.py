"""The offsets of a share group in its partitions: DescribeShareGroupOffsets, AlterShareGroupOffsets
and DeleteShareGroupOffsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kqueue.client.calls.reassignments import Refusal
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from kqueue.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
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


class AlterShareOffsets:
    """AlterShareGroupOffsets: the start offsets of an empty group."""

    api = BY_MODULE["alter_share_group_offsets"]
    versions = (0, 0)
    repeatable = True

    def __init__(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.group = group
        self.offsets = offsets

    def request(self, version: int) -> AlterShareGroupOffsetsRequest:
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                    for index, offset in parts
                ],
            )
            for topic, parts in by_topic(self.offsets).items()
        ]
        return AlterShareGroupOffsetsRequest(group_id=self.group, topics=topics)

    def result(
        self, version: int, response: AlterShareGroupOffsetsResponse, broker: str
    ) -> dict[TopicPartition, Refusal]:
        about = f"group {self.group!r}"
        if response.error_code:
            raise response_error(
                response.error_code, self.api.name, broker, message=response.error_message or None, about=about
            )
        outcome = {
            TopicPartition(topic.topic_name, one.partition_index): Refusal(one.error_code, one.error_message)
            for topic in response.responses
            for one in topic.partitions
        }
        if missing := [partition for partition in self.offsets if partition not in outcome]:
            raise bad_answer(self.api.name, broker, f"leaves out {missing[0]}")
        return outcome


class DeleteShareOffsets:
    """DeleteShareGroupOffsets: of whole topics, and of an empty group."""

    api = BY_MODULE["delete_share_group_offsets"]
    versions = (0, 0)
    repeatable = True

    def __init__(self, group: str, topics: Sequence[str]) -> None:
        self.group = group
        self.topics = topics

    def request(self, version: int) -> DeleteShareGroupOffsetsRequest:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in self.topics]
        return DeleteShareGroupOffsetsRequest(group_id=self.group, topics=topics)

    def result(self, version: int, response: DeleteShareGroupOffsetsResponse, broker: str) -> dict[str, Refusal]:
        about = f"group {self.group!r}"
        if response.error_code:
            raise response_error(
                response.error_code, self.api.name, broker, message=response.error_message or None, about=about
            )
        outcome = {one.topic_name: Refusal(one.error_code, one.error_message) for one in response.responses}
        if missing := [topic for topic in self.topics if topic not in outcome]:
            raise bad_answer(self.api.name, broker, f"leaves out {missing[0]}")
        return outcome


def _known(number: int) -> int | None:
    return number if number >= 0 else None

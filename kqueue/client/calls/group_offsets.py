"""OffsetCommit and OffsetFetch: the offsets of a group, for those who are no member of it.

Topics are named, not given by their ids, which OffsetCommit and OffsetFetch take from version 10
on: what a group has committed is then found without asking for metadata first, and where a topic is
gone, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kqueue.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

T = TypeVar("T")
NO_GENERATION = -1
VERSION_GROUPS = 8  # of OffsetFetch: several groups at once
VERSION_STABLE = 7


class OffsetAndMetadata(NamedTuple):
    """A group's place in a partition: the offset of the next record that it wants; `leader_epoch`
    -1: not known.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitOffsets:
    api = BY_MODULE["offset_commit"]
    versions = (2, 9)
    repeatable = True

    def __init__(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.group = group
        self.offsets = offsets

    def request(self, version: int) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=NO_GENERATION,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=one.offset,
                            committed_leader_epoch=one.leader_epoch,
                            committed_metadata=one.metadata,
                        )
                        for index, one in parts
                    ],
                )
                for topic, parts in by_topic(self.offsets).items()
            ],
        )

    def result(self, version: int, response: OffsetCommitResponse, broker: str) -> None:
        told = {
            TopicPartition(topic.name, one.partition_index): one.error_code
            for topic in response.topics
            for one in topic.partitions
        }
        for place in self.offsets:
            code = told.get(place)
            if code is None:
                raise bad_answer(self.api.name, broker, f"leaves out {place}")
            if code:
                raise response_error(code, self.api.name, broker, place, f"group {self.group!r}")


class FetchCommitted:
    """`places`: None: all in which the group has committed anything."""

    api = BY_MODULE["offset_fetch"]
    versions = (2, 9)
    repeatable = True

    def __init__(self, group: str, places: Iterable[TopicPartition] | None, *, stable: bool) -> None:
        self.group = group
        asked = None if places is None else by_topic((place, None) for place in places)
        self.places = (
            None if asked is None else [(topic, [index for index, _ in parts]) for topic, parts in asked.items()]
        )
        self.stable = stable

    def request(self, version: int) -> OffsetFetchRequest:
        stable = self.stable and version >= VERSION_STABLE
        if version >= VERSION_GROUPS:
            many = self._topics(OffsetFetchRequestTopics)
            return OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=self.group, topics=many)], require_stable=stable
            )
        topics = self._topics(OffsetFetchRequestTopic)
        return OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=stable)

    def _topics(self, kind: Callable[..., T]) -> list[T] | None:
        return (
            None
            if self.places is None
            else [kind(name=topic, partition_indexes=indexes) for topic, indexes in self.places]
        )

    def result(
        self, version: int, response: OffsetFetchResponse, broker: str
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        code, rows = response.error_code, _rows(response)
        if version >= VERSION_GROUPS:
            if [one.group_id for one in response.groups] != [self.group]:
                raise bad_answer(self.api.name, broker, f"is not about group {self.group!r}")
            code = response.groups[0].error_code
        if code:
            raise response_error(code, self.api.name, broker, about=f"group {self.group!r}")
        found = {}
        for place, one in rows:
            if one.error_code:
                raise response_error(one.error_code, self.api.name, broker, place, f"group {self.group!r}")
            if one.committed_offset >= 0:
                found[place] = OffsetAndMetadata(one.committed_offset, one.committed_leader_epoch, one.metadata or "")
        return found


def _rows(
    response: OffsetFetchResponse,
) -> Iterator[tuple[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]:
    for topic in response.topics:
        for one in topic.partitions:
            yield TopicPartition(topic.name, one.partition_index), one
    for group in response.groups:
        for each in group.topics:
            for row in each.partitions:
                yield TopicPartition(each.name, row.partition_index), row

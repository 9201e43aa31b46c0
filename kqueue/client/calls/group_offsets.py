"""OffsetCommit and OffsetFetch: a group's offsets, for clients that are not members of it.

Requests name topics and do not use topic ids (version 10 and later). So a group's offsets can be
fetched without metadata, and for deleted topics too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from kqueue.client.errors import ClientError
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
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
    """A committed position: the offset of the next record to read. `leader_epoch` -1: unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitOffsets:
    """OffsetCommit of a group without members."""

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
                            committed_offset=position.offset,
                            committed_leader_epoch=position.leader_epoch,
                            committed_metadata=position.metadata,
                        )
                        for index, position in parts
                    ],
                )
                for topic, parts in by_topic(self.offsets).items()
            ],
        )

    def result(self, version: int, response: OffsetCommitResponse, broker: str) -> None:
        codes = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        failed: dict[TopicPartition, ClientError] = {}
        for topic_partition in self.offsets:
            code = codes.get(topic_partition)
            if code is None:
                raise bad_answer(self.api.name, broker, f"leaves out {topic_partition}")
            if code:
                failed[topic_partition] = response_error(
                    code, self.api.name, broker, topic_partition, about=f"group {self.group!r}"
                )
        if failed:
            first = next(iter(failed.values()))
            first.failed = failed
            first.done = dict.fromkeys(partition for partition in self.offsets if partition not in failed)
            raise first


class FetchCommitted:
    """OffsetFetch. `partitions`: None: all for which the group has committed an offset."""

    api = BY_MODULE["offset_fetch"]
    versions = (2, 9)
    repeatable = True

    def __init__(self, group: str, partitions: Iterable[TopicPartition] | None, *, stable: bool) -> None:
        self.group = group
        requested = None if partitions is None else by_topic((topic_partition, None) for topic_partition in partitions)
        self.partitions = (
            None
            if requested is None
            else [(topic, [index for index, _ in parts]) for topic, parts in requested.items()]
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
            if self.partitions is None
            else [kind(name=topic, partition_indexes=indexes) for topic, indexes in self.partitions]
        )

    def result(
        self, version: int, response: OffsetFetchResponse, broker: str
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self.check_group(version, response, broker)
        committed = {}
        for topic_partition, one in _rows(response):
            if one.error_code:
                raise response_error(
                    one.error_code, self.api.name, broker, topic_partition, about=f"group {self.group!r}"
                )
            if one.committed_offset >= 0:
                committed[topic_partition] = OffsetAndMetadata(
                    one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                )
        return committed

    def check_group(self, version: int, response: OffsetFetchResponse, broker: str) -> None:
        """Check that the response is about the group, without an error of the whole group."""
        code = response.error_code
        if version >= VERSION_GROUPS:
            if [one.group_id for one in response.groups] != [self.group]:
                raise bad_answer(self.api.name, broker, f"is not about group {self.group!r}")
            code = response.groups[0].error_code
        if code:
            raise response_error(code, self.api.name, broker, about=f"group {self.group!r}")


class FindPending:
    """OffsetFetch; the result are the partitions whose offset an open transaction may replace."""

    api = BY_MODULE["offset_fetch"]
    versions = (VERSION_STABLE, 9)
    repeatable = True

    def __init__(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        self._fetch = FetchCommitted(group, partitions, stable=True)

    def request(self, version: int) -> OffsetFetchRequest:
        return self._fetch.request(version)

    def result(self, version: int, response: OffsetFetchResponse, broker: str) -> set[TopicPartition]:
        self._fetch.check_group(version, response, broker)
        return {
            topic_partition
            for topic_partition, row in _rows(response)
            if row.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        }


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

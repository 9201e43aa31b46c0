"""DescribeLogDirs: the data folders of one broker, their volumes, and the size of each replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


@dataclass(frozen=True, slots=True)
class LogDir:
    """A data folder of a broker.

    Attributes:
        path: as the broker names it.
        code: of the error that made the folder offline; 0: none. An offline folder has no sizes.
        sizes: bytes of each replica, without indexes.
        future_sizes: bytes of each replica that is being moved here from another folder.
        total_bytes, usable_bytes: of the volume; None: not reported (before Kafka 3.3).
        is_cordoned: no new replica is placed here (Kafka 4.3).
    """

    path: str
    code: int
    sizes: Mapping[TopicPartition, int]
    future_sizes: Mapping[TopicPartition, int]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False

    @property
    def size(self) -> int:
        """Bytes of all replicas, those that are being moved here too."""
        return sum(self.sizes.values()) + sum(self.future_sizes.values())


class DescribeLogDirs:
    """DescribeLogDirs of one broker. `partitions`: None: all."""

    api = BY_MODULE["describe_log_dirs"]
    versions = (0, 5)
    repeatable = True

    def __init__(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self.partitions = None if partitions is None else list(partitions)

    def request(self, version: int) -> DescribeLogDirsRequest:
        if self.partitions is None:
            return DescribeLogDirsRequest(topics=None)
        topics = by_topic(dict.fromkeys(self.partitions))
        return DescribeLogDirsRequest(
            topics=[
                DescribableLogDirTopic(topic=name, partitions=[index for index, _ in parts])
                for name, parts in topics.items()
            ]
        )

    def result(self, version: int, response: DescribeLogDirsResponse, broker: str) -> list[LogDir]:
        # each broker has a folder: before version 3 an empty answer is the only sign of a refusal
        code = response.error_code or (0 if response.results else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if code:
            raise response_error(code, self.api.name, broker)
        return [self._log_dir(result, broker) for result in response.results]

    def _log_dir(self, result: DescribeLogDirsResult, broker: str) -> LogDir:
        sizes: dict[TopicPartition, int] = {}
        future_sizes: dict[TopicPartition, int] = {}
        for topic in result.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                by_partition = future_sizes if row.is_future_key else sizes
                if row.partition_size < 0 or partition in by_partition:
                    what = f"has {partition} twice, or with a size below 0 ({row.partition_size})"
                    raise bad_answer(self.api.name, broker, what)
                by_partition[partition] = row.partition_size
        return LogDir(
            result.log_dir,
            result.error_code,
            sizes,
            future_sizes,
            _known(result.total_bytes),
            _known(result.usable_bytes),
            result.is_cordoned,
        )


def _known(value: int) -> int | None:
    return None if value < 0 else value

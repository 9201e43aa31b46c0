"""Fetch: whole record batches as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kqueue.client.calls.contract import PartitionResult
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.records.any_format import iter_any_batches
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

VERSION_IDS = 13  # topics are named by their ids
VERSIONS = (4, 18)
NO_SESSION = -1
NOTHING = memoryview(b"")


class AbortedTxn(NamedTuple):
    """An aborted transaction of a producer.

    Its records begin at `first_offset` and end at the producer's next marker. Readers with
    read_committed skip them.
    """

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """The records of one partition from an offset on.

    Attributes:
        records: concatenated batches as the broker stores them, compressed or not; message sets of
            old formats too. The first batch may begin before the requested offset. The last may be
            truncated (`iter_batches` and `iter_any_records` skip it). Empty: no records yet. It is
            a view of the whole response and keeps that memory alive: copy small parts that are
            kept.
        high_watermark, last_stable_offset, log_start_offset: -1 where the broker is too old to
            report them.
        aborted: with read_committed, the aborted transactions that `records` still contains.
    """

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTxn, ...] = ()

    @property
    def next_offset(self) -> int | None:
        """The offset after the last whole batch; None if there is none. Reads every batch header.

        Raises: CorruptBatch: the records are not batches.
        """
        next_offset = None
        for _, unit in iter_any_batches(self.records):
            next_offset = unit.next_offset
        return next_offset


class Fetch:
    """Takes the fetch offset of each partition."""

    api = BY_MODULE["fetch"]
    is_answered = True

    def __init__(
        self, *, isolation: int, max_bytes: int, partition_max_bytes: int, min_bytes: int, max_wait_ms: int
    ) -> None:
        self.isolation = isolation
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes
        self.min_bytes = min_bytes
        self.wait_ms = max_wait_ms

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        return VERSIONS if cluster.have_ids(topics) else (VERSIONS[0], VERSION_IDS - 1)

    def is_repeatable(self, requested: int) -> bool:
        return True

    def request(
        self, version: int, requested: Mapping[TopicPartition, int], cluster: MetadataCache, deadline: Deadline
    ) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=min(self.wait_ms, deadline.broker_timeout_ms),
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation,
            session_epoch=NO_SESSION,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=cluster.topic_id(topic),
                    partitions=[
                        FetchPartition(
                            partition=index,
                            current_leader_epoch=cluster.leader_epoch(TopicPartition(topic, index)),
                            fetch_offset=offset,
                            partition_max_bytes=self.partition_max_bytes,
                        )
                        for index, offset in parts
                    ],
                )
                for topic, parts in by_topic(requested).items()
            ],
        )

    def results(
        self, version: int, response: FetchResponse, requested: Mapping[TopicPartition, int], cluster: MetadataCache
    ) -> Iterator[PartitionResult[FetchedRecords]]:
        if response.error_code:
            for topic_partition in requested:
                yield PartitionResult(topic_partition, response.error_code, _fetched(PartitionData()))
            return
        names = (
            {cluster.topic_id(topic_partition.topic): topic_partition.topic for topic_partition in requested}
            if version >= VERSION_IDS
            else {}
        )
        for topic in response.responses:
            name = names.get(topic.topic_id, topic.topic_id.hex()) if version >= VERSION_IDS else topic.topic
            for partition in topic.partitions:
                topic_partition = TopicPartition(name, partition.partition_index)
                message = (
                    f"from offset {requested.get(topic_partition)}"
                    if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                    else None
                )
                yield PartitionResult(topic_partition, partition.error_code, _fetched(partition), message)


def _fetched(partition: PartitionData) -> FetchedRecords:
    return FetchedRecords(
        records=partition.records if isinstance(partition.records, memoryview) else NOTHING,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted=tuple(
            AbortedTxn(transaction.producer_id, transaction.first_offset)
            for transaction in partition.aborted_transactions or ()
        ),
    )

"""Fetch: whole record batches, as the bytes that they are."""

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
    """A transaction that was aborted: of this producer, what begins at `first_offset` and ends at
    its next marker is not to be seen.
    """

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """What a partition has from an offset on.

    Attributes:
        records: batches one after another, as the broker keeps them, compressed or not, old message sets too. The first may begin before
            the offset that was asked for; the last may be cut off (`iter_batches` and `iter_any_records` pass over it). Empty: there is
            nothing yet. A view of the whole answer's memory, which it keeps alive: copy what is to stay, if that is little.
        high_watermark, last_stable_offset, log_start_offset: -1 where the broker is too old to tell.
        aborted: in read_committed, the aborted transactions among the records, which hold their records nevertheless.
    """

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTxn, ...] = ()

    @property
    def next_offset(self) -> int | None:
        """Where to go on: behind the last whole batch; None if there is none. Costs a look at each
        batch's header.

        Raises: CorruptBatch: what came are no batches.
        """
        found = None
        for _, unit in iter_any_batches(self.records):
            found = unit.next_offset
        return found


class Fetch:
    """What is asked of each partition: the offset to begin at."""

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

    def is_repeatable(self, asked: int) -> bool:
        return True

    def request(
        self, version: int, asked: Mapping[TopicPartition, int], cluster: MetadataCache, deadline: Deadline
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
                for topic, parts in by_topic(asked).items()
            ],
        )

    def answers(
        self, version: int, response: FetchResponse, asked: Mapping[TopicPartition, int], cluster: MetadataCache
    ) -> Iterator[PartitionResult[FetchedRecords]]:
        if response.error_code:
            for place in asked:
                yield PartitionResult(place, response.error_code, _fetched(PartitionData()))
            return
        names = {cluster.topic_id(place.topic): place.topic for place in asked} if version >= VERSION_IDS else {}
        for topic in response.responses:
            name = names.get(topic.topic_id, topic.topic_id.hex()) if version >= VERSION_IDS else topic.topic
            for one in topic.partitions:
                place = TopicPartition(name, one.partition_index)
                words = f"from offset {asked.get(place)}" if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE else None
                yield PartitionResult(place, one.error_code, _fetched(one), words)


def _fetched(one: PartitionData) -> FetchedRecords:
    return FetchedRecords(
        records=one.records if isinstance(one.records, memoryview) else NOTHING,
        high_watermark=one.high_watermark,
        last_stable_offset=one.last_stable_offset,
        log_start_offset=one.log_start_offset,
        aborted=tuple(AbortedTxn(each.producer_id, each.first_offset) for each in one.aborted_transactions or ()),
    )

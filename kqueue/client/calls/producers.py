"""DescribeProducers and WriteTxnMarkers: what partitions know of producers, and the end of their
transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kqueue.client.calls.contract import PartitionResult
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kqueue.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

UNKNOWN = -1


class ProducerState(NamedTuple):
    """A producer in one partition.

    Attributes:
        last_sequence, coordinator_epoch: -1: unknown.
        last_timestamp_ms: of its last batch; -1: unknown.
        transaction_start: first offset of its open transaction; None: none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


class AbortMarker(NamedTuple):
    """The marker that aborts a transaction in one partition. Equal ones share a request."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class DescribeProducers:
    """Takes None for each partition."""

    api = BY_MODULE["describe_producers"]
    wait_ms = 0
    is_answered = True

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        return 0, 0

    def is_repeatable(self, requested: None) -> bool:
        return True

    def request(
        self, version: int, requested: Mapping[TopicPartition, None], cluster: MetadataCache, deadline: Deadline
    ) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=[index for index, _ in parts])
                for topic, parts in by_topic(requested).items()
            ]
        )

    def results(
        self,
        version: int,
        response: DescribeProducersResponse,
        requested: Mapping[TopicPartition, None],
        cluster: MetadataCache,
    ) -> Iterator[PartitionResult[list[ProducerState]]]:
        for topic in response.topics:
            for partition in topic.partitions:
                producers = [
                    ProducerState(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.coordinator_epoch,
                        None if producer.current_txn_start_offset == UNKNOWN else producer.current_txn_start_offset,
                    )
                    for producer in partition.active_producers
                ]
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                yield PartitionResult(topic_partition, partition.error_code, producers, partition.error_message)


class AbortTransactions:
    """WriteTxnMarkers; takes for each partition the marker that aborts a transaction there."""

    api = BY_MODULE["write_txn_markers"]
    wait_ms = 0
    is_answered = True

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        return 0, 1  # version 2 adds rules for the coordinator's own markers

    def is_repeatable(self, requested: AbortMarker) -> bool:
        return True  # a second marker finds no open transaction

    def request(
        self, version: int, requested: Mapping[TopicPartition, AbortMarker], cluster: MetadataCache, deadline: Deadline
    ) -> WriteTxnMarkersRequest:
        by_marker: dict[AbortMarker, list[TopicPartition]] = {}
        for topic_partition, marker in requested.items():
            by_marker.setdefault(marker, []).append(topic_partition)
        return WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=False,
                    coordinator_epoch=marker.coordinator_epoch,
                    topics=[
                        WritableTxnMarkerTopic(name=topic, partition_indexes=[index for index, _ in parts])
                        for topic, parts in by_topic((partition, None) for partition in partitions).items()
                    ],
                )
                for marker, partitions in by_marker.items()
            ]
        )

    def results(
        self,
        version: int,
        response: WriteTxnMarkersResponse,
        requested: Mapping[TopicPartition, AbortMarker],
        cluster: MetadataCache,
    ) -> Iterator[PartitionResult[None]]:
        for marker in response.markers:
            for topic in marker.topics:
                for partition in topic.partitions:
                    topic_partition = TopicPartition(topic.name, partition.partition_index)
                    yield PartitionResult(topic_partition, partition.error_code, None)

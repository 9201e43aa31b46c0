"""Appends records to a topic, each to the partition that its key chooses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from kqueue.base.clock import wall_ms
from kqueue.client import Client, TopicPartition
from kqueue.console.messages.record_form import NewRecord
from kqueue.records.builder import BatchBuilder
from kqueue.records.partitioners import Partitioner, make_partitioner

BATCH_BYTES = 256 * 1024


class TopicProducer:
    """Collects records of one topic, and appends them in batches.

    Args:
        partitions: the numbers of the topic's partitions.
        partitioner: which partition a record without one has; None: by the key as Kafka's clients
            do, and one for all records without a key.
    Durability: every in-sync replica has a record when `flush` returns. If the answer is lost, the
        records may have been appended: they are not sent again.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        partitions: Sequence[int],
        partitioner: Partitioner | None = None,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._client = client
        self._topic = topic
        self._partitions = sorted(partitions)
        self._now_ms = now_ms
        self._partitioner = partitioner or make_partitioner()
        self._batches: dict[int, BatchBuilder] = defaultdict(BatchBuilder)
        self.appended = 0

    def add(self, record: NewRecord) -> None:
        """Take a record; append its batch if it is full.

        Raises: ValueError: there is no such partition. ClientError. InvalidRecord.
        """
        partition = record.partition
        if partition is None:
            partition = self._partitioner.partition(record.key, len(self._partitions), topic=self._topic)
        elif partition not in self._partitions:
            raise ValueError(f"{self._topic} has the partitions 0 to {self._partitions[-1]}, not {partition}")
        timestamp_ms = self._now_ms() if record.timestamp_ms is None else record.timestamp_ms
        batch = self._batches[partition]
        batch.append(timestamp_ms, record.key, record.value, record.headers)
        if batch.size_estimate >= BATCH_BYTES:
            self._send(partition)

    def flush(self) -> list[tuple[int, int]]:
        """Append what waits; return the partition and first offset of each batch.

        Raises: ClientError.
        """
        return [self._send(partition) for partition in sorted(self._batches)]

    def _send(self, partition: int) -> tuple[int, int]:
        batch = self._batches.pop(partition)
        count = batch.count
        result = self._client.produce({TopicPartition(self._topic, partition): batch.build()})
        self.appended += count
        return partition, next(iter(result.values())).base_offset

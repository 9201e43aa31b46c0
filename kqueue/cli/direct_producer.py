"""Sends the records that kafka-python refuses, by our own client: those without key and value, and
those with a header that has no value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from kqueue.base.errors import KqueueError
from kqueue.cli.client_access import client_security
from kqueue.cli.formats import RecordToSend
from kqueue.client.topic_partition import TopicPartition
from kqueue.records.builder import BatchBuilder

if TYPE_CHECKING:
    from kqueue.client import Client

BATCH_BYTES = 128 * 1024
ACKS = {"0": 0, "1": 1, "all": -1}


def needs_direct_producer(record: RecordToSend) -> bool:
    """Return whether kafka-python refuses the record."""
    return (record.key is None and record.value is None) or any(value is None for _, value in record.headers)


class DirectProducer:
    """Collects records and sends them as one batch for each partition.

    Args:
        acks: "0", "1" or "all".
        refused: called with the number of records of a batch that the broker refused, and why.
    Durability: a batch whose confirmation is lost counts as refused; it is not sent again.
    """

    def __init__(
        self, bootstrap: str, topic: str, codec: str, acks: str, refused: Callable[[int, BaseException], None]
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._codec = codec
        self._acks = ACKS[acks]
        self._refused = refused
        self._client: Client | None = None
        self._batches: dict[int, BatchBuilder] = defaultdict(lambda: BatchBuilder(codec=self._codec))

    @property
    def is_empty(self) -> bool:
        """Whether no record waits."""
        return not self._batches

    def add(self, record: RecordToSend, partition: int, timestamp_ms: int) -> None:
        """Send a record with the next `flush`, or now if its batch is full."""
        batch = self._batches[partition]
        batch.append(timestamp_ms, record.key, record.value, record.headers)
        if batch.size_estimate >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send all that waits."""
        from kqueue.client import Client

        for partition, batch in self._batches.items():
            if self._client is None:
                self._client = Client(self._bootstrap, client_id="kqueue-produce", security=client_security())
            count = batch.count
            try:
                self._client.produce({TopicPartition(self._topic, partition): batch.build()}, acks=self._acks)
            except KqueueError as error:
                self._refused(count, error)
        self._batches.clear()

    def close(self) -> None:
        """Close the connection. What waits is dropped."""
        if self._client is not None:
            self._client.close()

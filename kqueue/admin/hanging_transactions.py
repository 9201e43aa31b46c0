"""Hanging transactions: open in a partition, and unknown to their coordinator.

Consumers with isolation.level=read_committed read a partition up to its first open transaction, so
one that no coordinator will end blocks them until it is aborted by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.admin.transaction_states import is_missing
from kqueue.base.errors import KqueueError
from kqueue.client import AbortMarker, Client, ProducerState, TopicPartition


class HangingTransaction(NamedTuple):
    """An open transaction that no coordinator will end."""

    partition: TopicPartition
    producer: ProducerState

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "producer_id": self.producer.producer_id,
            "producer_epoch": self.producer.producer_epoch,
            "coordinator_epoch": self.producer.coordinator_epoch,
            "start_offset": self.producer.transaction_start,
            "last_timestamp": self.producer.last_timestamp_ms,
        }


def find_hanging_transactions(
    client: Client, partitions: Sequence[TopicPartition], oldest_ms: int
) -> list[HangingTransaction]:
    """Return the transactions without a batch since `oldest_ms` that no coordinator will end."""
    candidates = [
        HangingTransaction(partition, producer)
        for partition, producers in sorted(client.transactions.producers(partitions).items())
        for producer in producers
        if producer.transaction_start is not None and producer.last_timestamp_ms < oldest_ms
    ]
    if not candidates:
        return []
    producer_ids = sorted({candidate.producer.producer_id for candidate in candidates})
    listings = client.transactions.find(producer_ids=producer_ids)
    ids = {listing.producer_id: listing.transactional_id for listed in listings.values() for listing in listed}
    known = {producer_id: _open_partitions(client, id) for producer_id, id in ids.items()}
    return [each for each in candidates if each.partition not in known.get(each.producer.producer_id, ())]


def _open_partitions(client: Client, transactional_id: str) -> Sequence[TopicPartition]:
    try:
        return client.transactions.describe(transactional_id).partitions
    except KqueueError as error:
        if is_missing(error):  # it has expired since it was listed
            return ()
        raise


def abort_marker(producer: ProducerState) -> AbortMarker:
    """Return the marker that aborts a producer's open transaction in a partition."""
    # a producer without a marker so far has no coordinator epoch
    return AbortMarker(producer.producer_id, producer.producer_epoch, max(producer.coordinator_epoch, 0))

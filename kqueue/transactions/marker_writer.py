"""End markers of transactions, as the layer above writes them to partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kqueue.base.errors import KqueueError

TopicPartition = tuple[str, int]
"""A topic's name and the index of a partition."""
MarkerResults = dict[TopicPartition, KqueueError | None]
"""The result for each partition: None, or why its marker could not be written."""


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """The end of one transaction, for each partition that takes part in it.

    Attributes:
        producer_epoch: the epoch that the partitions record; a batch of a lower epoch is refused.
        commit: False: abort.
        coordinator_epoch: leader epoch of the partition of `__transaction_state`. None: that of
            the producer's last marker in each partition. A single broker has no other coordinator
            to fence, and a Kafka that goes on with its folder is not fenced by an epoch above its
            own.
        transaction_version: 2 if the producer's epoch was raised at the end (KIP-890), else 0 or 1.
    """

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int | None
    transaction_version: int
    partitions: list[TopicPartition]


class MarkerWriter(Protocol):
    """Writes the markers of a transaction."""

    def write(self, marker: TransactionMarker, done: Callable[[MarkerResults], None]) -> None:
        """Append the marker to each of its partitions.

        `done` is called once on the owner thread, when every marker is committed or refused,
        possibly before `write` returns. A partition that exists no more is reported with
        UnknownTopicOrPartition. A marker written twice ends nothing twice: the second finds no open
        transaction.
        """
        ...

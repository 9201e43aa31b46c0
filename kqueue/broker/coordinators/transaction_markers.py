"""Appends the end markers of transactions to their partitions.

A marker is a control batch with the producer's id and epoch; its key says commit or abort, its
value has the coordinator's epoch. A partition refuses markers of an earlier one. Source: KIP-98,
KIP-890; Kafka's handling of WriteTxnMarkers.

Durability: `done` reports a marker when it is committed: below the high watermark (see
`partition`). A crash before leaves any part of a transaction's markers; the coordinator finds the
transaction prepared in its log, and writes all of them once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import OFFSETS_TOPIC, Topics
from kqueue.log.results import AppendResult
from kqueue.records.batch import ABORT, COMMIT, control_key_value, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.transactions.marker_writer import MarkerResults, TopicPartition, TransactionMarker

logger = logging.getLogger("kqueue.broker")
Done = Callable[[MarkerResults], None]
GroupsDone = Callable[[int, int, bool], None]
"""Called with producer id, partition of `__consumer_offsets`, and whether the transaction
committed, when a marker in that topic is committed.
"""


class TransactionMarkers:
    """Appends markers for the coordinator and for WriteTxnMarkers. Belongs to the owner thread."""

    def __init__(
        self,
        topics: Topics,
        purgatory: Purgatory,
        timers: Timers,
        clock: Clock,
        *,
        on_group_marker: GroupsDone | None = None,
    ) -> None:
        self._topics = topics
        self._purgatory = purgatory
        self._clock = clock
        self._on_group_marker = on_group_marker
        self._slices = SliceQueue(timers, clock)

    def write(self, marker: TransactionMarker, done: Done) -> None:
        """Append the marker to its partitions, in slices if they are many.

        `done` is called once, when every marker is committed or refused, possibly before `write`
        returns. Errors: UnknownTopicOrPartition: there is no such partition, or it was deleted.
        InvalidProducerEpoch, TransactionCoordinatorFenced: the partition has seen a newer producer
        or coordinator. StorageFailed. RequestTimedOut: too many appends are deferred.
        """
        self._slices.add(self._append_all(marker, done))

    def _append_all(self, marker: TransactionMarker, done: Done) -> SlicedWork[None]:
        written = _WrittenMarker(marker, done, self._on_group_marker)
        for topic_partition in marker.partitions:
            try:
                written.add(topic_partition, *self._append(topic_partition, marker))
            except KqueueError as error:
                written.results[topic_partition] = error
            # A bug of one partition must not keep the markers from the others: the coordinator
            # would wait for `done` without end, and the transaction stay prepared.
            except Exception as error:
                events.INTERNAL_ERROR.log(
                    logger,
                    "the end marker of producer %d for %s-%d failed",
                    producer_id=marker.producer_id,
                    topic=topic_partition[0],
                    partition=topic_partition[1],
                    exc_info=True,
                )
                written.results[topic_partition] = KqueueError(repr(error))
            yield None
        if written.is_settled():
            written.finish()
            return
        operation = DelayedOperation(written.keys(), None, lambda expired: True if written.is_settled() else None)
        self._purgatory.add(operation, lambda _: written.finish())

    def _append(
        self, topic_partition: TopicPartition, marker: TransactionMarker
    ) -> tuple[Partition, int | Promise[AppendResult]]:
        partition = self._topics.partition(*topic_partition)
        if partition.appends is None:
            return partition, append_marker(partition, marker, self._clock.wall_ms()).next_offset
        # behind the deferred appends of the transaction
        return partition, partition.defer_append(self._append_later(partition, marker), 0)

    def _append_later(self, partition: Partition, marker: TransactionMarker) -> SlicedWork[AppendResult]:
        yield None
        return append_marker(partition, marker, self._clock.wall_ms())


def append_marker(partition: Partition, marker: TransactionMarker, now_ms: int) -> AppendResult:
    """Append one marker now.

    Raises: what `ProducerStateManager.check_marker` and `Partition.append` raise.
        NotEnoughReplicas: rule 11.
    """
    partition.check_in_sync()
    producers, epoch = partition.log.producers, marker.coordinator_epoch
    if epoch is None:
        epoch = producers.coordinator_epoch_of(marker.producer_id)
    producers.check_marker(marker.producer_id, marker.producer_epoch, epoch, marker.transaction_version)
    builder = BatchBuilder(
        producer_id=marker.producer_id, epoch=marker.producer_epoch, transactional=True, control=True
    )
    builder.append(now_ms, *control_key_value(COMMIT if marker.commit else ABORT, epoch))
    batch = memoryview(builder.build())
    return partition.append(batch, read_header(batch), client=False)


class _WrittenMarker:
    """One marker that is appended to partitions, until it is committed in all of them."""

    def __init__(self, marker: TransactionMarker, done: Done, on_group_marker: GroupsDone | None) -> None:
        self.results: MarkerResults = {}
        self._marker = marker
        self._done = done
        self._on_group_marker = on_group_marker
        self._pending: list[tuple[TopicPartition, Partition, int | Promise[AppendResult]]] = []

    def add(self, topic_partition: TopicPartition, partition: Partition, end: int | Promise[AppendResult]) -> None:
        """Add an appended marker by its end offset, or a deferred one by its promise."""
        self._pending.append((topic_partition, partition, end))

    def keys(self) -> tuple[object, ...]:
        """Return what wakes the markers that are not committed."""
        partitions = [partition for _, partition, _ in self._pending]
        return (*partitions, *(end for _, _, end in self._pending if isinstance(end, Promise)))

    def is_settled(self) -> bool:
        """Whether every marker is committed or failed.

        Stops at the first that is not, so that n partitions cost n looks, not n squared.
        """
        pending = self._pending
        while pending:
            topic_partition, partition, end = pending[-1]
            try:
                if isinstance(end, Promise):
                    if not end.done:
                        return False
                    end = end.result().next_offset
                    pending[-1] = topic_partition, partition, end
                if not partition.is_committed(end):
                    return False
            except KqueueError as error:
                self._settle(topic_partition, error)
            else:
                self._settle(topic_partition, None)
            pending.pop()
        return True

    def _settle(self, topic_partition: TopicPartition, error: KqueueError | None) -> None:
        self.results[topic_partition] = error
        topic, index = topic_partition
        if error is None and topic == OFFSETS_TOPIC and self._on_group_marker is not None:
            self._on_group_marker(self._marker.producer_id, index, self._marker.commit)

    def finish(self) -> None:
        """Report the results."""
        self._done(self.results)

"""The log of a coordinator: an internal topic, such as `__consumer_offsets`.

The topic is created when a coordinator first needs it, a partition's folder at its first append.
Crash: an append whose `done(None)` was called is below the high watermark (see `partition`).

Where others have replicas, an append waits for all that are in sync, as with acks=all. One that is
in the log fails only when the leadership is lost, not when the in-sync set gets too small: it would
count once the set has grown, and memory would differ from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import KqueueError, RecordTooLarge
from kqueue.base.text import counted
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC, Topic, Topics
from kqueue.broker.upkeep.record_deletion import RecordDeletion
from kqueue.groups.log.group_log import EndMarker, LogEntry, TransactionalProducer, TransactionalRecord
from kqueue.groups.log.records import OFFSET_VERSION
from kqueue.log.recovery.read_verification import DamagedBatch
from kqueue.records.batch import (
    ABORT,
    COMMIT,
    BatchHeader,
    Record,
    decode_control,
    iter_batches,
    iter_records,
    read_header,
)
from kqueue.records.builder import build_batch
from kqueue.replication.errors import NotEnoughReplicasAfterAppend
from kqueue.share.state_log import StateEntry

logger = logging.getLogger("kqueue.broker")
Done = Callable[[KqueueError | None], None]
CoordinatorRecord = tuple[bytes, bytes | None]


def is_committed(partition: Partition, offset: int) -> bool:
    """Return whether the high watermark covers `offset`. Raises: StorageFailed, NotLeader."""
    try:
        return partition.is_committed(offset)
    except NotEnoughReplicasAfterAppend:
        return False


class InternalTopicLog:
    """A coordinator's log (`groups.log.group_log.GroupLog`, `transactions.transaction_log`) on the
    partitions of an internal topic.
    """

    load_bytes = 1 << 20
    """Bytes that a replay reads at once."""

    def __init__(self, topic: str, partition_count: int, topics: Topics, purgatory: Purgatory, clock: Clock) -> None:
        """`partition_count`: of the topic when it is created."""
        self._topic = topic
        self._partition_count = partition_count
        self._topics = topics
        self._purgatory = purgatory
        self._clock = clock
        self._queue: list[Callable[[KqueueError | None], None]] = []  # appends that wait for the topic

    @property
    def partition_count(self) -> int:
        """Number of partitions that the topic has or will have; constant, because it maps ids to
        partitions.
        """
        topic = self._topics.find(self._topic)
        return len(topic.partitions) if topic is not None else self._partition_count

    def append(self, partition: int, records: Sequence[CoordinatorRecord], done: Done) -> None:
        """Append `records` as one batch; call `done(None)` when they are committed, else
        `done(error)`.
        """
        now = self._clock.wall_ms()
        batch = build_batch(Record(index, now, key, value) for index, (key, value) in enumerate(records))
        deletes_only = all(value is None for _, value in records)  # a batch of tombstones has no limit
        self._append_batch(partition, batch, done, limited=not deletes_only)

    def used_partitions(self, has_data: Callable[[str, int], bool]) -> Iterator[Partition]:
        """Yield the partitions with records to replay, so that a start does not open fifty empty
        logs.
        """
        topic: Topic | None = self._topics.find(self._topic)
        if topic is not None:
            yield from (partition for partition in topic.partitions if has_data(self._topic, partition.index))

    def _batches(
        self, partition: Partition, what: str, *, skips_damage: bool = True
    ) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Yield every committed batch of a partition, oldest first, for the replay at start.
        Blocks.

        Checksums are verified.

        Args:
            skips_damage: damaged batches are logged, as lost `what`, and skipped.
        Raises: CorruptBatch, StorageFailed.
        """
        offset, end = partition.log_start_offset, partition.log_end_offset
        while offset < end:
            try:
                data = partition.read_now(offset, self.load_bytes).read()
            except DamagedBatch as error:
                if not skips_damage:
                    raise
                # older records are better than none; the log has reported the damage
                lost = range(offset, error.damaged_range.next_offset)
                events.INTERNAL_TOPIC_DAMAGED.log(
                    logger,
                    "%r: damaged: %s at offsets %d to %d are lost",
                    partition=partition,
                    what=what,
                    first_offset=lost[0],
                    last_offset=lost[-1],
                )
                offset = lost.stop
                continue
            if not data:
                return
            for position, header in iter_batches(data):
                offset = header.next_offset
                yield header, list(iter_records(data, position))

    def _append_batch(self, partition: int, batch: bytearray, done: Done, *, limited: bool = True) -> None:
        """Append one encoded batch; see `append`. `limited`: refuse one above max.message.bytes."""

        def append(error: KqueueError | None) -> None:
            if error is not None:
                done(error)
            else:
                self._append_now(self._topics.partition(self._topic, partition), batch, done, limited=limited)

        if self._topics.find(self._topic) is not None and not self._queue:
            append(None)
            return
        # all appends queue while the topic is created, to keep their order
        self._queue.append(append)
        if len(self._queue) == 1:
            self._create_topic()

    def _create_topic(self) -> None:
        try:
            promise = self._topics.create_on_demand(self._topic)
        except KqueueError as error:
            self._drain(error)
            return
        self._when(lambda: promise.done, lambda: promise.error, (promise,), self._drain)

    def _drain(self, error: KqueueError | None) -> None:
        queue, self._queue = self._queue, []
        for append in queue:
            append(error)

    def _append_now(self, partition: Partition, batch: bytearray, done: Done, *, limited: bool) -> None:
        size_max = self._topics.get(self._topic).config["max.message.bytes"]
        header = read_header(batch)
        try:
            if limited and len(batch) > size_max:
                what = f"{counted(header.record_count, 'record')} of {len(batch)} bytes"
                raise RecordTooLarge(f"{what}, where max.message.bytes of {self._topic} is {size_max}")
            partition.check_in_sync()
            end = partition.append(memoryview(batch), header, client=False).next_offset
        except KqueueError as error:
            done(error)
            return
        failure: list[KqueueError] = []

        def committed() -> bool:
            try:
                return is_committed(partition, end)
            except KqueueError as error:
                failure.append(error)
                return True

        self._when(committed, lambda: failure[0] if failure else None, (partition,), done)

    def _when(
        self, ready: Callable[[], bool], error: Callable[[], KqueueError | None], keys: tuple[object, ...], done: Done
    ) -> None:
        """Call `done(error())` when `ready()`: now, or after a wake of one of `keys`."""
        if ready():
            done(error())
            return
        self._purgatory.add(
            DelayedOperation(keys, None, lambda expired: True if ready() else None), lambda _: done(error())
        )


class ShareTopicLog(InternalTopicLog):
    """The coordinator's log (see `share.state_log.StateLog`) on the partitions of
    `__share_group_state`.
    """

    def __init__(
        self, config: Config, topics: Topics, purgatory: Purgatory, clock: Clock, deletion: RecordDeletion
    ) -> None:
        count = int(config["share.coordinator.state.topic.num.partitions"])
        super().__init__(SHARE_TOPIC, count, topics, purgatory, clock)
        self._deletion = deletion
        self.load_bytes = int(config["share.coordinator.load.buffer.size"])

    def read(self, partition: Partition) -> Iterator[StateEntry]:
        """Yield every committed record of a partition, oldest first, for the replay at start.
        Blocks.

        Raises: CorruptBatch: also where later records could be read. Without the damaged ones,
            records that were accepted would be delivered again. StorageFailed.
        """
        for header, records in self._batches(partition, "states of share groups", skips_damage=False):
            if not header.is_control:
                yield from (
                    StateEntry(record.offset, record.key, record.value)
                    for record in records
                    if record.key is not None and record.offset >= partition.log_start_offset
                )

    def end_offset(self, partition: int) -> int:
        """Return an offset that the next record will have or exceed."""
        try:
            return self._topics.partition(self._topic, partition).log_end_offset
        except KqueueError:  # the append that follows reports it
            return 0

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete the records below `offset`; one that fails is repeated by a later call.

        Durability: see `RecordDeletion`. After a crash the records may be there again, and a replay
        gives the same.
        """
        try:
            self._deletion.delete_before(self._topics.get(self._topic), partition, offset, internal=True)
        except KqueueError as error:
            events.INTERNAL_TOPIC_NOT_TRIMMED.log(
                logger,
                "redundant records of %s-%d are kept for now: %s",
                topic=self._topic,
                partition=partition,
                error=error,
            )


class TransactionTopicLog(InternalTopicLog):
    """The coordinator's log (see `transactions.transaction_log.TransactionLog`) on the partitions
    of `__transaction_state`.
    """

    def __init__(self, config: Config, topics: Topics, purgatory: Purgatory, clock: Clock) -> None:
        count = int(config["transaction.state.log.num.partitions"])
        super().__init__(TRANSACTIONS_TOPIC, count, topics, purgatory, clock)
        self.load_bytes = int(config["transaction.state.log.load.buffer.size"])

    def read(self, partition: Partition) -> Iterator[CoordinatorRecord]:
        """Yield every committed record of a partition, oldest first, for the replay at start.
        Blocks.

        Raises: CorruptBatch: also where later records could be read. Without the damaged ones an
            older decision or epoch would count again. StorageFailed.
        """
        for header, records in self._batches(partition, "states of transactions", skips_damage=False):
            if not header.is_control:
                yield from ((record.key, record.value) for record in records if record.key is not None)


class OffsetsTopicLog(InternalTopicLog):
    """The coordinator's log (see `groups.coordinator.GroupLog`) on the partitions of
    `__consumer_offsets`.
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        purgatory: Purgatory,
        clock: Clock,
        *,
        offset_version: int = OFFSET_VERSION,
    ) -> None:
        self.offset_version = offset_version
        super().__init__(OFFSETS_TOPIC, int(config["offsets.topic.num.partitions"]), topics, purgatory, clock)

    def append(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        done: Done,
        producer: TransactionalProducer | None = None,
    ) -> None:
        """Append `records` as one batch, with `producer` in its transaction; see
        `InternalTopicLog.append`.

        The batch of a producer has the base sequence 0, as Kafka's: sequences are not checked here.
        """
        if producer is None:
            super().append(partition, records, done)
            return
        now = self._clock.wall_ms()
        batch = build_batch(
            (Record(index, now, key, value) for index, (key, value) in enumerate(records)),
            transactional=True,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            base_sequence=0,
        )
        self._append_batch(partition, batch, done)

    def read(self, partition: Partition) -> Iterator[LogEntry]:
        """Yield every committed record and end marker of a partition, oldest first, for the replay
        at start. Blocks.

        Checksums are verified; damaged records are logged and skipped.
        Raises: CorruptBatch, StorageFailed.
        """
        for header, records in self._batches(partition, "group commits"):
            if header.is_control:
                if records:  # compaction may keep an empty batch for its producer's sequence
                    kind, _ = decode_control(records[0])
                    if kind in (COMMIT, ABORT):
                        yield EndMarker(header.producer_id, kind == COMMIT)
                continue
            for record in records:
                if record.key is None:
                    continue
                if header.is_transactional:
                    yield TransactionalRecord(header.producer_id, record.key, record.value)
                else:
                    yield record.key, record.value

"""The log of the group coordinator: the internal topic `__consumer_offsets`.

The topic is created when a group first needs it, a partition's folder at its first append. Crash:
an append whose `done(None)` was called is below the high watermark (see `partition`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError, RecordTooLarge
from kqueue.base.settings import Config
from kqueue.broker.partition import Partition
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.broker.topics import OFFSETS_TOPIC, Topic, Topics
from kqueue.log.recovery.read_verification import DamagedBatch
from kqueue.records.batch import COMMIT, Record, decode_control, iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch

logger = logging.getLogger("kqueue.broker")
Done = Callable[[KqueueError | None], None]
GroupRecord = tuple[bytes, bytes | None]
LOAD_BYTES = 1 << 20


class OffsetsTopicLog:
    """The coordinator's log (see `groups.coordinator.GroupLog`) on the partitions of
    `__consumer_offsets`.
    """

    def __init__(self, config: Config, topics: Topics, purgatory: Purgatory, clock: Clock) -> None:
        self._config = config
        self._topics = topics
        self._purgatory = purgatory
        self._clock = clock
        self._queue: list[tuple[int, Sequence[GroupRecord], Done]] = []

    @property
    def partition_count(self) -> int:
        """Number of partitions that the topic has or will have; constant, because it maps groups to
        partitions.
        """
        topic = self._topics.find(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else int(self._config["offsets.topic.num.partitions"])

    def append(self, partition: int, records: Sequence[GroupRecord], done: Done) -> None:
        """Append `records` as one batch; call `done(None)` when they are committed, else
        `done(error)`.
        """
        topic = self._topics.find(OFFSETS_TOPIC)
        if topic is not None and not self._queue:
            self._append(topic.partition(partition), records, done)
            return
        # all appends queue while the topic is created, to keep their order
        self._queue.append((partition, records, done))
        if len(self._queue) == 1:
            self._create_topic()

    def read(self, partition: Partition) -> Iterator[GroupRecord]:
        """Yield every committed record of a partition, oldest first, for the replay at start.
        Blocks.

        Checksums are verified; damaged records are logged and skipped. Records of a transaction
        follow at its commit marker, those of an aborted or open one never.
        Raises: CorruptBatch, StorageFailed.
        """
        open_transactions: dict[int, list[GroupRecord]] = {}
        offset, end = partition.log_start_offset, partition.log_end_offset
        while offset < end:
            try:
                data = partition.read_now(offset, LOAD_BYTES).read()
            except DamagedBatch as error:
                # older commits are better than none; the log has reported the damage
                lost = range(offset, error.damaged_range.next_offset)
                logger.error("%r: damaged: group commits at offsets %d to %d are lost", partition, lost[0], lost[-1])
                offset = lost.stop
                continue
            if not data:
                return
            for position, header in iter_batches(data):
                offset = header.next_offset
                records = iter_records(data, position)
                if header.is_control:
                    transaction = open_transactions.pop(header.producer_id, [])
                    marker = next(records, None)  # compaction may keep an empty batch for its producer's sequence
                    if marker is not None and decode_control(marker)[0] == COMMIT:
                        yield from transaction
                    continue
                group_records = [(record.key, record.value) for record in records if record.key is not None]
                if header.is_transactional:
                    open_transactions.setdefault(header.producer_id, []).extend(group_records)
                else:
                    yield from group_records

    def used_partitions(self, has_data: Callable[[str, int], bool]) -> Iterator[Partition]:
        """Yield the partitions with records to replay, so that a start does not open fifty empty
        logs.
        """
        topic: Topic | None = self._topics.find(OFFSETS_TOPIC)
        if topic is not None:
            yield from (partition for partition in topic.partitions if has_data(OFFSETS_TOPIC, partition.index))

    def _create_topic(self) -> None:
        try:
            promise = self._topics.create_on_demand(OFFSETS_TOPIC)
        except KqueueError as error:
            self._drain(error)
            return
        self._when(lambda: promise.done, lambda: promise.error, (promise,), self._drain)

    def _drain(self, error: KqueueError | None) -> None:
        queue, self._queue = self._queue, []
        for partition, records, done in queue:
            if error is not None:
                done(error)
            else:
                self._append(self._topics.partition(OFFSETS_TOPIC, partition), records, done)

    def _append(self, partition: Partition, records: Sequence[GroupRecord], done: Done) -> None:
        now = self._clock.wall_ms()
        batch = build_batch(Record(index, now, key, value) for index, (key, value) in enumerate(records))
        size_max = self._topics.get(OFFSETS_TOPIC).config["max.message.bytes"]
        try:
            if len(batch) > size_max and any(
                value is not None for _, value in records
            ):  # a batch of tombstones has no limit
                what = f"{len(records)} records of {len(batch)} bytes"
                raise RecordTooLarge(f"{what}, where max.message.bytes of {OFFSETS_TOPIC} is {size_max}")
            end = partition.append(memoryview(batch), read_header(batch), client=False).next_offset
        except KqueueError as error:
            done(error)
            return
        failure: list[KqueueError] = []

        def committed() -> bool:
            try:
                return partition.is_committed(end)
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

"""The log of the group coordinator: the internal topic `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.broker.internal_topic_log import CoordinatorRecord, Done, InternalTopicLog
from kqueue.broker.partition import Partition
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.topics import OFFSETS_TOPIC, Topics
from kqueue.groups.log.group_log import EndMarker, LogEntry, TransactionalProducer, TransactionalRecord
from kqueue.groups.log.records import OFFSET_VERSION
from kqueue.records.batch import ABORT, COMMIT, Record, decode_control
from kqueue.records.builder import build_batch


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

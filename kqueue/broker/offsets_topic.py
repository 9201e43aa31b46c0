"""The log of the group coordinator: the internal topic `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.base.clock import Clock
from kqueue.base.settings import Config
from kqueue.broker.internal_topic_log import CoordinatorRecord, InternalTopicLog
from kqueue.broker.partition import Partition
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.topics import OFFSETS_TOPIC, Topics
from kqueue.records.batch import COMMIT, decode_control


class OffsetsTopicLog(InternalTopicLog):
    """The coordinator's log (see `groups.coordinator.GroupLog`) on the partitions of
    `__consumer_offsets`.
    """

    def __init__(self, config: Config, topics: Topics, purgatory: Purgatory, clock: Clock) -> None:
        super().__init__(OFFSETS_TOPIC, int(config["offsets.topic.num.partitions"]), topics, purgatory, clock)

    def read(self, partition: Partition) -> Iterator[CoordinatorRecord]:
        """Yield every committed record of a partition, oldest first, for the replay at start.
        Blocks.

        Checksums are verified; damaged records are logged and skipped. Records of a transaction
        follow at its commit marker, those of an aborted or open one never.
        Raises: CorruptBatch, StorageFailed.
        """
        open_transactions: dict[int, list[CoordinatorRecord]] = {}
        for header, records in self._batches(partition, "group commits"):
            if header.is_control:
                transaction = open_transactions.pop(header.producer_id, [])
                # compaction may keep an empty batch for its producer's sequence
                if records and decode_control(records[0])[0] == COMMIT:
                    yield from transaction
                continue
            group_records = [(record.key, record.value) for record in records if record.key is not None]
            if header.is_transactional:
                open_transactions.setdefault(header.producer_id, []).extend(group_records)
            else:
                yield from group_records

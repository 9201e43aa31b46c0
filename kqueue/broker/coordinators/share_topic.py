"""The log of the share coordinator: the internal topic `__share_group_state`."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import KqueueError
from kqueue.broker.coordinators.internal_topic_log import InternalTopicLog
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import SHARE_TOPIC, Topics
from kqueue.broker.upkeep.record_deletion import RecordDeletion
from kqueue.share.state_log import StateEntry

logger = logging.getLogger("kqueue.broker")


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
            logger.warning("redundant records of %s-%d are kept for now: %s", self._topic, partition, error)

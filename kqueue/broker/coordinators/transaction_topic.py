"""The log of the transaction coordinator: the internal topic `__transaction_state`."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.broker.coordinators.internal_topic_log import CoordinatorRecord, InternalTopicLog
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import TRANSACTIONS_TOPIC, Topics


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

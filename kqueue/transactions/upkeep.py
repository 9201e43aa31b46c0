"""Upkeep of transactions: the timeout aborts those that take too long, expired ids are removed."""

from __future__ import annotations

import logging

from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.transactions.config import TransactionConfig
from kqueue.transactions.transaction_end import TransactionEnder
from kqueue.transactions.transaction_log import Done
from kqueue.transactions.transaction_state import IDLE, TransactionEvent, TransactionState, after
from kqueue.transactions.transaction_store import Transaction, TransactionStore

logger = logging.getLogger("kqueue.transactions")
TOMBSTONES_MAX = 500
"""Tombstones in one batch."""


class TransactionUpkeep:
    """Aborts and removes in slices, at intervals.

    Durability: an abort is as that of a client. Expired ids are forgotten once their tombstones are
    in the log.
    Thread: the owner thread.
    """

    def __init__(
        self, config: TransactionConfig, store: TransactionStore, ender: TransactionEnder, clock: Clock, timers: Timers
    ) -> None:
        self._config = config
        self._store = store
        self._ender = ender
        self._clock = clock
        slices = SliceQueue(timers, clock)
        timers.every(config.timeout_check_interval_ms, lambda: slices.add_once("time out", self.abort_timed_out()))
        timers.every(config.expiration_check_interval_ms, lambda: slices.add_once("expire", self.remove_expired()))

    def abort_timed_out(self) -> SlicedWork[None]:
        """Abort the transactions that are older than their timeout; their producers are fenced."""
        now_ms = self._clock.wall_ms()
        for transaction in self._store.ongoing():
            metadata = transaction.metadata
            if (
                self._store.serves(transaction)
                and transaction.pending is None
                and metadata.state is TransactionState.ONGOING
                and metadata.has_timeout
                and metadata.start_ms + metadata.timeout_ms < now_ms
            ):
                logger.info(
                    "aborting the transaction of %.100r (producer id %d): it is older than its timeout of %d ms",
                    metadata.transactional_id,
                    metadata.producer_id,
                    metadata.timeout_ms,
                )
                self._ender.fence(transaction, _log_failure(transaction))
            yield None

    def remove_expired(self) -> SlicedWork[None]:
        """Remove the ids that were not used for `transactional.id.expiration.ms`."""
        last_used_ms = self._clock.wall_ms() - self._config.expiration_ms
        by_partition: dict[int, list[Transaction]] = {}
        for transaction in list(self._store):
            metadata = transaction.metadata
            is_idle = transaction.pending is None and metadata.state in IDLE
            if is_idle and metadata.updated_ms <= last_used_ms and self._store.serves(transaction):
                partition = self._store.partitions.of(metadata.transactional_id)
                self._store.hold(transaction, metadata._replace(state=after(metadata.state, TransactionEvent.EXPIRE)))
                by_partition.setdefault(partition, []).append(transaction)
            yield None
        for partition, expired in by_partition.items():
            for start in range(0, len(expired), TOMBSTONES_MAX):
                batch = expired[start : start + TOMBSTONES_MAX]
                self._store.remove(batch, partition, _log_removal(partition, len(batch)))
                yield None


def _log_failure(transaction: Transaction) -> Done:
    def done(error: KqueueError | None) -> None:
        if error is not None:
            logger.warning("the transaction of %.100r can't be aborted: %s", transaction.transactional_id, error)

    return done


def _log_removal(partition: int, count: int) -> Done:
    def done(error: KqueueError | None) -> None:
        if error is not None:
            logger.warning("%d expired transactional ids of partition %d can't be removed: %s", count, partition, error)

    return done

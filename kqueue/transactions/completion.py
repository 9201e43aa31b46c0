"""Completion: end markers for every partition of a decided transaction, then its last record.

The decision is in the log when completion begins, so a crash repeats it: markers that are written
twice end nothing twice. A partition whose marker can't be written is retried until it can. When
another broker becomes the coordinator, completion ends here, and that broker repeats it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import InvalidProducerEpoch, KqueueError, UnknownTopicId, UnknownTopicOrPartition
from kqueue.base.timers import Timer, Timers
from kqueue.transactions.marker_writer import MarkerResults, MarkerWriter, TopicPartition, TransactionMarker
from kqueue.transactions.transaction_state import TransactionState
from kqueue.transactions.transaction_store import Transaction, TransactionStore

logger = logging.getLogger("kqueue.transactions")
RETRY_MS_MIN = 100
RETRY_MS_MAX = 10_000
RETRIES_LOGGED = 3
RETRIES_PER_LINE = 60
"""The first retries are logged, then one in ten minutes."""
WAIT_MS_MAX = 1_000
"""Longest time that a client waits for the markers of a decision that is in the log."""
ENDED_OTHERWISE = (UnknownTopicOrPartition, UnknownTopicId, InvalidProducerEpoch)
"""Errors after which a partition has no open transaction: deleted, or used by a newer epoch."""


class TransactionCompleter:
    """Completes transactions in `PREPARE_COMMIT` and `PREPARE_ABORT`.

    Durability: see `complete`.
    Thread: the owner thread.
    """

    def __init__(
        self,
        store: TransactionStore,
        markers: MarkerWriter,
        clock: Clock,
        timers: Timers,
        coordinator_epoch: Callable[[int], int | None],
    ) -> None:
        self._store = store
        self._markers = markers
        self._clock = clock
        self._timers = timers
        self._coordinator_epoch = coordinator_epoch
        self._running: dict[str, _Completion] = {}

    def complete(self, transaction: Transaction, done: Callable[[], None]) -> None:
        """Write the markers, then the record of the complete transaction.

        `done` is called when it is complete, when the first try failed, or after `WAIT_MS_MAX`.
        Other changes are refused until it is complete.

        Durability: the decision is in the log. After a crash, the start calls this again.
        """
        self._store.hold(transaction, transaction.metadata.completed(self._clock.wall_ms()))
        run = _Completion(self._store, self._markers, self._timers, self._clock, transaction, done)
        transactional_id = transaction.transactional_id
        self._running[transactional_id] = run
        run.on_complete = lambda: self._running.pop(transactional_id)
        run.start(self._coordinator_epoch(self._store.partitions.of(transactional_id)))

    def stop(self, partition: int) -> None:
        """End the completions of the transactional ids that a partition of the log keeps.

        Their clients are answered: the decision is in the log.
        """
        for transactional_id, run in list(self._running.items()):
            if self._store.partitions.of(transactional_id) == partition:
                del self._running[transactional_id]
                run.stop()


class _Completion:
    """One transaction on its way from the decision to its last record."""

    def __init__(
        self,
        store: TransactionStore,
        markers: MarkerWriter,
        timers: Timers,
        clock: Clock,
        transaction: Transaction,
        done: Callable[[], None],
    ) -> None:
        self._store = store
        self._markers = markers
        self._timers = timers
        self._clock = clock
        self._transaction = transaction
        self._missing: list[TopicPartition] = sorted(transaction.metadata.partitions)
        self._retry_ms = RETRY_MS_MIN
        self._retries = 0
        self._done: Callable[[], None] | None = done
        self._coordinator_epoch: int | None = None
        self._retry_timer: Timer | None = None
        self._is_stopped = False
        self.on_complete: Callable[[], object] = lambda: None
        self._answer_timer = timers.at(clock.monotonic_ms() + WAIT_MS_MAX, self._answer)

    def start(self, coordinator_epoch: int | None) -> None:
        """Begin."""
        self._coordinator_epoch = coordinator_epoch
        self._write_markers()

    def stop(self) -> None:
        """Write nothing any more."""
        self._is_stopped = True
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        self._answer()

    def _write_markers(self) -> None:
        if not self._missing:
            self._append()
            return
        metadata = self._transaction.metadata
        self._markers.write(
            TransactionMarker(
                metadata.producer_id,
                metadata.epoch,
                metadata.state is TransactionState.PREPARE_COMMIT,
                self._coordinator_epoch,
                metadata.client_version,
                self._missing,
            ),
            self._written,
        )

    def _written(self, results: MarkerResults) -> None:
        if self._is_stopped:
            return
        failed = {
            partition: error
            for partition in self._missing
            if (error := results.get(partition)) is not None and not isinstance(error, ENDED_OTHERWISE)
        }
        # Only those that failed are tried again. One that is not in the results has its marker.
        self._missing = list(failed)
        if not failed:
            self._append()
            return
        (topic, index), error = next(iter(failed.items()))
        self._retry(
            f"{len(failed)} end markers are missing, the first of {topic}-{index}: {error}", self._write_markers
        )

    def _append(self) -> None:
        self._store.append_pending(self._transaction, self._appended)

    def _appended(self, error: KqueueError | None) -> None:
        if self._is_stopped:
            return
        if error is None:
            self.on_complete()
            self._answer()
        else:
            self._retry(f"its last record can't be written: {error}", self._append)

    def _retry(self, reason: str, run: Callable[[], None]) -> None:
        metadata = self._transaction.metadata
        if self._retries < RETRIES_LOGGED or self._retries % RETRIES_PER_LINE == 0:
            events.TRANSACTION_NOT_COMPLETED.log(
                logger,
                "the transaction of %.100r (producer id %d) stays in %s: %s; retrying in %d ms",
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                state=metadata.state.value,
                reason=reason,
                retry_ms=self._retry_ms,
            )
        self._retries += 1
        self._retry_timer = self._timers.at(self._clock.monotonic_ms() + self._retry_ms, run)
        self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)
        # The client need not wait for a partition that is away: the decision is in the log.
        self._answer()

    def _answer(self) -> None:
        self._answer_timer.cancel()
        done, self._done = self._done, None
        if done is not None:
            done()

"""All transactional ids in memory, and the changes that are being appended to the log.

The invariant: `Transaction.metadata` is what a replay of `__transaction_state` gives. A change is
`pending` until its record is committed; one whose append fails leaves no trace. Only the epoch may
be higher than in the log, where the log went back behind its producer (see `base.issued_ids`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kqueue.base.coordinators import CoordinatorPartitions, PartitionedTable, coordinator_error
from kqueue.base.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    KqueueError,
    MalformedMessage,
    PolicyViolation,
)
from kqueue.base.issued_ids import ProducerEpochs
from kqueue.base.sliced_task import SlicedWork
from kqueue.transactions import records
from kqueue.transactions.config import TransactionConfig
from kqueue.transactions.transaction_log import Done, TransactionLog, TransactionRecord
from kqueue.transactions.transaction_metadata import NO_EPOCH, TransactionMetadata
from kqueue.transactions.transaction_state import PREPARED, TransactionState

ID_LENGTH_MAX = 1000
"""Characters in a transactional id, so that the ids of all clients fit into memory."""


class Transaction:
    """One transactional id. `pending`: the metadata that the next record will hold, or None."""

    __slots__ = ("metadata", "pending")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        self.pending: TransactionMetadata | None = None

    @property
    def transactional_id(self) -> str:
        """The transactional id."""
        return self.metadata.transactional_id

    def check_settled(self) -> None:
        """Raise ConcurrentTransactions while a change is pending."""
        if self.pending is not None:
            raise ConcurrentTransactions(
                f"transactional id {self.transactional_id!r} is becoming {self.pending.state.value}"
            )

    def check_undecided(self) -> None:
        """Raise ConcurrentTransactions while the markers of a decision are being written."""
        if self.metadata.state in PREPARED:
            raise ConcurrentTransactions(
                f"the transaction of {self.transactional_id!r} is in {self.metadata.state.value}: "
                "its markers are being written"
            )


class TransactionStore:
    """The table of transactional ids, over their log.

    Durability: when `done(None)` of a change is called, its record is committed in the log.
    Thread: the owner thread.
    """

    def __init__(
        self,
        config: TransactionConfig,
        log: TransactionLog,
        transaction_version: Callable[[], int],
        producer_epochs: ProducerEpochs,
    ) -> None:
        self._config = config
        self._log = log
        self._transaction_version = transaction_version
        self._producer_epochs = producer_epochs
        self.partitions = CoordinatorPartitions("transactional id", lambda: log.partition_count)
        self._transactions: PartitionedTable[str, Transaction] = PartitionedTable(self.partitions.of)
        self._ongoing: dict[str, Transaction] = {}
        self._partitions_held = 0  # in all transactions, including pending changes

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def __len__(self) -> int:
        return len(self._transactions)

    def ongoing(self) -> list[Transaction]:
        """Return the transactions that have begun and not ended."""
        return list(self._ongoing.values())

    def serves(self, transaction: Transaction) -> bool:
        """Whether this is what the table has for its id, and its partition is active; else it was
        removed or unloaded.
        """
        transactional_id = transaction.transactional_id
        is_active = self.partitions.is_active(self.partitions.of(transactional_id))
        return is_active and self._transactions.get(transactional_id) is transaction

    def find(self, transactional_id: str) -> Transaction | None:
        """Return a transactional id, or None.

        Raises: NotCoordinator: another broker has it, or its partition of the log could not be
            read. CoordinatorLoadInProgress: not yet.
        """
        self.partitions.check_readable(transactional_id)
        return self._transactions.get(transactional_id)

    def get(self, transactional_id: str) -> Transaction:
        """Return a transactional id. Raises: InvalidProducerIdMapping: unknown; as `find`."""
        transaction = self.find(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping(f"no producer has the transactional id {transactional_id!r}")
        return transaction

    # --- changes

    def check_new_id(self, transactional_id: str) -> None:
        """Check the limits of ids. Raises PolicyViolation."""
        if len(transactional_id) > ID_LENGTH_MAX:
            raise PolicyViolation(
                f"a transactional id has at most {ID_LENGTH_MAX} characters, this one has {len(transactional_id)}"
            )
        if len(self._transactions) >= self._config.ids_max:
            raise PolicyViolation(
                f"transactional id {transactional_id!r} is refused: there are {len(self._transactions)} already "
                f"(kqueue.max.transactional.ids)"
            )

    def add(self, metadata: TransactionMetadata) -> Transaction:
        """Add an id that no record names yet; a failed first change removes it."""
        assert metadata.epoch == NO_EPOCH
        transaction = self._transactions[metadata.transactional_id] = Transaction(metadata)
        return transaction

    def check_partitions(self, transaction: Transaction, added: int) -> None:
        """Check the limits of partitions. Raises PolicyViolation."""
        count = len(transaction.metadata.partitions) + added
        if count > self._config.partitions_max:
            raise PolicyViolation(
                f"a transaction has at most {self._config.partitions_max} partitions, that of "
                f"{transaction.transactional_id!r} would have {count} (kqueue.max.transaction.partitions)"
            )
        if self._partitions_held + added > self._config.all_partitions_max:
            raise PolicyViolation(
                f"all open transactions have {self._partitions_held} partitions, {added} more would exceed "
                f"{self._config.all_partitions_max} (kqueue.max.transactions.partitions)"
            )

    def change(self, transaction: Transaction, metadata: TransactionMetadata, done: Done) -> None:
        """Append `metadata`, then let it take effect, and call `done(None)`.

        If it can't be appended, nothing has changed, and `done` is called with the error for the
        client.
        """
        self.hold(transaction, metadata)

        def appended(error: KqueueError | None) -> None:
            if error is not None:
                self._release(transaction)
            done(error)

        self.append_pending(transaction, appended)

    def hold(self, transaction: Transaction, metadata: TransactionMetadata) -> None:
        """Mark `metadata` as pending, which keeps every other change away."""
        assert transaction.pending is None, "one change at a time"
        transaction.pending = metadata
        self._partitions_held += self._growth(transaction)

    def append_pending(self, transaction: Transaction, done: Done) -> None:
        """Append the pending metadata. After an error it is still pending, and may be appended
        again.
        """
        pending = transaction.pending
        assert pending is not None

        def appended(error: KqueueError | None) -> None:
            if error is None:
                self._apply(transaction)
            done(None if error is None else coordinator_error(error))

        key = records.transaction_key(pending.transactional_id)
        value = records.transaction_value(pending, self._transaction_version())
        partition = self.partitions.of(pending.transactional_id)
        settle = self.partitions.begin_write(partition, appended)
        # None: the partition has left, and `appended` was called with the error.
        if settle is not None:
            self._log.append(partition, [(key, value)], settle)

    def remove(self, transactions: Sequence[Transaction], partition: int, done: Done) -> None:
        """Append tombstones for ids of one partition; then forget them. They must be pending.

        If that fails, they stay, and nothing is pending. Those that were unloaded are left out.
        """
        transactions = [transaction for transaction in transactions if self.serves(transaction)]
        if not transactions:
            return
        tombstones: list[TransactionRecord] = [
            (records.transaction_key(transaction.transactional_id), None) for transaction in transactions
        ]

        def appended(error: KqueueError | None) -> None:
            for transaction in transactions:
                transaction.pending = None
                if error is None:
                    del self._transactions[transaction.transactional_id]
            done(error)

        settle = self.partitions.begin_write(partition, appended)
        if settle is not None:
            self._log.append(partition, tombstones, settle)

    def _apply(self, transaction: Transaction) -> None:
        before, pending = transaction.metadata, transaction.pending
        assert pending is not None
        transaction.metadata, transaction.pending = pending, None
        self._producer_epochs.note_producer_epoch(pending.producer_id, pending.epoch)
        self._partitions_held -= max(0, len(before.partitions) - len(pending.partitions))
        self._note_state(transaction)

    def _release(self, transaction: Transaction) -> None:
        self._partitions_held -= self._growth(transaction)
        transaction.pending = None
        # Its first record was not written: no replay would give it.
        if transaction.metadata.epoch == NO_EPOCH:
            del self._transactions[transaction.transactional_id]

    def _growth(self, transaction: Transaction) -> int:
        assert transaction.pending is not None
        return max(0, len(transaction.pending.partitions) - len(transaction.metadata.partitions))

    def _note_state(self, transaction: Transaction) -> None:
        if transaction.metadata.state is TransactionState.ONGOING:
            self._ongoing[transaction.transactional_id] = transaction
        else:
            self._ongoing.pop(transaction.transactional_id, None)

    # --- replay

    def load(self, partition: int, log_records: Iterable[TransactionRecord]) -> SlicedWork[list[Transaction]]:
        """Replay one partition of the log in steps; return its transactions.

        Raises: MalformedMessage: a record can't be read; nothing has changed.
        """
        latest: dict[bytes, bytes | None] = {}
        for key, value in log_records:
            # Only the last record of an id counts. Where compaction has not run yet, a busy id has
            # thousands.
            latest.pop(key, None)  # keeps the order of the log
            latest[key] = value
            yield None
        loaded = []
        try:
            for key, value in latest.items():
                transactional_id = records.read_key(key)
                if transactional_id is not None and value is not None:
                    loaded.append(Transaction(self._unissued(records.read_value(transactional_id, value))))
                yield None
        except MalformedMessage as error:
            raise MalformedMessage(f"partition {partition} of the transactions topic: {error}") from None
        # After all were read: a partition that can't be read leaves nothing behind.
        for transaction in loaded:
            self._transactions[transaction.transactional_id] = transaction
            self._partitions_held += len(transaction.metadata.partitions)
            self._note_state(transaction)
            yield None
        self.partitions.mark_loaded(partition)
        return loaded

    def _unissued(self, metadata: TransactionMetadata) -> TransactionMetadata:
        """Return loaded metadata, with another epoch if the log is older than its producer."""
        epoch = self._producer_epochs.loaded_producer_epoch(metadata.producer_id, metadata.epoch)
        return metadata if epoch == metadata.epoch else metadata.with_raised_epoch(epoch)

    def unload(self, partition: int) -> SlicedWork[None]:
        """Refuse the ids of a partition and fail its writes, now; return the work that removes them
        from memory.
        """
        self.partitions.mark_left(partition)
        return self._remove(partition)

    def _remove(self, partition: int) -> SlicedWork[None]:
        for transactional_id in self._transactions.keys_of(partition):
            transaction = self._transactions[transactional_id]
            if transaction.pending is not None:
                self._partitions_held -= self._growth(transaction)
                transaction.pending = None
            self._partitions_held -= len(transaction.metadata.partitions)
            self._ongoing.pop(transactional_id, None)
            del self._transactions[transactional_id]
            yield None

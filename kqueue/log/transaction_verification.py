"""Producers whose transaction the coordinator is asked about before their first batch is appended.

The coordinator's answer arrives later than it was given. A marker that is appended in between ends
the transaction, and a batch appended after it would stay open for ever: no transaction would hold
it. So a verification is one object per producer id, and the next batch or marker of the producer
removes it: an answer counts only while its verification is the current one.
Source: KIP-890, Kafka's VerificationGuard and VerificationStateEntry.
"""

from __future__ import annotations

from kqueue.base.errors import InvalidTransactionState, OutOfOrderSequence
from kqueue.records.batch import BatchHeader

VERIFICATIONS_MAX = 1000
"""Of one log; beyond it the oldest is dropped, and its producer has to repeat its batch."""


class Verification:
    """The pending or answered question about one producer's transaction.

    Attributes:
        epoch: the producer's.
        lowest_sequence: of all batches that asked; no other may be appended first.
        from_zero: a producer without batches here has to begin with sequence 0 (KIP-890).
        started_ms: wall clock.
    """

    __slots__ = ("epoch", "from_zero", "lowest_sequence", "started_ms")

    def __init__(self, epoch: int, sequence: int, started_ms: int, *, from_zero: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.started_ms = started_ms
        self.from_zero = from_zero

    def add(self, epoch: int, sequence: int) -> None:
        """Add another batch of the producer that asks."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """The verifications of one log, by producer id, oldest first."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def start(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, from_zero: bool) -> Verification:
        """Return the producer's verification, a new one if it has none."""
        verification = self._by_id.get(producer_id)
        if verification is None:
            if len(self._by_id) >= VERIFICATIONS_MAX:
                del self._by_id[next(iter(self._by_id))]
            verification = self._by_id[producer_id] = Verification(epoch, sequence, now_ms, from_zero=from_zero)
        verification.add(epoch, sequence)
        return verification

    def end(self, producer_id: int) -> None:
        """Remove the producer's verification: a batch or a marker of it was appended."""
        self._by_id.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove those that are older than `expiration_ms`."""
        for producer_id, verification in list(self._by_id.items()):
            if now_ms - verification.started_ms < expiration_ms:
                return
            del self._by_id[producer_id]

    def check(self, header: BatchHeader, verification: Verification | None, *, has_batches: bool) -> None:
        """Check the first batch of a transaction.

        Args:
            verification: what `start` returned before the coordinator was asked.
            has_batches: the log knows batches of the producer's epoch.
        Raises: InvalidTransactionState: `verification` is not the current one. OutOfOrderSequence:
            an earlier batch has to be appended first.
        """
        if verification is None or self._by_id.get(header.producer_id) is not verification:
            raise InvalidTransactionState(
                f"the batch of producer {header.producer_id} is not part of an ongoing transaction"
            )
        if verification.from_zero and header.base_sequence != 0 and not has_batches:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} has to begin with sequence 0, found {header.base_sequence}"
            )
        if header.base_sequence > verification.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id}: expected sequence {verification.lowest_sequence} first, "
                f"found {header.base_sequence}"
            )

from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidProducerEpoch, InvalidTransactionState, OutOfOrderSequence
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.transaction_verification import VERIFICATIONS_MAX, Verification
from kqueue.records.batch import ABORT, COMMIT, read_header
from kqueue.tests.log.helpers import START_MS, append, batch, end_transaction, open_log
from kqueue.tests.tables import for_each


def header(sequence: int, epoch: int = 0, producer_id: int = 1):  # type: ignore[no-untyped-def]
    return read_header(batch(b"x", producer_id=producer_id, epoch=epoch, base_sequence=sequence, transactional=True))


def start(producers: ProducerStateManager, sequence: int, epoch: int = 0, *, from_zero: bool = False) -> Verification:
    verification = producers.start_verification(1, epoch, sequence, START_MS, from_zero=from_zero)
    assert verification is not None
    return verification


def test_a_batch_without_its_verification_is_refused() -> None:
    producers = ProducerStateManager()
    with pytest.raises(InvalidTransactionState):
        producers.check_verified(header(0), None)
    verification = start(producers, 0)
    with pytest.raises(InvalidTransactionState):
        producers.check_verified(header(0), Verification(0, 0, START_MS, from_zero=False))
    producers.check_verified(header(0), verification)


@for_each("kind", [COMMIT, ABORT])
def test_a_marker_between_the_answer_and_the_append_ends_the_verification(kind: int) -> None:
    log = open_log()
    verification = start(log.producers, 0)
    end_transaction(log, kind, 1)
    again = start(log.producers, 0)
    with pytest.raises(InvalidTransactionState):  # the old answer is of a transaction that ended
        log.producers.check_verified(header(0), verification)
    log.producers.check_verified(header(0), again)


def test_the_first_batch_opens_the_transaction_and_later_ones_need_no_answer() -> None:
    log = open_log()
    verification = start(log.producers, 0)
    assert start(log.producers, 1) is verification  # pipelined requests share it
    append(log, b"a", producer_id=1, epoch=0, base_sequence=0, transactional=True)
    assert not log.producers.verifications
    assert log.producers.start_verification(1, 0, 1, START_MS, from_zero=False) is None
    log.producers.check_verified(header(1), None)
    newer = start(log.producers, 0, epoch=1)  # a newer epoch is another transaction
    log.producers.check_verified(header(0, epoch=1), newer)


def test_an_old_epoch_is_refused_before_the_coordinator_is_asked() -> None:
    log = open_log()
    append(log, b"a", producer_id=1, epoch=3, base_sequence=0)
    with pytest.raises(InvalidProducerEpoch):
        log.producers.start_verification(1, 2, 0, START_MS, from_zero=False)


def test_lowest_unverified_sequence_has_to_come_first() -> None:
    """The first is refused while the coordinator is busy; the second must not take its place."""
    producers = ProducerStateManager()
    verification = start(producers, 5)
    start(producers, 7)
    with pytest.raises(OutOfOrderSequence, match="expected sequence 5 first, found 7"):
        producers.check_verified(header(7), verification)
    producers.check_verified(header(5), verification)
    start(producers, 0, epoch=1)
    with pytest.raises(OutOfOrderSequence, match="expected sequence 0 first"):
        producers.check_verified(header(5, epoch=1), verification)


def test_with_raised_epochs_a_producer_without_batches_begins_with_zero() -> None:
    log = open_log()
    verification = start(log.producers, 3, from_zero=True)
    with pytest.raises(OutOfOrderSequence, match="has to begin with sequence 0"):
        log.producers.check_verified(header(3), verification)
    append(log, b"a", producer_id=1, epoch=0, base_sequence=0)
    log.producers.check_verified(header(1), start(log.producers, 1, from_zero=True))


def test_a_repeated_batch_needs_no_answer() -> None:
    log = open_log()
    append(log, b"a", producer_id=1, epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, COMMIT, 1)
    log.producers.check_verified(header(0), None)
    repeated = batch(b"x", producer_id=1, epoch=0, base_sequence=0, transactional=True)
    assert log.append(repeated, read_header(repeated), leader_epoch=0).duplicate


def test_verifications_are_bounded_and_expire() -> None:
    producers = ProducerStateManager()
    for producer_id in range(VERIFICATIONS_MAX + 10):
        producers.start_verification(producer_id, 0, 0, START_MS + producer_id, from_zero=False)
    assert len(producers.verifications) == VERIFICATIONS_MAX
    producers.expire(START_MS + VERIFICATIONS_MAX + 10, 15)
    assert len(producers.verifications) == 14
    producers.expire(START_MS + VERIFICATIONS_MAX + 100, 15)
    assert not producers.verifications

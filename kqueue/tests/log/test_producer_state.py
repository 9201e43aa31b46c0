from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import (
    CorruptBatch,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from kqueue.log.producer_state import EPOCH_MAX, SEQUENCE_MAX, EndTransactionMarker, ProducerStateManager
from kqueue.records.batch import ABORT, COMMIT, BatchHeader, Record, control_key_value, read_header
from kqueue.tests.log.helpers import START_MS, batch
from kqueue.tests.tables import for_each


def header(
    sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 1, transactional: bool = False
) -> BatchHeader:
    values = [b"x"] * count
    return read_header(
        batch(*values, producer_id=producer_id, epoch=epoch, base_sequence=sequence, transactional=transactional)
    )


def fed(*headers: BatchHeader) -> ProducerStateManager:
    producers = ProducerStateManager()
    offset = 0
    for one in headers:
        assert producers.check(one) is None
        producers.update(one, offset)
        offset += one.last_offset_delta + 1
    return producers


def test_sequences_have_to_follow_one_another() -> None:
    producers = fed(header(0, 3), header(3, 2))
    assert producers.check(header(5)) is None
    assert producers.end_offset == 5
    for sequence in (6, 4, 100):
        with pytest.raises(OutOfOrderSequence, match=f"expected sequence 5, found {sequence}"):
            producers.check(header(sequence))


def test_the_last_five_batches_are_known_again_and_older_ones_are_not() -> None:
    producers = fed(*(header(2 * number, 2) for number in range(7)))
    for number in range(2, 7):
        repeated = producers.check(header(2 * number, 2))
        assert repeated is not None
        assert (repeated.first_offset, repeated.last_offset) == (2 * number, 2 * number + 1)
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(2, 2))
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(12, 1))  # begins like a known one and ends elsewhere


def test_a_sequence_wraps_after_its_largest() -> None:
    producers = fed(header(SEQUENCE_MAX - 1, 3))
    assert producers.check(header(1)) is None
    repeated = producers.check(header(SEQUENCE_MAX - 1, 3))
    assert repeated is not None
    assert repeated.first_sequence == SEQUENCE_MAX - 1
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(2))


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """As in Kafka since KIP-360: what it sent before may have been cleaned away."""
    assert ProducerStateManager().check(header(500)) is None


def test_a_new_epoch_begins_with_sequence_zero_and_the_old_one_is_shut_out() -> None:
    producers = fed(header(0, 4, epoch=3))
    with pytest.raises(OutOfOrderSequence, match="has to begin with sequence 0, found 4"):
        producers.check(header(4, epoch=4))
    new = header(0, epoch=4)
    assert producers.check(new) is None
    producers.update(new, 4)
    with pytest.raises(InvalidProducerEpoch, match="wrote with epoch 4 before, now with 3"):
        producers.check(header(4, epoch=3))
    assert producers.check(header(0, 1, epoch=4)) is not None


def test_producers_do_not_mix() -> None:
    producers = fed(header(0, 5, producer_id=1), header(0, 2, producer_id=2))
    assert producers.check(header(5, producer_id=1)) is None
    assert producers.check(header(2, producer_id=2)) is None


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    producers = fed(header(0), header(1, transactional=True), header(2, transactional=True))
    assert producers.first_open() == 1
    with pytest.raises(InvalidTransactionState):
        producers.check(header(3))
    assert producers.end_transaction(header(-1, transactional=True), EndTransactionMarker(COMMIT, 2), 3) is None
    assert producers.first_open() > 10
    assert producers.by_id[1].coordinator_epoch == 2


def test_an_abort_is_told_with_the_last_stable_offset_of_the_moment() -> None:
    producers = ProducerStateManager()
    producers.update(header(0, producer_id=1, transactional=True), 0)
    producers.update(header(0, producer_id=2, transactional=True), 1)
    second = producers.end_transaction(header(-1, producer_id=2), EndTransactionMarker(ABORT, 0), 2)
    assert second is not None
    assert tuple(second) == (2, 1, 2, 0)
    first = producers.end_transaction(header(-1, producer_id=1), EndTransactionMarker(ABORT, 0), 3)
    assert first is not None
    assert tuple(first) == (1, 0, 3, 4)


def test_a_marker_without_a_transaction_only_raises_the_epoch() -> None:
    producers = fed(header(0, 3))
    assert producers.end_transaction(header(-1, epoch=1), EndTransactionMarker(ABORT, 5), 3) is None
    with pytest.raises(InvalidProducerEpoch):
        producers.check(header(3, epoch=0))
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(3, epoch=1))
    assert producers.check(header(0, epoch=1)) is None


def test_transaction_ended_above_the_high_watermark_is_unstable() -> None:
    producers = ProducerStateManager()
    producers.update(header(0, 5, transactional=True), 10)
    producers.end_transaction(header(-1), EndTransactionMarker(COMMIT, 0), 15)
    assert producers.first_unstable(12) == 10
    assert producers.first_unstable(15) == 10
    assert producers.first_unstable(16) > 100


def test_silent_producers_are_forgotten_but_for_open_transactions() -> None:
    producers = ProducerStateManager()
    producers.update(header(0, producer_id=1), 0, START_MS)
    producers.update(header(0, producer_id=2, transactional=True), 1, START_MS)
    producers.update(header(0, producer_id=3), 2, START_MS + 5000)
    assert producers.expire(START_MS + 999, 1000) == 0
    assert producers.expire(START_MS + 1000, 1000) == 1
    assert set(producers.by_id) == {2, 3}


def test_old_records_do_not_make_a_producer_look_silent() -> None:
    producers = ProducerStateManager()
    producers.update(header(0), 0, START_MS + 10_000_000)
    assert producers.expire(START_MS + 10_000_500, 1000) == 0


def test_markers_are_read_from_control_records() -> None:
    key, value = control_key_value(COMMIT, 7)
    assert EndTransactionMarker.of(Record(0, 0, key, value)) == (COMMIT, 7)
    assert EndTransactionMarker.of(Record(0, 0, b"\0\0\0\2", b"leader change")) is None
    with pytest.raises(CorruptBatch):
        EndTransactionMarker.of(Record(0, 0, key, b"\0"))
    with pytest.raises(CorruptBatch):
        EndTransactionMarker.of(Record(0, 0, b"\0", value))


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([b"data", b"commit", b"abort"])), max_size=40))
def test_the_first_open_transaction_is_the_oldest(events: list[tuple[int, bytes]]) -> None:
    producers = ProducerStateManager()
    began: dict[int, int] = {}
    for offset, (producer_id, event) in enumerate(events):
        if event == b"data":
            producers.update(header(0, producer_id=producer_id, transactional=True), offset)
            began.setdefault(producer_id, offset)
        else:
            kind = ABORT if event == b"abort" else COMMIT
            aborted = producers.end_transaction(
                header(-1, producer_id=producer_id), EndTransactionMarker(kind, 0), offset
            )
            first = began.pop(producer_id, None)
            assert (aborted is not None) == (kind == ABORT and first is not None)
            if aborted is not None:
                assert aborted.first_offset == first
                assert aborted.last_stable_offset == min([*began.values(), offset + 1])
        assert producers.first_open() == min(began.values(), default=2**63 - 1)


def ended(epoch: int, coordinator_epoch: int = 0) -> ProducerStateManager:
    """A producer whose transaction was ended by a marker of this epoch."""
    producers = fed(header(0, transactional=True))
    marker = EndTransactionMarker(COMMIT, coordinator_epoch)
    producers.end_transaction(header(0, epoch=epoch), marker, 1)
    return producers


@for_each("version", [0, 1, 2])
def test_markers_of_an_older_epoch_are_refused(version: int) -> None:
    with pytest.raises(InvalidProducerEpoch):
        ended(epoch=4).check_marker(1, 3, 0, version)
    ended(epoch=4).check_marker(1, 4, 0, version)  # a repeated marker ends nothing
    ProducerStateManager().check_marker(1, 0, 0, version)


def test_a_marker_of_raised_epochs_ends_only_a_transaction_of_a_lower_epoch() -> None:
    """A late marker of the transaction before must not end the one that began after it."""
    producers = fed(header(0, epoch=5, transactional=True))
    producers.check_marker(1, 5, 0, 1)
    with pytest.raises(InvalidProducerEpoch):
        producers.check_marker(1, 5, 0, 2)
    producers.check_marker(1, 6, 0, 2)
    # the last epoch can't be raised
    fed(header(0, epoch=EPOCH_MAX, transactional=True)).check_marker(1, EPOCH_MAX, 0, 2)


def test_markers_of_an_older_coordinator_are_fenced() -> None:
    producers = ended(epoch=0, coordinator_epoch=7)
    producers.check_marker(1, 0, 7, 0)
    with pytest.raises(TransactionCoordinatorFenced):
        producers.check_marker(1, 0, 6, 0)


def test_the_brokers_own_batches_have_an_epoch_but_no_sequence() -> None:
    producers = fed(header(0, epoch=3))
    assert producers.check(header(17, epoch=3), client=False) is None
    with pytest.raises(InvalidProducerEpoch):
        producers.check(header(0, epoch=2), client=False)


def test_ended_transactions_are_forgotten_below_the_high_watermark() -> None:
    """Also without a read: a partition without consumers has no other caller."""
    producers = fed(header(0, transactional=True), header(0, producer_id=2, transactional=True))
    for offset, producer_id in ((2, 1), (3, 2)):
        producers.end_transaction(header(0, producer_id=producer_id), EndTransactionMarker(COMMIT, 0), offset)
    assert producers.ended
    producers.forget_ended(3)
    assert producers.first_unstable(3) == 1
    producers.forget_ended(4)
    assert not producers.ended

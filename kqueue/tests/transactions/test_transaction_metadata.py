from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidProducerIdMapping, ProducerFenced
from kqueue.tests.tables import for_each
from kqueue.transactions.transaction_metadata import (
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    ProducerIdAndEpoch,
    TransactionMetadata,
    is_last_epoch,
)
from kqueue.transactions.transaction_state import TransactionState

NEW = TransactionMetadata("tx", 7)
READY = NEW.with_next_epoch(60_000, None, 1)
ONGOING = READY.with_partitions(frozenset({("t", 0)}), 5, 2)


def test_a_new_id_begins_at_epoch_0() -> None:
    assert READY.producer == (7, 0)
    assert (READY.state, READY.timeout_ms, READY.updated_ms, READY.start_ms) == (TransactionState.EMPTY, 60_000, 1, -1)
    assert READY.last_epoch == -1
    assert READY.has_timeout
    assert not READY._replace(timeout_ms=NO_TIMEOUT_MS).has_timeout


@for_each("expected, epoch, last", [(None, 4, -1), (3, 4, 3), (2, 3, 2)])
def test_the_next_epoch(expected: int | None, epoch: int, last: int) -> None:
    metadata = READY._replace(epoch=3, last_epoch=2).with_next_epoch(1, expected, 1)
    assert (metadata.epoch, metadata.last_epoch) == (epoch, last)


@for_each("expected", [0, 1, 4])
def test_another_epoch_is_fenced(expected: int) -> None:
    with pytest.raises(ProducerFenced, match="is at epoch 3"):
        READY._replace(epoch=3, last_epoch=2).with_next_epoch(1, expected, 1)


def test_only_the_current_producer_passes() -> None:
    READY.check_producer(READY.producer)
    with pytest.raises(InvalidProducerIdMapping, match="'tx' has producer id 7, the request names 8"):
        READY.check_producer(ProducerIdAndEpoch(8, 0))
    for epoch in (-1, 1):
        with pytest.raises(ProducerFenced, match=f"'tx' is at epoch 0, the request names {epoch}"):
            READY.check_producer(ProducerIdAndEpoch(7, epoch))


def test_a_transaction_starts_with_its_first_partitions() -> None:
    more = ONGOING.with_partitions(frozenset({("t", 1)}), 9, 2)
    assert (more.start_ms, more.updated_ms) == (5, 9)
    assert more.partitions == {("t", 0), ("t", 1)}
    again = more.ended(commit=True, now_ms=10, client_version=0).completed(11).with_partitions(frozenset(), 12, 0)
    assert again.start_ms == 12


@for_each("version, epoch, last", [(0, 0, -1), (1, 0, -1), (2, 1, 0)])
@for_each("commit", [False, True])
def test_v2_raises_the_epoch_at_each_end(version: int, epoch: int, last: int, commit: bool) -> None:
    prepared = ONGOING.ended(commit=commit, now_ms=8, client_version=version)
    assert prepared.state.value == ("PrepareCommit" if commit else "PrepareAbort")
    done = prepared.completed(9)
    assert done.state.value == ("CompleteCommit" if commit else "CompleteAbort")
    for metadata in (prepared, done):
        assert (metadata.producer_id, metadata.epoch, metadata.last_epoch) == (7, epoch, last)
        assert metadata.start_ms == 5
    assert prepared.partitions == {("t", 0)}
    assert done.partitions == set()


def test_an_abort_without_partitions_starts_when_it_ends() -> None:
    assert READY.ended(commit=False, now_ms=8, client_version=2).start_ms == 8


@for_each("version, last", [(0, -1), (2, 0)])
def test_fencing_raises_the_epoch_once(version: int, last: int) -> None:
    fenced = ONGOING.fenced(8, version)
    assert (fenced.state, fenced.epoch, fenced.last_epoch) == (TransactionState.PREPARE_ABORT, 1, last)
    assert fenced.completed(9).epoch == 1


def test_epochs_that_are_used_up_end_in_a_new_producer_id() -> None:
    last = ONGOING._replace(epoch=EPOCH_MAX - 1)
    assert last.epochs_exhausted
    assert is_last_epoch(EPOCH_MAX)
    assert not is_last_epoch(EPOCH_MAX - 2)
    prepared = last.ended(commit=True, now_ms=8, client_version=2, next_producer_id=8)
    assert prepared.producer == (7, EPOCH_MAX)
    assert prepared.next_producer_id == 8
    done = prepared.completed(9)
    assert done.producer == (8, 0)
    assert (done.previous_producer_id, done.next_producer_id, done.last_epoch) == (7, -1, EPOCH_MAX - 1)
    assert last._replace(epoch=EPOCH_MAX).fenced(9, 2).epoch == EPOCH_MAX


@for_each("same, last", [(True, EPOCH_MAX - 1), (False, -1)])
def test_a_new_producer_id(same: bool, last: int) -> None:
    metadata = READY._replace(epoch=EPOCH_MAX - 1).with_new_producer_id(9, 5, 6, same_producer=same)
    assert (metadata.producer, metadata.previous_producer_id, metadata.last_epoch) == ((9, 0), 7, last)
    assert (metadata.timeout_ms, metadata.updated_ms) == (5, 6)

"""Markers: retried until every partition has one, after a restart too."""

from __future__ import annotations

import logging

import pytest

from kqueue.base.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    KqueueError,
    StorageFailed,
    UnknownTopicOrPartition,
)
from kqueue.tests.tables import for_each
from kqueue.tests.transactions.support import P0, P1, P2, World, result
from kqueue.transactions.completion import RETRIES_LOGGED, RETRY_MS_MAX, RETRY_MS_MIN, WAIT_MS_MAX
from kqueue.transactions.transaction_state import TransactionState


def begun(*partitions: tuple[str, int]) -> tuple[World, tuple[int, int]]:
    world = World()
    producer = world.init()
    world.add(producer, *partitions)
    return world, producer


def test_a_marker_that_fails_is_written_later_and_the_others_once(caplog: pytest.LogCaptureFixture) -> None:
    world, producer = begun(P0, P1, P2)
    world.markers.broken[P1] = StorageFailed("disk")
    with caplog.at_level(logging.WARNING):
        assert world.end(producer) == (1000, 1)  # the decision is in the log
    assert "end markers are missing, the first of t-1: disk" in caplog.text
    assert world.state() is TransactionState.PREPARE_COMMIT
    with pytest.raises(ConcurrentTransactions):
        world.add((1000, 1), P0)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        world.advance(50 * RETRY_MS_MAX)
    assert caplog.text.count("end markers are missing") == RETRIES_LOGGED
    assert len(world.markers.written) == 2
    del world.markers.broken[P1]
    world.advance(RETRY_MS_MAX)
    assert sorted(partition for partition, _, _ in world.markers.ends()) == [P0, P1, P2]
    assert world.state() is TransactionState.COMPLETE_COMMIT


@for_each("error", [UnknownTopicOrPartition("gone"), InvalidProducerEpoch("newer")])
def test_a_partition_without_the_transaction_needs_no_marker(error: KqueueError) -> None:
    world, producer = begun(P0, P1)
    world.markers.broken[P0] = error
    world.end(producer, commit=False)
    assert world.state() is TransactionState.COMPLETE_ABORT
    assert world.markers.ends() == [(P1, False, 1)]


def test_the_client_waits_for_the_markers_but_not_for_ever() -> None:
    world, producer = begun(P0)
    world.markers.hold = True
    promise = world.start_end(producer)
    world.advance(WAIT_MS_MAX - 1)
    assert not promise.done
    world.advance(1)
    assert result(promise) == (1000, 1)
    world.markers.release()
    assert world.state() is TransactionState.COMPLETE_COMMIT


def test_a_last_record_that_fails_is_written_later() -> None:
    world, producer = begun(P0)
    world.markers.hold = True
    promise = world.start_end(producer)
    world.log.broken = StorageFailed("disk")
    world.markers.release()
    assert result(promise) == (1000, 1)
    assert world.state() is TransactionState.PREPARE_COMMIT
    world.log.broken = None
    world.advance(RETRY_MS_MIN)
    assert world.state() is TransactionState.COMPLETE_COMMIT
    assert len(world.markers.written) == 1


@for_each("commit", [True, False])
def test_a_restart_completes_what_is_decided(commit: bool) -> None:
    world, producer = begun(P0, P1)
    world.markers.hold = True
    world.start_end(producer, commit=commit)
    world = world.restarted()
    world.settle()
    assert world.markers.ends() == [(P0, commit, 1), (P1, commit, 1)]
    assert world.state().value == ("CompleteCommit" if commit else "CompleteAbort")
    assert world.restarted().end(producer, commit=commit) == (1000, 1)

"""Timeouts and expiry."""

from __future__ import annotations

import logging

import pytest

from kqueue.base.errors import ConcurrentTransactions, ProducerFenced, StorageFailed, TransactionalIdNotFound
from kqueue.tests.tables import for_each
from kqueue.tests.transactions.support import P0, World, result
from kqueue.transactions.transaction_state import TransactionState

CHECK_MS = 10_000
DAY_MS = 86_400_000


@for_each("version", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    world = World()
    world.version = version
    producer = world.init()
    world.add(producer, P0, version=version)
    world.advance(60_000)
    assert world.state() is TransactionState.ONGOING
    world.advance(CHECK_MS)
    assert world.state() is TransactionState.COMPLETE_ABORT
    assert world.markers.ends() == [(P0, False, 1)]
    with pytest.raises(ProducerFenced):
        world.add(producer, P0)
    with pytest.raises(ProducerFenced):
        world.end(producer, version=0)


def test_a_restart_does_not_extend_the_timeout() -> None:
    world = World()
    world.add(world.init(), P0)
    world.advance(55_000)
    world = world.restarted()
    world.advance(CHECK_MS)
    assert world.state() is TransactionState.COMPLETE_ABORT


def test_an_abort_that_can_not_be_written_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    producer = world.init()
    world.add(producer, P0)
    world.log.broken = StorageFailed("disk")
    with caplog.at_level(logging.WARNING):
        world.advance(70_000)
    assert "can't be aborted: disk" in caplog.text
    assert world.transactions.describe("tx").producer == producer
    world.log.broken = None
    world.advance(CHECK_MS)
    assert world.transactions.describe("tx").epoch == 1


def test_a_transaction_of_two_phases_has_no_timeout() -> None:
    world = World({"transaction.two.phase.commit.enable": True})
    producer = result(world.transactions.init_producer_id("tx", 1, two_phase=True))
    world.add(producer, P0)
    world.advance(DAY_MS)
    assert world.state() is TransactionState.ONGOING


def test_an_unused_id_is_removed_and_comes_back_as_a_new_one() -> None:
    world = World()
    unused, used = world.init("unused"), world.init("used")
    world.init("ongoing")
    world.add(world.init("ongoing"), P0, id="ongoing")
    world.advance(6 * DAY_MS)
    world.add(used, P0, id="used")
    world.end(used, id="used")
    world.advance(DAY_MS + 3_600_000)
    for one in (world, world.restarted()):
        with pytest.raises(TransactionalIdNotFound):
            one.state("unused")
        assert one.state("used") is TransactionState.COMPLETE_COMMIT
    assert None in world.logged()
    assert world.init("unused").producer_id > unused.producer_id


def test_an_id_whose_removal_fails_stays(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.init()
    world.log.hold = True
    world.advance(8 * DAY_MS)
    with pytest.raises(ConcurrentTransactions):
        world.init()
    with pytest.raises(TransactionalIdNotFound):
        world.state()
    with caplog.at_level(logging.WARNING):
        world.log.fail(StorageFailed("disk"))
    assert "1 expired transactional ids" in caplog.text
    assert world.state() is TransactionState.EMPTY

"""Adding and verifying partitions, descriptions, replay."""

from __future__ import annotations

import pytest

from kqueue.base.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidRequest,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from kqueue.tests.tables import for_each
from kqueue.tests.transactions.support import P0, P1, World, result
from kqueue.transactions.transaction_metadata import ProducerIdAndEpoch
from kqueue.transactions.transaction_state import TransactionState


def test_partitions_are_added_once() -> None:
    world = World()
    producer = world.init()
    world.add(producer, P0, P1)
    count = len(world.logged())
    world.add(producer, P1)
    assert len(world.logged()) == count
    description = world.transactions.describe("tx")
    assert (description.state, description.partitions) == (TransactionState.ONGOING, {P0, P1})
    assert world.restarted().transactions.describe("tx") == description


def test_a_transaction_without_partitions_begins_all_the_same() -> None:
    world = World()
    producer = world.init()
    result(world.transactions.add_partitions("tx", *producer, [], transaction_version=0))
    assert world.state() is TransactionState.ONGOING


@for_each("verify", [False, True])
def test_add_and_verify_check_the_producer(verify: bool) -> None:
    world = World()

    def ask(producer: tuple[int, int], id: str = "tx") -> None:
        promise = world.transactions.add_partitions(id, *producer, [P0], verify_only=verify, transaction_version=2)
        result(promise)

    with pytest.raises(InvalidRequest):
        ask((1, 0), "")
    with pytest.raises(InvalidProducerIdMapping):
        ask((1, 0))
    producer = world.init()
    world.add(producer, P0)
    with pytest.raises(InvalidProducerIdMapping):
        ask((1, 0))
    for epoch in (-1, 1):
        with pytest.raises(ProducerFenced):
            ask((producer.producer_id, epoch))
    world.markers.hold = True
    world.start_end(producer, version=0)
    with pytest.raises(ConcurrentTransactions):
        ask(producer)


def test_verification_needs_each_partition_in_the_transaction() -> None:
    world = World()
    producer = world.init()
    with pytest.raises(TransactionAbortable):
        world.verify(producer, P0)
    world.add(producer, P0)
    count = len(world.logged())
    world.verify(producer, P0)
    with pytest.raises(TransactionAbortable, match="t-1 was not added"):
        world.verify(producer, P0, P1)
    assert len(world.logged()) == count
    world.end(producer, version=0)
    with pytest.raises(TransactionAbortable):
        world.verify(producer, P0)


def test_while_partitions_are_being_added_nothing_else_may_change() -> None:
    world = World()
    producer = world.init()
    world.log.hold = True
    promise = world.transactions.add_partitions("tx", *producer, [P0], transaction_version=2)
    with pytest.raises(ConcurrentTransactions):
        world.add(producer, P1)
    with pytest.raises(ConcurrentTransactions):
        world.end(producer)
    with pytest.raises(TransactionAbortable):
        world.verify(producer, P0)
    world.log.release()
    result(promise)
    assert promise in world.woken
    world.verify(producer, P0)


def test_partitions_that_can_not_be_written_were_not_added() -> None:
    world = World()
    producer = world.init()
    world.log.hold = True
    promise = world.transactions.add_partitions("tx", *producer, [P0], transaction_version=2)
    world.log.fail(RequestTimedOut("late"))
    with pytest.raises(CoordinatorNotAvailable):
        result(promise)
    assert world.state() is TransactionState.EMPTY


def test_descriptions() -> None:
    world = World()
    with pytest.raises(InvalidRequest):
        world.state("")
    with pytest.raises(TransactionalIdNotFound):
        world.state()
    world.init("a")
    world.init("b")
    assert sorted(metadata.transactional_id for metadata in world.transactions.all()) == ["a", "b"]
    assert world.transactions.describe("b").producer == ProducerIdAndEpoch(1001, 0)

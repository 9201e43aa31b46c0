"""InitProducerId: ids, epochs, and who is fenced."""

from __future__ import annotations

import pytest

from kqueue.base.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTransactionTimeout,
    NotCoordinator,
    PolicyViolation,
    ProducerFenced,
    RequestTimedOut,
    StorageFailed,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnsupportedVersion,
)
from kqueue.tests.tables import for_each
from kqueue.tests.transactions.support import P0, World, result
from kqueue.transactions.transaction_metadata import EPOCH_MAX, NO_TIMEOUT_MS, ProducerIdAndEpoch
from kqueue.transactions.transaction_state import TransactionState


def test_a_new_id_gets_a_producer_id_and_each_later_producer_the_next_epoch() -> None:
    world = World()
    assert world.init() == (1000, 0)
    assert world.init() == (1000, 1)
    assert world.init("other") == (1001, 0)
    assert [
        metadata.producer for metadata in world.logged() if metadata is not None and metadata.transactional_id == "tx"
    ] == [(1000, 0), (1000, 1)]
    assert world.restarted().init() == (1000, 2)


@for_each(
    "id, timeout_ms, options, error",
    [
        ("", 1, {}, InvalidRequest),
        ("tx", 0, {}, InvalidTransactionTimeout),
        ("tx", -1, {}, InvalidTransactionTimeout),
        ("tx", 900_001, {}, InvalidTransactionTimeout),
        ("tx", 1, {"two_phase": True}, TransactionalIdAuthorizationFailed),
        ("tx", 1, {"keep_prepared": True}, UnsupportedVersion),
    ],
)
def test_invalid_requests(id: str, timeout_ms: int, options: dict[str, bool], error: type[Exception]) -> None:
    world = World()
    with pytest.raises(error):
        result(world.transactions.init_producer_id(id, timeout_ms, **options))
    assert world.logged() == []


def test_a_two_phase_transaction_has_no_timeout() -> None:
    world = World({"transaction.two.phase.commit.enable": True})
    result(world.transactions.init_producer_id("tx", 1, two_phase=True))
    assert world.transactions.describe("tx").timeout_ms == NO_TIMEOUT_MS


def test_the_timeout_is_the_last_producers() -> None:
    world = World()
    for timeout_ms in (900_000, 1):
        result(world.transactions.init_producer_id("tx", timeout_ms))
        assert world.transactions.describe("tx").timeout_ms == timeout_ms


def test_a_producer_that_names_its_epoch_gets_the_next_and_may_retry() -> None:
    world = World()
    first = world.init()
    second = world.init(have=first)
    assert second == (1000, 1)
    assert world.init(have=first) == second  # the answer was lost
    world.init()  # another producer
    for have in (first, second):
        with pytest.raises(ProducerFenced):
            world.init(have=have)


def test_an_unknown_id_gets_a_new_producer_id_whatever_the_producer_has() -> None:
    assert World().init(have=ProducerIdAndEpoch(5, 3)) == (1000, 0)


def test_another_producer_id_is_fenced() -> None:
    world = World()
    world.init()
    with pytest.raises(ProducerFenced, match="has producer id 1000, the request names 5"):
        world.init(have=ProducerIdAndEpoch(5, 0))


def test_an_ongoing_transaction_is_aborted_first() -> None:
    world = World()
    first = world.init()
    world.add(first, P0)
    with pytest.raises(ConcurrentTransactions):
        world.init()
    assert world.state() is TransactionState.COMPLETE_ABORT
    assert world.markers.ends() == [(P0, False, 1)]
    assert world.init() == (1000, 2)


@for_each("version", [0, 2])
def test_until_the_markers_are_written_it_is_concurrent(version: int) -> None:
    world = World()
    world.version = version
    world.markers.hold = True
    first = world.init()
    world.add(first, P0)
    fencing = world.start_init()
    assert not fencing.done
    with pytest.raises(ConcurrentTransactions):
        world.init()
    world.markers.release()
    with pytest.raises(ConcurrentTransactions):
        result(fencing)
    assert world.init() == (1000, 2)


@for_each("have", [None, ProducerIdAndEpoch(1, EPOCH_MAX - 1)])
def test_epochs_that_are_used_up_give_a_new_producer_id(have: ProducerIdAndEpoch | None) -> None:
    world = World()
    world.init()
    [metadata] = world.logged()
    assert metadata is not None
    world = world.put(metadata._replace(producer_id=1, epoch=EPOCH_MAX - 1))
    assert world.init(have=have) == (1001, 0)
    if have is None:
        with pytest.raises(ProducerFenced):
            world.init(have=ProducerIdAndEpoch(1, EPOCH_MAX - 1))
    else:
        assert world.init(have=have) == (1001, 0)  # the answer was lost


def test_used_up_epochs_and_an_older_epoch_are_fenced() -> None:
    world = World()
    world.init()
    [metadata] = world.logged()
    assert metadata is not None
    world = world.put(metadata._replace(epoch=EPOCH_MAX - 1))
    with pytest.raises(ProducerFenced):
        world.init(have=ProducerIdAndEpoch(1000, 7))


@for_each(
    "failure, error", [(StorageFailed("disk"), NotCoordinator), (RequestTimedOut("late"), CoordinatorNotAvailable)]
)
def test_a_failed_write_leaves_no_trace(failure: Exception, error: type[Exception]) -> None:
    world = World()
    world.log.hold = True
    promise = world.start_init()
    with pytest.raises(ConcurrentTransactions):
        world.init()
    world.log.fail(failure)  # type: ignore[arg-type]
    with pytest.raises(error):
        result(promise)
    assert world.woken == [promise] or promise in world.woken
    with pytest.raises(TransactionalIdNotFound):
        world.state()
    world.log.hold = False
    first = world.init()
    world.log.hold = True
    promise = world.start_init()
    world.log.fail(failure)  # type: ignore[arg-type]
    world.log.hold = False
    assert world.transactions.describe("tx").producer == first
    assert world.init() == (first.producer_id, 1)


def test_no_producer_id_and_no_transaction() -> None:
    world = World()
    world.ids.broken = StorageFailed("no")
    with pytest.raises(NotCoordinator):
        world.init()


def test_two_producers_that_wait_for_an_id_get_one_after_the_other() -> None:
    world = World()
    world.ids.hold = True
    promises = [world.start_init(), world.start_init()]
    world.ids.release()
    assert result(promises[0]) == (1000, 0)
    assert result(promises[1]) == (1000, 1)


def test_the_number_of_ids_is_bounded() -> None:
    world = World({"kqueue.max.transactional.ids": 2})
    world.init("a")
    world.init("b")
    with pytest.raises(PolicyViolation, match=r"kqueue\.max\.transactional\.ids"):
        world.init("c")
    world.init("a")


def test_the_length_of_an_id_is_bounded() -> None:
    world = World()
    world.init("x" * 1000)
    with pytest.raises(PolicyViolation, match="at most 1000 characters, this one has 1001"):
        world.init("x" * 1001)

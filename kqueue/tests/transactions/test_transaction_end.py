"""EndTxn: what each state and epoch is answered, in both transaction versions."""

from __future__ import annotations

import pytest

from kqueue.base.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    NotCoordinator,
    ProducerFenced,
    StorageFailed,
)
from kqueue.tests.tables import for_each
from kqueue.tests.transactions.support import P0, P1, World, result
from kqueue.transactions.transaction_metadata import EPOCH_MAX, ProducerIdAndEpoch, TransactionMetadata
from kqueue.transactions.transaction_state import TransactionState

AT_5 = TransactionMetadata("tx", 9, 9, epoch=5, timeout_ms=60_000)
FENCED, INVALID, CONCURRENT = ProducerFenced, InvalidTransactionState, ConcurrentTransactions
Answer = type[Exception] | str


def world_in(state: str) -> World:
    partitions = frozenset({P0}) if state in ("Ongoing", "PrepareCommit", "PrepareAbort") else frozenset()
    world = World()
    world.markers.hold = True
    held = World(markers=world.markers)
    return held.put(AT_5._replace(state=TransactionState(state), partitions=partitions, client_version=2))


@for_each(
    "state, epoch, commit, abort",
    [
        ("Empty", 5, INVALID, "decided"),
        ("Empty", 4, FENCED, FENCED),
        ("Empty", 6, FENCED, FENCED),
        ("Ongoing", 5, "decided", "decided"),
        ("Ongoing", 4, FENCED, FENCED),
        ("Ongoing", 6, FENCED, FENCED),
        ("PrepareCommit", 4, CONCURRENT, INVALID),
        ("PrepareCommit", 5, FENCED, FENCED),
        ("PrepareAbort", 4, INVALID, CONCURRENT),
        ("PrepareAbort", 5, FENCED, FENCED),
        ("CompleteCommit", 5, INVALID, "decided"),
        ("CompleteCommit", 4, "answered", INVALID),
        ("CompleteCommit", 3, FENCED, FENCED),
        ("CompleteAbort", 5, INVALID, "decided"),
        ("CompleteAbort", 4, INVALID, "answered"),
        ("CompleteAbort", 3, FENCED, FENCED),
    ],
)
def test_v2(state: str, epoch: int, commit: Answer, abort: Answer) -> None:
    for is_commit, expected in ((True, commit), (False, abort)):
        world = world_in(state)
        check(world, epoch, is_commit, expected, version=2, next_epoch=6)


@for_each(
    "state, epoch, commit, abort",
    [
        ("Empty", 5, INVALID, INVALID),
        ("Ongoing", 5, "decided", "decided"),
        ("Ongoing", 4, FENCED, FENCED),
        ("Ongoing", 6, FENCED, FENCED),
        ("PrepareCommit", 5, CONCURRENT, INVALID),
        ("PrepareAbort", 5, INVALID, CONCURRENT),
        ("PrepareAbort", 4, FENCED, FENCED),
        ("CompleteCommit", 5, "answered", INVALID),
        ("CompleteCommit", 4, FENCED, FENCED),
        ("CompleteAbort", 5, INVALID, "answered"),
    ],
)
def test_v1(state: str, epoch: int, commit: Answer, abort: Answer) -> None:
    for is_commit, expected in ((True, commit), (False, abort)):
        check(world_in(state), epoch, is_commit, expected, version=0, next_epoch=5)


def check(world: World, epoch: int, commit: bool, expected: Answer, *, version: int, next_epoch: int) -> None:
    before = len(world.logged())
    world.markers.hold = False
    promise = world.start_end(ProducerIdAndEpoch(9, epoch), commit=commit, version=version)
    if not isinstance(expected, str):
        with pytest.raises(expected):
            result(promise)
        assert len(world.logged()) == before
    elif expected == "answered":
        assert result(promise) == (9, 5)
        assert len(world.logged()) == before
    else:
        assert result(promise) == (9, next_epoch)
        states = [metadata.state.value for metadata in world.logged()[before:] if metadata is not None]
        assert states == (["PrepareCommit", "CompleteCommit"] if commit else ["PrepareAbort", "CompleteAbort"])


@for_each("version", [0, 2])
def test_unknown_ids_and_other_producers(version: int) -> None:
    world = World()
    with pytest.raises(InvalidRequest):
        world.end(ProducerIdAndEpoch(1, 1), id="", version=version)
    with pytest.raises(InvalidProducerIdMapping):
        world.end(ProducerIdAndEpoch(1, 1), version=version)
    world.init()
    with pytest.raises(InvalidProducerIdMapping):
        world.end(ProducerIdAndEpoch(1, 0), version=version)


@for_each("commit, version, epoch", [(True, 0, 0), (False, 0, 0), (True, 2, 1), (False, 2, 1)])
def test_each_partition_gets_its_marker(commit: bool, version: int, epoch: int) -> None:
    world = World()
    producer = world.init()
    world.add(producer, P0, P1, version=version)
    assert world.end(producer, commit=commit, version=version) == (1000, epoch)
    assert world.markers.ends() == [(P0, commit, epoch), (P1, commit, epoch)]
    assert {marker.coordinator_epoch for marker, _ in world.markers.written} == {7}
    assert {marker.transaction_version for marker, _ in world.markers.written} == {version}
    assert world.end(producer, commit=commit, version=version) == (1000, epoch)  # the answer was lost
    assert len(world.markers.written) == 2


def test_a_late_end_can_not_touch_the_next_transaction() -> None:
    world = World()
    first = world.init()
    world.add(first, P0)
    second = world.end(first)
    world.add(second, P1)
    for commit in (True, False):
        with pytest.raises(ProducerFenced):
            world.end(first, commit=commit)
    assert world.state() is TransactionState.ONGOING


@for_each("state", ["PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"])
@for_each("commit", [True, False])
def test_the_epoch_before_a_transaction_of_v1_is_fenced(state: str, commit: bool) -> None:
    """V1 raises no epoch at an end, so the one before is that of a producer that was replaced."""
    world = World().put(AT_5._replace(state=TransactionState(state), client_version=0))
    check(world, 4, commit, FENCED, version=2, next_epoch=6)


def test_v2_ends_at_the_last_epoch_with_a_new_producer_id() -> None:
    world = World().put(
        AT_5._replace(epoch=EPOCH_MAX - 1, state=TransactionState.ONGOING, partitions=frozenset({P0}), client_version=2)
    )
    last = ProducerIdAndEpoch(9, EPOCH_MAX - 1)
    new = world.end(last)
    assert new == (1000, 0)
    [(marker, _)] = world.markers.written
    assert (marker.producer_id, marker.producer_epoch) == (9, EPOCH_MAX)
    assert world.end(last) == new  # the answer was lost
    world.add(new, P0)
    with pytest.raises(InvalidProducerIdMapping):
        world.end(ProducerIdAndEpoch(9, EPOCH_MAX - 2))
    assert world.end(new) == (1000, 1)


def test_a_new_producer_id_that_fails_or_comes_late() -> None:
    world = World().put(
        AT_5._replace(epoch=EPOCH_MAX - 1, state=TransactionState.ONGOING, partitions=frozenset({P0}), client_version=2)
    )
    last = ProducerIdAndEpoch(9, EPOCH_MAX - 1)
    world.ids.broken = StorageFailed("no")
    with pytest.raises(NotCoordinator):
        world.end(last)
    world.ids.broken = None
    world.ids.hold = True
    promises = [world.start_end(last), world.start_end(last)]
    world.ids.release()
    assert {result(promise) for promise in promises} == {(1001, 0)}  # the second is a retry
    assert len(world.markers.written) == 1


def test_a_decision_that_can_not_be_written_was_not_made() -> None:
    world = World()
    producer = world.init()
    world.add(producer, P0)
    world.log.hold = True
    promise = world.start_end(producer, commit=True)
    for commit in (True, False):
        with pytest.raises(ConcurrentTransactions):
            world.end(producer, commit=commit)
    world.log.fail(StorageFailed("disk"))
    with pytest.raises(NotCoordinator):
        result(promise)
    assert world.markers.written == []
    world.log.hold = False
    assert world.end(producer, commit=False) == (1000, 1)
    assert world.markers.ends() == [(P0, False, 1)]

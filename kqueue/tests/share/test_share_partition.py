"""Single steps of a share partition; any order of them is in `test_share_partition_machine`."""

from __future__ import annotations

from kqueue.base.errors import KqueueError, NotCoordinator, StorageFailed
from kqueue.share.errors import InvalidRecordState
from kqueue.share.record_state import RecordEvent, RecordState
from kqueue.share.share_partition import RANGES_MAX, RETRY_MS, SPANS_PER_TURN, Acknowledgement, SharePartition
from kqueue.share.share_state import ShareState
from kqueue.share.state_batches import StateBatch
from kqueue.tests.share.support import ACCEPT, GAP, REJECT, RELEASE, World
from kqueue.tests.tables import for_each


def test_a_batch_is_split_where_its_records_differ() -> None:
    world = World()
    assert world.acquire((0, 9)) == [(0, 9, 1)]
    assert world.shown() == "0 A1*10"
    world.say(0, 9, *[ACCEPT] * 4, *[RELEASE] * 2, *[REJECT] * 4)
    assert world.shown() == "4 -1*2 x1*4"
    assert world.acquire((0, 9), (10, 11)) == [(4, 5, 2), (10, 11, 1)]
    assert world.say(4, 5, ACCEPT) is None
    assert world.shown() == "10 A1*2"


def test_the_window_bounds_what_is_in_flight() -> None:
    world = World(record_locks_max=5)
    assert world.acquire((0, 3), (4, 7), (8, 9)) == [(0, 3, 1), (4, 7, 1)]
    assert world.partition.next_fetch_offset() is None
    world.say(0, 3, ACCEPT)
    assert world.acquire((8, 9), strict=True) == [(8, 8, 1)]
    assert world.locks.count == 5


def test_all_share_partitions_have_one_bound() -> None:
    world = World()
    world.locks.count = 1_000_000 - 3
    assert world.acquire((0, 9), strict=True) == [(0, 2, 1)]
    assert world.partition.next_fetch_offset() is None
    world.say(0, 0, ACCEPT)
    assert world.acquire((0, 9), strict=True) == [(3, 3, 1)]


def test_events_wait_for_the_write_before_them() -> None:
    world = World()
    world.acquire((0, 9))
    world.log.hold = True
    assert world.say(0, 0, ACCEPT) == "waits"
    assert world.say(2, 3, ACCEPT) == "waits"
    assert world.say(5, 5, REJECT) == "waits"
    assert isinstance(world.say(0, 0, ACCEPT), InvalidRecordState)
    assert len(world.log.held) == 1
    world.log.release()
    assert len(world.log.entries) == 3, "the first, then both others together"
    assert world.shown() == "1 A1*1 +1*2 A1*1 x1*1 A1*4"


@for_each("fails", [False, True])
def test_many_changes_take_several_turns(fails: bool) -> None:
    world = World(lock_duration_ms=1000, record_locks_max=10_000)
    count = 2 * SPANS_PER_TURN
    while world.partition.end_offset < count:
        first = world.partition.end_offset
        world.acquire(*((each, each) for each in range(first, first + RANGES_MAX)))
    world.turns = []
    answers: list[KqueueError | None] = []
    single = [Acknowledgement(offset, offset, [ACCEPT]) for offset in range(0, count, 1)]
    world.partition.acknowledge("a", single[:-1], answers.append)
    assert world.log.entries[1:] == [], "the write is in a later turn"
    assert isinstance(world.say(0, 0, ACCEPT), InvalidRecordState)
    assert world.say(count - 1, count - 1, RELEASE) == "waits", "and shares it"
    world.advance(2000)  # what is on its way has no lock
    world.log.broken = StorageFailed("the disk") if fails else None
    world.next_turn()
    assert answers == []
    world.next_turn()
    assert [type(each) for each in answers] == [NotCoordinator if fails else type(None)]
    assert world.turns == []
    world.log.broken = None
    if fails:
        world.advance(RETRY_MS)
        world.next_turn()
        world.next_turn()
        assert world.shown() == f"0 -1*{count}"
    else:
        assert world.shown() == f"{count - 1} -1*1"


def test_a_write_that_fails_leaves_the_records_with_their_member() -> None:
    world = World()
    world.acquire((0, 3))
    world.log.broken = StorageFailed("the disk")
    assert world.say(0, 3, ACCEPT) is not None
    assert world.shown() == "0 A1*4"
    world.log.broken = None
    assert world.say(0, 3, ACCEPT) is None


def test_a_timeout_that_can_not_be_persisted_is_repeated() -> None:
    world = World(lock_duration_ms=1000)
    world.acquire((0, 3))
    world.log.broken = StorageFailed("the disk")
    world.advance(5000)
    assert world.shown() == "0 A1*4"
    world.log.broken = None
    world.advance(1000)
    assert world.shown() == "0 -1*4"
    assert world.releases == 1


def test_records_that_are_given_up_are_named() -> None:
    world = World(delivery_count_limit=2)
    world.acquire((0, 3))
    world.say(0, 3, ACCEPT, REJECT, RELEASE, GAP)
    world.acquire((0, 3))
    world.say(2, 2, RELEASE)
    assert world.dead == [(1, 1, 1, RecordEvent.REJECT), (2, 2, 2, RecordEvent.EXHAUST)]


def test_the_persisted_state_fills_its_gaps() -> None:
    world = World()
    batches = [StateBatch(12, 13, RecordState.ACKNOWLEDGED, 1), StateBatch(16, 16, RecordState.AVAILABLE, 3)]
    partition = SharePartition(world, ShareState(10, batches), 0)
    assert [(each.first, each.last, each.state.name, each.delivery_count) for each in partition.ranges()] == [
        (10, 11, "AVAILABLE", 0),
        (12, 13, "ACKNOWLEDGED", 1),
        (14, 15, "AVAILABLE", 0),
        (16, 16, "AVAILABLE", 3),
    ]

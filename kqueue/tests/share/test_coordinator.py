"""The share coordinator: changes in order, snapshots, replay, pruning."""

from __future__ import annotations

import pytest

from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    FencedStateEpoch,
    KqueueError,
    MalformedMessage,
    NotCoordinator,
    NotLeader,
    PolicyViolation,
    StorageFailed,
)
from kqueue.base.sliced_task import run_to_end
from kqueue.share import records
from kqueue.share.coordinator import COLD_LAG_MIN, ShareCoordinator
from kqueue.share.record_state import RecordState
from kqueue.share.share_state import SharePartitionKey, ShareUpdate
from kqueue.share.state_batches import StateBatch
from kqueue.share.state_log import StateEntry
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.share.support import KEY, HeldStateLog
from kqueue.tests.tables import for_each

OTHER = SharePartitionKey("h", KEY.topic_id, 0)


class Coordinator(ShareCoordinator):
    """One over a log in memory; keeps the answers."""

    def __init__(self, log: HeldStateLog | None = None, updates: int = 2, keys_max: int = 10) -> None:
        self.log = log or HeldStateLog()
        super().__init__(self.log, ManualClock(), lambda: updates, lambda: keys_max)
        self.answers: list[KqueueError | None] = []
        run_to_end(self.load(0, iter(self.log.entries)))

    def begin(self, key: SharePartitionKey = KEY, state_epoch: int = 0, start: int = 0) -> None:
        self.initialize(key, state_epoch, start, self.answers.append)

    def accept(self, offset: int, key: SharePartitionKey = KEY, state_epoch: int = 0) -> None:
        batch = StateBatch(offset, offset, RecordState.ACKNOWLEDGED, 1)
        self.write(key, state_epoch, ShareUpdate(0, [batch], 1), self.answers.append)

    def kinds(self) -> str:
        """s: snapshot, u: update, t: tombstone."""
        letters = []
        for entry in self.log.entries:
            read = records.read_key(entry.key)
            assert read is not None
            letters.append("t" if entry.value is None else "s" if read.is_snapshot else "u")
        return "".join(letters)


def test_a_snapshot_follows_some_updates() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    for offset in range(1, 12, 2):
        coordinator.accept(offset)
    assert coordinator.kinds() == "suusuus"
    state = coordinator.read(KEY)
    assert state is not None
    assert state.snapshot_epoch == 2
    assert [batch.first for batch in state.batches] == [1, 3, 5, 7, 9, 11]
    assert Coordinator(coordinator.log).read(KEY) == state


def test_changes_of_one_share_partition_wait_for_each_other() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.log.hold = True
    coordinator.accept(1)
    coordinator.accept(2)
    coordinator.begin(OTHER)
    assert len(coordinator.log.held) == 2, "one of each"
    assert coordinator.read(OTHER) is None
    coordinator.log.release()
    state = coordinator.read(KEY)
    assert state is not None
    assert [batch[:2] for batch in state.batches] == [(1, 2)]
    assert coordinator.answers == [None] * 4


def test_changes_that_wait_for_one_share_partition_are_appended_together() -> None:
    """A request may name a share partition as often as it has room: each flush serves many."""
    coordinator = Coordinator(updates=500)
    coordinator.begin()
    appended: list[int] = []
    append = coordinator.log.append
    coordinator.log.append = lambda *words: (appended.append(len(words[1])), append(*words))
    coordinator.log.hold = True
    for number in range(2000):
        coordinator.accept(number % 7)
    coordinator.log.release()
    assert coordinator.answers == [None] * 2001
    assert appended[0] == 1
    assert sum(appended) == 2000
    assert len(appended) < 40
    assert coordinator.kinds().count("s") == 4
    state = coordinator.read(KEY)
    assert state is not None
    assert [batch[:2] for batch in state.batches] == [(0, 6)]
    assert Coordinator(coordinator.log).read(KEY) == state


def test_changes_that_are_refused_while_others_wait_do_not_nest() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.log.hold = True
    coordinator.delete(KEY, coordinator.answers.append)
    for offset in range(3000):
        coordinator.accept(offset)
        coordinator.delete(KEY, coordinator.answers.append)
    coordinator.log.release()
    kinds = [type(answer) for answer in coordinator.answers]
    assert kinds == [type(None)] * 2 + [FencedStateEpoch, type(None)] * 3000
    assert coordinator.kinds() == "st"


def test_an_append_that_fails_fails_what_was_decided_by_its_changes() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.log.hold = True
    coordinator.accept(1)
    coordinator.accept(2, state_epoch=7)  # refused whatever follows
    coordinator.begin(state_epoch=1)
    coordinator.accept(3)  # refused, because of the reset
    log, held = coordinator.log, coordinator.log.held
    held.pop(0)[1](None)
    assert len(held) == 1
    log.broken = NotLeader("moved")
    log.release()
    assert [type(answer) for answer in coordinator.answers] == [
        type(None),
        type(None),
        FencedStateEpoch,
        NotCoordinator,
        NotCoordinator,
    ]


def test_a_change_that_fails_leaves_no_trace() -> None:
    coordinator = Coordinator()
    coordinator.log.broken = StorageFailed("the disk")
    coordinator.begin()
    assert isinstance(coordinator.answers[0], NotCoordinator)
    assert len(coordinator) == 0
    coordinator.log.broken = None
    coordinator.begin()
    before = coordinator.read(KEY)
    coordinator.log.broken = StorageFailed("the disk")
    coordinator.accept(1)
    assert coordinator.read(KEY) == before


def test_state_epochs() -> None:
    coordinator = Coordinator()
    coordinator.begin(state_epoch=3)
    coordinator.accept(1, state_epoch=2)
    coordinator.begin(state_epoch=2)
    assert [type(answer) for answer in coordinator.answers] == [type(None), FencedStateEpoch, FencedStateEpoch]
    coordinator.begin(state_epoch=4, start=70)
    state = coordinator.read(KEY)
    assert state is not None
    assert (state.start_offset, state.state_epoch, state.batches) == (70, 4, [])


def test_deletion() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.accept(1)
    coordinator.delete(KEY, coordinator.answers.append)
    coordinator.delete(OTHER, coordinator.answers.append)
    assert coordinator.answers == [None] * 4
    assert coordinator.kinds() == "sut"
    assert coordinator.read(KEY) is None
    assert len(Coordinator(coordinator.log)) == 0
    coordinator.accept(1)
    assert isinstance(coordinator.answers[-1], FencedStateEpoch)
    assert len(coordinator) == 0


def test_too_many_share_partitions() -> None:
    coordinator = Coordinator(keys_max=1)
    coordinator.begin()
    with pytest.raises(PolicyViolation, match=r"kqueue\.max\.share\.partitions"):
        coordinator.begin(OTHER)
    coordinator.begin(state_epoch=1)


def test_loading() -> None:
    coordinator = Coordinator()
    coordinator.begin_loading(0)
    with pytest.raises(CoordinatorLoadInProgress):
        coordinator.read(KEY)
    with pytest.raises(MalformedMessage, match="partition 0 of the share state topic"):
        run_to_end(coordinator.load(0, [StateEntry(0, records.snapshot_key(KEY), b"\x00\x00")]))
    coordinator.refuse(0, "damaged")
    with pytest.raises(NotCoordinator, match="damaged"):
        coordinator.read(KEY)


def test_redundant_records_are_deleted() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.begin(OTHER)
    for offset in range(6):
        coordinator.accept(offset, OTHER)
    assert coordinator.kinds() == "ssuusuus"
    run_to_end(coordinator.prune())
    assert coordinator.kinds() == "ssuusuus", "the first is needed"
    for offset in range(6):
        coordinator.accept(offset)
    run_to_end(coordinator.prune())
    states = [coordinator.read(key) for key in (KEY, OTHER)]
    assert coordinator.kinds() == "suusuus"
    again = Coordinator(coordinator.log)
    assert [again.read(key) for key in (KEY, OTHER)] == states


def test_all_records_of_deleted_states_are_redundant() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.accept(0)
    coordinator.delete(KEY, coordinator.answers.append)
    assert coordinator.kinds() == "sut"
    run_to_end(coordinator.prune())
    assert coordinator.kinds() == ""
    coordinator.begin()
    assert Coordinator(coordinator.log).read(KEY) == coordinator.read(KEY)


def test_pruning_keeps_records_under_way() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.delete(KEY, coordinator.answers.append)
    coordinator.log.hold = True
    coordinator.begin()
    run_to_end(coordinator.prune())
    assert coordinator.kinds() == "st"
    pruning = coordinator.prune()
    coordinator.log.release()
    coordinator.delete(KEY, coordinator.answers.append)
    coordinator.log.release()
    next(pruning)
    coordinator.begin(OTHER)
    coordinator.log.release()
    run_to_end(pruning)
    assert Coordinator(coordinator.log).read(OTHER) == coordinator.read(OTHER) is not None


@for_each("is_loading", [True, False])
def test_a_partition_that_was_not_read_keeps_its_records(is_loading: bool) -> None:
    coordinator = Coordinator()
    coordinator.begin()
    again = Coordinator(HeldStateLog())
    again.log.entries = coordinator.log.entries
    again.begin_loading(0) if is_loading else again.refuse(0, "damaged")
    run_to_end(again.prune())
    assert coordinator.kinds() == "s"


def test_an_old_snapshot_is_repeated() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.begin(OTHER)
    for offset in range(COLD_LAG_MIN + 2):
        coordinator.accept(offset, OTHER)
    run_to_end(coordinator.prune())
    run_to_end(coordinator.prune())
    assert coordinator.log.start > COLD_LAG_MIN - 10
    assert len(Coordinator(coordinator.log)) == 2


# --- another broker leads the log


def returned(coordinator: Coordinator) -> None:
    coordinator.begin_loading(0)
    run_to_end(coordinator.load(0, iter(coordinator.log.entries)))


@for_each("is_durable", [True, False])
def test_a_partition_that_leaves_fails_the_changes_that_wait(is_durable: bool) -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.log.hold = True
    for offset in range(400):
        coordinator.accept(offset)
    coordinator.begin(OTHER)
    coordinator.answers.clear()
    work = coordinator.unload(0)
    assert [type(error) for error in coordinator.answers] == [NotCoordinator] * 401
    with pytest.raises(NotCoordinator, match="not the coordinator"):
        coordinator.read(KEY)
    with pytest.raises(NotCoordinator):
        coordinator.begin()
    run_to_end(work)
    assert len(coordinator) == 0
    if not is_durable:
        coordinator.log.broken = NotLeader("moved")
    coordinator.log.release()
    coordinator.log.hold, coordinator.log.broken = False, None
    assert coordinator.kinds() == ("sus" if is_durable else "s"), "the others were not appended"
    assert len(coordinator) == 0
    returned(coordinator)
    again = Coordinator(coordinator.log)
    assert [coordinator.read(key) for key in (KEY, OTHER)] == [again.read(key) for key in (KEY, OTHER)]
    coordinator.accept(9)
    assert coordinator.answers[-1] is None


def test_a_load_that_is_broken_off_changes_nothing() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.accept(1)
    state = coordinator.read(KEY)
    run_to_end(coordinator.unload(0))
    coordinator.begin_loading(0)
    broken_off = coordinator.load(0, iter(coordinator.log.entries))
    next(broken_off)
    broken_off.close()
    run_to_end(coordinator.unload(0))
    assert len(coordinator) == 0
    returned(coordinator)
    assert coordinator.read(KEY) == state


@for_each("steps", range(1, 6))
def test_pruning_spares_a_partition_that_leaves_or_comes_meanwhile(steps: int) -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.delete(KEY, coordinator.answers.append)
    coordinator.begin(OTHER)
    run_to_end(coordinator.unload(0))
    pruning = coordinator.prune()
    for step in range(steps):
        if step == steps - 1:
            returned(coordinator)
        next(pruning, None)
    run_to_end(coordinator.unload(0))
    returned(coordinator)
    for _ in pruning:
        pass
    assert Coordinator(coordinator.log).read(OTHER) == coordinator.read(OTHER) is not None


def test_pruning_that_sees_a_partition_leave_does_not_take_it_for_empty() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.accept(1)
    pruning = coordinator.prune()
    next(pruning)
    run_to_end(coordinator.unload(0))
    next(pruning)
    returned(coordinator)
    for _ in pruning:
        pass
    assert coordinator.kinds() == "su"


def test_nothing_is_served_before_it_was_loaded_where_there_are_other_brokers() -> None:
    coordinator = Coordinator()
    coordinator.require_load()
    with pytest.raises(NotCoordinator):
        coordinator.read(KEY)
    returned(coordinator)
    assert coordinator.read(KEY) is None

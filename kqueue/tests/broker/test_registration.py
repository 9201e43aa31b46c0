from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping

import pytest

from kqueue.base.errors import NodeIdInUse, StorageFailed
from kqueue.broker import registration
from kqueue.broker.folder_identity import FOLDERS_PREFIX, OlderStore
from kqueue.broker.registration import LogsFound, WrongCluster, join_cluster
from kqueue.log.folders.registration_mark import Comparison, RegistrationMark
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import Session, Term
from kqueue.replication.registrations import BrokerRegistration
from kqueue.tests.broker.cluster_members import CLEAN, Folder, World


class AwayStore(MemoryStore):
    """Can be away: no call is answered, except those of other brokers."""

    away = False

    def _check_open(self) -> None:
        super()._check_open()
        if self.away:
            raise StorageFailed("no server answers")


# --- the cluster's id


def test_a_new_cluster_takes_the_id_of_the_first_folder_and_a_new_folder_the_clusters() -> None:
    store = MemoryStore()
    assert join_cluster(store, [("new", None), ("old", "id-of-old")], random.Random(0)) == "id-of-old"
    assert join_cluster(store, [("other", None)], random.Random(1)) == "id-of-old"


def test_without_folders_of_a_cluster_its_id_is_random() -> None:
    ids = {join_cluster(MemoryStore(), [("new", None)], random.Random(seed)) for seed in range(3)}
    assert len(ids) == 3
    assert all(len(id) == 22 for id in ids)


def test_a_folder_of_another_cluster_is_refused_with_both_ids() -> None:
    store = MemoryStore()
    join_cluster(store, [("a", "one")], random.Random(0))
    with pytest.raises(WrongCluster, match=r"data folder b belongs to cluster two, and .* cluster one: name the right"):
        join_cluster(store, [("a", "one"), ("b", "two")], random.Random(0))


def test_folders_of_two_clusters_make_none() -> None:
    with pytest.raises(WrongCluster, match="data folder b belongs to cluster two"):
        join_cluster(MemoryStore(), [("a", "one"), ("b", "two")], random.Random(0))


class Racing(MemoryStore):
    """Another broker creates the cluster between the read and the commit."""

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        if "/cluster" not in self.read("/cluster"):
            super().commit({}, {"/cluster": b'{"id":"theirs","format":1}'}, ())
        return super().commit(guards, puts, deletes, by=by)


def test_of_two_brokers_that_create_a_cluster_the_second_takes_the_firsts_id() -> None:
    assert join_cluster(Racing(), [("a", None)], random.Random(0)) == "theirs"


@pytest.mark.parametrize(
    ("record", "error", "words"),
    [
        (b'{"id":"x","format":2}', WrongCluster, "cluster x have format 2; this kqueue reads 1"),
        (b"{}", StorageFailed, "/cluster can't be read"),
        (b"\xff", StorageFailed, "/cluster can't be read"),
    ],
)
def test_a_cluster_that_can_not_be_read_is_refused(record: bytes, error: type[Exception], words: str) -> None:
    store = MemoryStore()
    store.commit({}, {"/cluster": record}, ())
    with pytest.raises(error, match=words):
        join_cluster(store, [], random.Random(0))


# --- registration


def test_a_broker_registers_fenced_and_the_controller_unfences_it() -> None:
    """Rules 1 and 2."""
    world = World()
    member = world.member(1).begin()
    world.settle()
    assert world.store.read("/brokers/") == {}, "the logs are not recovered"
    assert not member.registration.is_unfenced
    member.controller.stop()
    member.registration.announce(CLEAN)
    world.settle()
    assert member.record.fenced
    assert member.record.clean
    assert member.record.epoch == 1
    assert member.record.endpoints["A"] == ("host1", 9092, "PLAINTEXT")
    assert member.record.directories == ("folder",)
    (other,) = world.started(2)
    assert other.registration.is_unfenced
    assert member.registration.is_unfenced
    assert [broker.id for broker in member.cluster.brokers()] == [1, 2]


def test_a_second_broker_of_the_node_id_is_refused() -> None:
    world = World()
    world.started(1)
    with pytest.raises(NodeIdInUse, match="node id 1 is in use"):
        world.member(1).begin()


def test_signs_of_life_keep_the_session() -> None:
    world = World()
    member, _ = world.started(1, 2)
    world.advance(60_000)
    assert member.record.epoch == 1
    assert member.registration.is_unfenced


def test_a_paused_broker_is_fenced_and_registers_again_with_a_higher_epoch(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.started(1)
    (member,) = world.started(2)
    member.is_paused = True
    world.advance(12_000)
    assert member.record.fenced
    assert member.record.epoch == 2
    member.is_paused = False
    with caplog.at_level(logging.WARNING, "kqueue.broker"):
        world.advance(3000)
    assert not member.record.fenced
    assert member.record.epoch == 3
    assert member.registration.session is not None
    assert member.registration.session.epoch == 3
    assert member.record.clean, "the process went on: nothing is missing"
    assert caplog.messages == ["the session with the cluster was lost; registered again, broker epoch 3"]


def test_a_restarted_broker_takes_over_its_own_session_only_after_it_has_ended() -> None:
    world = World()
    world.started(1)
    (member,) = world.started(2)
    member.is_paused = True
    with pytest.raises(NodeIdInUse):
        world.member(2).begin()
    world.advance(9000)
    again = world.member(2).start()
    assert again.record.epoch == 3
    assert again.registration.is_unfenced


class LateStore(MemoryStore):
    """Notices the end of a process by the timeout of its session, as ZooKeeper does."""

    refusals = 0
    refusals_max = 3

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> Session:
        if self.refusals < self.refusals_max:
            self.refusals += 1
            error = NodeIdInUse("node id 1 is in use")
            error.may_have_ended = True
            raise error
        return super().register(node_id, incarnation, timeout_ms)


def test_a_start_after_a_crash_waits_for_the_session_of_the_process_before(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "POLL_S", 0.01)
    world = World()
    world.store = LateStore(world.clock)
    with caplog.at_level(logging.WARNING, "kqueue.broker"):
        world.started(1)
    assert world.broker(1).epoch == 1
    assert caplog.messages == [
        "waiting for up to 13 s until the session of broker 1's last process ends: node id 1 is in use"
    ]


def test_a_node_id_that_stays_in_use_is_refused_after_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "GRACE_MS", -8900)
    world = World()
    world.store = store = LateStore(world.clock)
    store.refusals_max = 1000
    with pytest.raises(NodeIdInUse):
        world.started(1)
    assert store.refusals > 1


def test_while_the_store_is_away_nothing_changes_and_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.store = store = AwayStore(world.clock)
    member, _ = world.started(1, 2)
    with caplog.at_level(logging.INFO, "kqueue.broker"):
        store.away = True
        world.advance(60_000)
        assert member.registration.is_unfenced, "it serves on by what it knows"
        assert [broker.id for broker in member.cluster.brokers()] == [1, 2]
        assert len(caplog.messages) == 2, caplog.messages  # one of each broker
        store.away = False
        world.advance(5000)
    assert member.registration.is_unfenced
    assert member.record.epoch > 2, "the session was lost meanwhile"
    assert sum("can be read again" in line for line in caplog.messages) == 2


def test_a_short_outage_costs_no_session() -> None:
    world = World()
    world.store = store = AwayStore(world.clock)
    member, _ = world.started(1, 2)
    store.away = True
    world.advance(5000)
    store.away = False
    world.advance(5000)
    assert member.record.epoch == 1


# --- clean or not


def registered(before: LogsFound, after: LogsFound) -> BrokerRegistration:
    """Return what a broker registers after a crash, before it is unfenced."""
    world = World()
    member = world.member(1).start(before)
    member.is_paused = True
    world.advance(9000)
    again = world.member(1)
    again.begin()
    again.controller.stop()
    again.registration.announce(after)
    world.settle()
    return again.record


@pytest.mark.parametrize(
    ("after", "clean"),
    [
        (CLEAN, True),
        (CLEAN._replace(is_intact=False), False),
        (CLEAN._replace(directories=("folder", "more")), True),
        (CLEAN._replace(directories=("another",)), False),
        (CLEAN._replace(flushes_first=False), False),
        (CLEAN._replace(flushes_first=False, stopped_epochs=(1,)), True),
        (CLEAN._replace(flushes_first=False, stopped_epochs=(7,)), False),
        (CLEAN._replace(flushes_first=False, stopped_epochs=(1, -1)), False),
    ],
)
def test_logs_are_clean_if_nothing_confirmed_can_be_missing(after: LogsFound, clean: bool) -> None:
    """Rule 1: else it is eligible for nothing."""
    assert registered(CLEAN, after).clean is clean


def test_a_life_that_lost_records_is_not_mended_by_a_clean_one_that_was_never_unfenced() -> None:
    before = BrokerRegistration(1, 4, "x", {}, clean=False, directories=("folder",))
    assert not CLEAN._replace(stopped_epochs=(4,)).is_clean(before)
    assert CLEAN.is_clean(None)


# --- controlled shutdown


def test_a_leaving_broker_says_so_and_its_session_ends_at_once() -> None:
    world = World()
    member, other = world.started(1, 2)
    member.registration.leave()
    world.settle()
    assert member.record.shutting_down
    assert not member.record.fenced
    member.controller.stop()
    member.registration.end()
    member.is_paused = True
    other.controller.look()
    world.settle()
    assert member.record.fenced, "without waiting for the timeout"
    assert list(world.store.sessions()) == [2]


def test_the_end_of_a_session_with_a_store_that_is_away_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.store = store = AwayStore(world.clock)
    (member,) = world.started(1)
    store.away = True
    member.registration.end()
    assert "ends by its timeout" in caplog.messages[-1]


def test_a_broker_that_lost_its_session_while_leaving_still_leaves() -> None:
    world = World()
    world.started(1)
    (member,) = world.started(2)
    member.registration.leave()
    world.settle()
    member.is_paused = True
    world.advance(12_000)
    member.is_paused = False
    world.advance(3000)
    assert member.record.epoch == 3
    assert member.record.shutting_down


def test_a_record_says_which_feature_levels_the_broker_supports() -> None:
    world = World()
    (member,) = world.started(1)
    assert member.record.features["transaction.version"] == (0, 2)


# --- folders that are older copies


def crashed(world: World, node_id: int) -> None:
    """End a member's process; its session times out."""
    for member in world.members:
        if member.cluster.node_id == node_id:
            member.is_paused = True
    world.advance(9000)


def test_each_registration_has_another_stamp_in_the_store_and_in_the_folder() -> None:
    world = World()
    world.started(1)
    first = world.folders[1].mark
    assert first is not None
    assert first.committed is not None
    assert first.pending is None
    crashed(world, 1)
    again = world.member(1).start()
    second = world.folders[1].mark
    assert second is not None
    assert second.committed is not None
    assert second.committed.text != first.committed.text
    assert second.committed.epoch == again.record.epoch
    assert world.folders[1].written[2] == (first.committed, second.committed), "before the commit it holds both"


def test_a_broker_with_its_own_folder_stays_clean_over_crashes_and_lost_sessions() -> None:
    world = World()
    world.started(1)
    (member,) = world.started(2)
    for _ in range(3):
        member.is_paused = True
        world.advance(12_000)
        member.is_paused = False
        world.advance(3000)
        crashed(world, 2)
        member = world.member(2).begin()
        member.controller.stop()
        member.registration.announce(CLEAN)
        world.settle()
        assert member.record.clean


def test_a_broker_with_an_older_copy_of_its_folder_may_lack_records(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.started(1)
    copy = world.folders[1].copy()
    crashed(world, 1)
    world.started(1)
    crashed(world, 1)
    again = world.member(1, folder=copy).begin()
    again.controller.stop()
    with caplog.at_level(logging.WARNING, "kqueue.broker"):
        again.registration.announce(CLEAN)
        world.settle()
    assert not again.record.clean
    (line,) = caplog.messages
    assert "the data of broker 1 in folder of 1 is older than its last life in the cluster" in line
    assert "put them back" in line


def test_an_older_copy_stays_one_whenever_its_start_crashes() -> None:
    """A crash before the commit, and the next start, and the start after that."""
    world = World()
    world.started(1)
    copy = world.folders[1].copy()
    crashed(world, 1)
    world.member(1).start()
    crashed(world, 1)
    for _ in range(3):
        member = world.member(1, folder=copy).begin()
        member.controller.stop()
        member.registration.announce(CLEAN)
        member.jobs.run_all()  # the mark is written
        crashed(world, 1)
    member = world.member(1, folder=copy).begin()
    member.controller.stop()
    member.registration.announce(CLEAN)
    world.settle()
    assert not member.record.clean


def test_an_older_copy_that_has_caught_up_is_the_brokers_folder() -> None:
    world = World()
    world.started(1)
    copy = world.folders[1].copy()
    crashed(world, 1)
    world.member(1).start()
    crashed(world, 1)
    world.member(1, folder=copy).start()
    assert world.broker(1).clean, "it was unfenced, after it had left all sets"
    crashed(world, 1)
    again = world.member(1, folder=copy).begin()
    again.controller.stop()
    again.registration.announce(CLEAN)
    world.settle()
    assert again.record.clean


@pytest.mark.parametrize("steps", range(12))
def test_a_crash_at_any_step_of_a_registration_leaves_a_healthy_broker_clean(steps: int) -> None:
    world = World()
    world.started(1)
    crashed(world, 1)
    member = world.member(1).begin()
    member.registration.announce(CLEAN)
    for _ in range(steps):
        member.jobs.step()
    crashed(world, 1)
    again = world.member(1).begin()
    again.controller.stop()
    again.registration.announce(CLEAN)
    world.settle()
    assert again.record.clean


def test_a_store_older_than_the_folder_is_refused_before_a_session_begins() -> None:
    world = World()
    world.started(1)
    older = dict(world.store.read("/"))
    crashed(world, 1)
    world.member(1).start()
    crashed(world, 1)
    world.store.commit({}, {key: entry.value for key, entry in older.items()}, ())
    with pytest.raises(OlderStore, match=r"store is older than the data of broker 1: .* put back its newest"):
        world.member(1).begin()
    assert world.store.sessions() == {}


def test_a_folder_without_a_mark_is_accepted_by_a_store_without_a_stamp() -> None:
    """That of a kqueue which wrote none; from then on it has one."""
    world = World()
    world.started(1)
    crashed(world, 1)
    world.store.commit({}, {}, [FOLDERS_PREFIX + "1"])
    folder = world.folders[1] = Folder(RegistrationMark())
    member = world.member(1).begin()
    member.controller.stop()
    member.registration.announce(CLEAN)
    world.settle()
    assert member.record.clean
    assert folder.mark is not None
    assert folder.mark.committed is not None
    assert folder.mark.committed.epoch == member.record.epoch


def test_a_registration_by_a_kqueue_without_marks_makes_them_void() -> None:
    world = World()
    world.started(1)
    crashed(world, 1)
    record = world.broker(1)._replace(epoch=world.broker(1).epoch + 1)
    world.store.register(1, "older kqueue", 1).end()
    world.store.commit({}, {"/brokers/1": record.to_bytes()}, ())
    member = world.member(1).begin()
    member.controller.stop()
    member.registration.announce(CLEAN)
    world.settle()
    assert member.record.clean


def test_a_folder_without_a_mark_is_older_than_a_store_with_a_stamp() -> None:
    """It is a copy from before the upgrade, or its mark was removed."""
    world = World()
    world.started(1)
    crashed(world, 1)
    member = world.member(1, folder=Folder(RegistrationMark())).begin()
    member.controller.stop()
    member.registration.announce(CLEAN)
    world.settle()
    assert not member.record.clean


def test_a_folder_that_was_added_and_not_marked_before_a_crash_is_no_older_copy() -> None:
    world = World()
    identity = world.started(1)[0].registration._identity
    mark = world.folders[1].mark
    assert mark is not None
    before = world.broker(1)
    world.members[0].metadata.refresh()
    world.settle()
    identity._marks = {"folder": mark, "added": RegistrationMark()}
    assert identity.compare(before) is Comparison.SAME
    identity._marks = {"folder": mark, "added": RegistrationMark(mark.committed and mark.committed._replace(text="x"))}
    assert identity.compare(before) is Comparison.OLDER_FOLDER


def test_a_disk_that_takes_no_mark_leaves_the_broker_clean_with_the_mark_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.started(1)
    folder = world.folders[1]
    crashed(world, 1)
    folder.error = StorageFailed("the disk is full")
    for _ in range(2):
        member = world.member(1).begin()
        member.controller.stop()
        with caplog.at_level(logging.WARNING, "kqueue.broker"):
            member.registration.announce(CLEAN)
            world.settle()
        assert member.record.clean
        assert "can't be marked with broker epoch" in caplog.messages[-1]
        crashed(world, 1)


def test_an_older_image_of_a_machine_that_goes_on_may_lack_records() -> None:
    """Its process registers again, as one that lost its session, though another one registered."""
    world = World()
    (member,) = world.started(1)
    member.is_paused = True  # the image
    world.advance(12_000)
    newer = world.member(1, incarnation=member.registration._incarnation).start()
    newer.is_paused = True
    world.advance(9000)
    member.is_paused = False
    member.controller.stop()
    world.advance(3000)
    assert not member.record.clean

from __future__ import annotations

import logging

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.cluster.folder_identity import FOLDERS_PREFIX, OlderStore
from kqueue.log.folders.registration_mark import Comparison, RegistrationMark
from kqueue.metadata.memory import MemoryStore
from kqueue.tests.broker.cluster_members import CLEAN, Folder, World
from kqueue.tests.tables import for_each


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


@for_each("steps", range(12))
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


def test_a_copy_of_a_store_is_refused_soon_after_a_topic_has_changed_whatever_was_committed_since() -> None:
    """Its folder would be taken for that of a deleted topic; or another broker leads."""
    world = World()
    world.started(1, 2)
    older = {key: entry.value for key, entry in world.store.read("/").items()}
    world.put_topic("later", [1, 2])
    world.advance(1500)
    crashed(world, 1)
    crashed(world, 2)
    world.store = MemoryStore(world.clock)
    world.store.commit({}, older, ())
    for number in range(50):
        world.store.commit({}, {"/fork": b"%d" % number}, ())
    for node_id in (1, 2):
        with pytest.raises(OlderStore):
            world.member(node_id).begin()


def test_the_stamp_is_renewed_once_for_the_topics_that_changed_within_a_second() -> None:
    world = World()
    (member,) = world.started(1)
    first = member.registration._identity.stored()
    for number in range(20):
        world.put_topic(f"topic-{number}", [1])
    world.advance(5000)
    stored = member.registration._identity.stored()
    assert first is not None
    assert stored is not None
    assert (stored.epoch, stored.renewal) == (first.epoch, 1)
    mark = world.folders[1].mark
    assert mark is not None
    assert mark.committed == stored


# --- copies of a folder that is in use


def test_while_records_are_appended_the_stamp_is_renewed_and_else_it_stays() -> None:
    world = World()
    (member,) = world.started(1)
    first = world.folders[1].mark
    world.advance(30_000)
    assert world.folders[1].mark == first
    member.appended = 1000
    world.advance(11_000)
    renewed = world.folders[1].mark
    assert renewed is not None
    assert renewed != first
    assert member.registration._identity.stored() == renewed.committed
    world.advance(30_000)
    assert world.folders[1].mark == renewed


def test_a_copy_of_a_folder_in_use_is_older_once_records_were_appended() -> None:
    world = World()
    (member,) = world.started(1)
    copy = world.folders[1].copy()
    member.appended = 1000
    world.advance(11_000)
    crashed(world, 1)
    again = world.member(1, folder=copy).begin()
    again.controller.stop()
    again.registration.announce(CLEAN)
    world.settle()
    assert not again.record.clean


@for_each("steps", range(8))
def test_a_crash_at_any_step_of_a_renewal_leaves_a_healthy_broker_clean(steps: int) -> None:
    world = World()
    (member,) = world.started(1)
    member.appended = 1000
    member.registration._renew()
    for _ in range(steps):
        member.jobs.step()
    crashed(world, 1)
    again = world.member(1).begin()
    again.controller.stop()
    again.registration.announce(CLEAN)
    world.settle()
    assert again.record.clean


def test_a_renewal_that_the_disk_or_the_store_refuses_is_repeated() -> None:
    world = World()
    (member,) = world.started(1)
    first = world.folders[1].mark
    member.appended = 1000
    world.folders[1].error = StorageFailed("the disk is full")
    world.advance(21_000)
    assert world.folders[1].mark == first
    world.folders[1].error = None
    world.advance(11_000)
    assert world.folders[1].mark != first
    assert member.registration.is_unfenced


def test_a_session_that_was_lost_in_a_renewal_is_registered_again_clean() -> None:
    world = World()
    world.started(1)
    (member,) = world.started(2)
    member.appended = 1000
    member.registration._renew()
    member.is_paused = True
    world.advance(12_000)
    member.is_paused = False
    world.advance(3000)
    assert member.record.clean
    assert not member.record.fenced
    mark = world.folders[2].mark
    assert mark is not None
    assert mark.committed == member.registration._identity.stored()


def test_a_copy_of_a_store_in_use_is_refused_once_records_were_appended() -> None:
    world = World()
    (member,) = world.started(1)
    older = dict(world.store.read("/"))
    member.appended = 1000
    world.advance(11_000)
    crashed(world, 1)
    world.store.commit({}, {key: entry.value for key, entry in older.items()}, ())
    with pytest.raises(OlderStore):
        world.member(1).begin()

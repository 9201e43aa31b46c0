from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping

import pytest

from kqueue.base.errors import NodeIdInUse, StorageFailed
from kqueue.broker.cluster import registration
from kqueue.broker.cluster.registration import LogsFound, WrongCluster, join_cluster
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import Session, Term
from kqueue.replication.registrations import BrokerRegistration
from kqueue.tests.broker.cluster_members import CLEAN, World
from kqueue.tests.tables import for_each


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


def test_broker_that_loses_the_race_takes_the_cluster_id_of_the_first() -> None:
    assert join_cluster(Racing(), [("a", None)], random.Random(0)) == "theirs"


@for_each(
    "record, error, words",
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


def test_a_broker_whose_node_id_another_process_took_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    first = world.member(1).start()
    first.is_paused = True
    world.advance(9000)
    world.member(1).start()
    caplog.clear()
    first.is_paused = False
    world.advance(9000)
    assert sum("node id 1 is in use" in line for line in caplog.messages) == 1


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


@for_each(
    "after, clean, outdated",
    [
        (CLEAN, True, False),
        (CLEAN._replace(is_intact=False), False, True),
        (CLEAN._replace(directories=("folder", "more")), True, False),
        (CLEAN._replace(directories=("another",)), False, True),
        (CLEAN._replace(flushes_first=False), False, False),
        (CLEAN._replace(flushes_first=False, stopped_epochs=(1,)), True, False),
        (CLEAN._replace(flushes_first=False, stopped_epochs=(7,)), False, False),
        (CLEAN._replace(flushes_first=False, stopped_epochs=(1, -1)), False, False),
    ],
)
def test_logs_are_clean_if_nothing_confirmed_can_be_missing(after: LogsFound, clean: bool, outdated: bool) -> None:
    """Rule 1: else it is eligible for nothing, and an outdated one gives way to killed ones."""
    record = registered(CLEAN, after)
    assert (record.clean, record.outdated) == (clean, outdated)
    assert BrokerRegistration.from_bytes(1, record.to_bytes()) == record


def test_a_life_that_lost_records_is_not_mended_by_a_clean_one_that_was_never_unfenced() -> None:
    before = BrokerRegistration(1, 4, "x", {}, clean=False, directories=("folder",))
    assert not CLEAN._replace(stopped_epochs=(4,)).is_clean(before)
    assert CLEAN.is_clean(None)
    assert CLEAN.is_outdated(before._replace(outdated=True))


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

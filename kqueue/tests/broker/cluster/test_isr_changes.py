from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping

import pytest

from kqueue.base.errors import LogRecovering, StorageFailed
from kqueue.broker.cluster import isr_changes
from kqueue.broker.member import Member
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import NewTopic
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import Session, Term
from kqueue.replication.registrations import NO_LEADER, TOPICS_PREFIX, PartitionRegistration
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import fetch, fetch_of
from kqueue.tests.tables import for_each

LAG_MS = 10_000
SETTINGS = {"replica.lag.time.max.ms": LAG_MS, "kqueue.storage": "memory"}


class WatchedStore(MemoryStore):
    """Counts commits by sessions; the next one may fail before or after it happened."""

    fails = ""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.commits: list[list[str]] = []

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        if by is None:
            return super().commit(guards, puts, deletes)
        self.commits.append(sorted(puts))
        fails, self.fails = self.fails, ""
        if fails == "before":
            raise StorageFailed("no answer")
        versions = super().commit(guards, puts, deletes, by=by)
        if fails == "after":
            raise StorageFailed("no answer")
        return versions


class Leader:
    """Three brokers; broker 1 leads partition 0 of each topic, and proposes; nobody controls.

    Sessions last: the store has a clock of its own.
    """

    def __init__(self, *topics: str, min_isr: int = 1) -> None:
        self.store = WatchedStore()
        self.members = Members(3, SETTINGS, store=self.store)
        self.broker = self.members[1].broker
        self.topics = topics or ("t",)
        for name in self.topics:
            new = NewTopic(name, assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": str(min_isr)})
            self.members.result(self.broker.topics.create(new))
        self.member = Member(self.broker, self.store, random.Random(0))
        self.member.controller.stop()
        self.member.registration.begin()
        assert self.member.is_unfenced, "its record has the epoch of the session"
        self.member.isr_changes.start()
        for name in self.topics:
            self.member.isr_changes.became_leader(self.members.partition(1, name))
        self.settle()
        self.store.commits.clear()

    @property
    def partition(self) -> Partition:
        return self.members.partition(1, self.topics[0])

    def settle(self) -> None:
        self.members.settle()
        while self.broker.scheduler.timers.run_due(self.members.clock.monotonic_ms()):
            self.members.settle()

    def advance(self, ms: float) -> None:
        for _ in range(int(ms // 1000)):
            self.members.clock.advance(1000)
            self.settle()

    def fetch(self, *nodes: int) -> None:
        for node in nodes:
            fetch(self.members, node)
            self.settle()

    def behind(self, *nodes: int, ms: int = 16_000) -> None:
        """Append, and let time pass in which only these followers fetch."""
        append(self.partition, b"a")
        for _ in range(ms // 1000):
            self.fetch(*nodes)
            self.advance(1000)

    def stored(self, topic: str = "t") -> PartitionRegistration:
        return self.members.registration(topic).partitions[0]


def test_a_follower_that_lags_leaves_and_joins_again_once_it_has_caught_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rules 24 and 25."""
    leader = Leader()
    with caplog.at_level(logging.INFO, isr_changes.__name__), caplog.at_level(logging.INFO, "kqueue.broker"):
        leader.behind(2)
        assert leader.stored().isr == leader.partition.isr == (1, 2)
        assert leader.partition.high_watermark == 1, "3 does not count any more"
        leader.fetch(3)
        assert leader.stored().isr == (1, 2), "its log end is below the high watermark"
        leader.fetch(3)
        assert leader.stored().isr == (1, 2, 3)
    assert leader.stored().leader_epoch == 0
    lines = [line for line in caplog.messages if "in sync [" in line]
    assert len(lines) == 2
    assert lines[0].startswith("t-0: in sync [1,2,3] -> [1,2]; broker 3 has not caught up for 1")
    assert lines[1] == "t-0: in sync [1,2] -> [1,2,3]"


def test_a_follower_that_caught_up_with_every_earlier_end_stays() -> None:
    leader = Leader()
    for _ in range(30):
        append(leader.partition, b"a")
        leader.fetch(2, 3)
        leader.advance(1000)
    assert leader.store.commits == []
    assert leader.stored().isr == (1, 2, 3)


def test_members_that_left_below_the_minimum_stay_eligible_until_it_is_reached_again() -> None:
    """Rules 6 and 29."""
    leader = Leader(min_isr=3)
    leader.behind(2)
    assert (leader.stored().isr, leader.stored().elr) == ((1, 2), (3,))
    assert leader.partition.high_watermark == 0
    leader.fetch(3)
    leader.fetch(3)
    assert (leader.stored().isr, leader.stored().elr) == ((1, 2, 3), ())
    leader.fetch(2, 3)
    assert leader.partition.high_watermark == 1


def test_a_new_member_counts_before_the_store_has_it() -> None:
    """Rule 26."""
    leader = Leader()
    leader.behind(2)
    leader.fetch(3)
    follower = leader.members.partition(3)
    leader.partition.lead().fetch(fetch_of(follower, 3), 1000)
    while leader.broker.scheduler.timers.run_due(leader.members.clock.monotonic_ms()):
        pass
    assert leader.stored().isr == (1, 2)
    assert leader.partition.replica.leadership is not None
    assert leader.partition.replica.leadership.maximal_isr == {1, 2, 3}
    append(leader.partition, b"b")
    leader.partition.lead().fetch(fetch_of(leader.members.partition(2), 2), 1000)
    assert leader.partition.high_watermark == 1
    leader.settle()
    assert leader.stored().isr == (1, 2, 3)


@for_each("change", ["fenced", "registered again", "gone"])
def test_a_follower_that_is_not_there_any_more_does_not_join(change: str) -> None:
    """Rule 27: its record guards the commit, also where this broker has not seen the change yet."""
    leader = Leader()
    leader.behind(2)
    leader.fetch(3)
    leader.partition.lead().fetch(fetch_of(leader.members.partition(3), 3), 1000)
    while leader.broker.scheduler.timers.run_due(leader.members.clock.monotonic_ms()):
        pass
    if change == "gone":
        leader.store.commit({}, {}, ["/brokers/3"])
    else:
        leader.members.register(3, epoch=1 if change == "fenced" else 9, fenced=change == "fenced")
    leader.settle()
    assert leader.store.commits[-1] == ["/topics/t"]
    assert leader.stored().isr == (1, 2)
    assert leader.partition.replica.leadership is not None
    assert leader.partition.replica.leadership.maximal_isr == {1, 2}, "rolled back: rule 28"


def test_a_change_of_another_partition_of_the_topic_only_delays_it() -> None:
    leader = Leader()
    leader.members.result(leader.broker.topics.add_partitions("t", 2))
    leader.behind(2)
    leader.fetch(3)
    leader.partition.lead().fetch(fetch_of(leader.members.partition(3), 3), 1000)
    while leader.broker.scheduler.timers.run_due(leader.members.clock.monotonic_ms()):
        pass
    registration = leader.members.registration()
    other = registration.partitions[1]
    changed = other._replace(leader=NO_LEADER, partition_epoch=other.partition_epoch + 1)
    record = registration._replace(partitions=(registration.partitions[0], changed)).to_bytes()
    leader.store.commit({}, {f"{TOPICS_PREFIX}t": record}, ())
    leader.settle()
    assert leader.stored().isr == (1, 2, 3)
    assert leader.members.registration().partitions[1].leader == NO_LEADER


@for_each("fails", ["before", "after"])
def test_an_unknown_outcome_is_settled_by_what_the_store_has(fails: str) -> None:
    """Rule 28: the new member counts meanwhile."""
    leader = Leader()
    leader.behind(2)
    leader.fetch(3)
    leader.store.fails = fails
    leader.fetch(3)
    assert leader.partition.replica.leadership is not None
    assert leader.partition.replica.leadership.maximal_isr == {1, 2, 3}
    assert leader.stored().isr == ((1, 2) if fails == "before" else (1, 2, 3))
    leader.advance(2000)
    assert leader.stored().isr == (1, 2, 3)
    assert len(leader.store.commits) == (3 if fails == "before" else 2)


def test_a_lost_session_changes_nothing() -> None:
    """Rule 7."""
    leader = Leader()
    assert leader.member.registration.session is not None
    leader.member.registration.session.end()
    leader.behind(2)
    assert leader.store.commits
    assert leader.stored().isr == (1, 2, 3)
    assert leader.partition.high_watermark == 0, "who is in sync did not change"


def test_a_fenced_leader_proposes_nothing() -> None:
    leader = Leader()
    append(leader.partition, b"a")
    leader.members.register(1, fenced=True)
    leader.settle()
    leader.advance(16_000)
    assert leader.store.commits == []


def test_topics_share_a_commit_and_a_conflict_of_one_delays_no_other() -> None:
    names = [f"t{number}" for number in range(5)]
    leader = Leader(*names)
    for name in names:
        append(leader.members.partition(1, name), b"a")
    leader.members.clock.advance(LAG_MS + 1)
    while leader.broker.scheduler.timers.run_due(leader.members.clock.monotonic_ms()):
        pass
    registration = leader.members.registration("t3")
    leader.store.commit({}, {f"{TOPICS_PREFIX}t3": registration._replace(configs={"retention.ms": "5"}).to_bytes()}, ())
    leader.settle()
    assert leader.store.commits[0] == [f"/topics/{name}" for name in names]
    assert sorted(leader.store.commits[1:]) == [[f"/topics/{name}"] for name in names]
    assert all(leader.stored(name).isr == (1,) for name in names)


def test_many_topics_are_committed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "TOPICS_MAX", 2)
    names = [f"t{number}" for number in range(5)]
    leader = Leader(*names)
    for name in names:
        append(leader.members.partition(1, name), b"a")
    leader.advance(16_000)
    assert [len(keys) for keys in leader.store.commits] == [2, 2, 1]
    assert all(leader.stored(name).isr == (1,) for name in names)


def test_former_or_stopped_leader_proposes_nothing() -> None:
    leader = Leader("t", "u")
    append(leader.members.partition(1, "u"), b"a")
    leader.members.write(lambda old: old._replace(leader=2, leader_epoch=1))
    leader.member.isr_changes.stop()
    leader.advance(16_000)
    assert leader.store.commits == []


def test_a_leader_that_was_elected_unclean_confirms_that_it_leads() -> None:
    leader = Leader()
    leader.members.write(
        lambda old: old._replace(leader=2, leader_epoch=1),
    )
    leader.members.write(
        lambda old: old._replace(leader=1, leader_epoch=2, isr=(1,), recovering=True),
    )
    leader.settle()
    assert leader.store.commits == [["/topics/t"]]
    assert not leader.stored().recovering
    assert leader.stored().leader_epoch == 2


def test_a_leader_whose_log_is_being_recovered_proposes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader("t", "u")
    for topic in ("t", "u"):
        append(leader.members.partition(1, topic), b"a")

    def end_offset(partition: Partition) -> int:
        if partition.topic == "t":
            raise LogRecovering("the log of t-0 is being recovered")
        return partition.log.end_offset

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "log_end_offset", property(end_offset))
        leader.advance(16_000)
    assert leader.store.commits == [["/topics/u"]], "the other partition goes on"
    leader.advance(16_000)
    assert leader.store.commits == [["/topics/u"], ["/topics/t"]]

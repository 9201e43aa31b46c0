from __future__ import annotations

import random
from typing import Any

import pytest

from kqueue.base.errors import FetchSessionNotFound, InvalidFetchSessionEpoch, NotLeader, UnknownTopicId
from kqueue.broker.fetch import follower_sessions
from kqueue.broker.fetch.fetch_sessions import PartitionFetch
from kqueue.broker.fetch.follower_sessions import LOOK_MS, FollowerSession, FollowerSessions
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.log_leader import LogLeader
from kqueue.broker.topics.topics import NewTopic
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import MEMORY, PLENTY, elect, started


def sessions_of(members: Members, node: int = 1) -> FollowerSessions:
    broker = members[node].broker
    return FollowerSessions(
        broker.topics, broker.scheduler.purgatory, broker.scheduler.clock, random.Random(0), broker.config, node
    )


def fetch(members: Members, offset: int = 0, index: int = 0, max_bytes: int = PLENTY) -> PartitionFetch:
    return PartitionFetch(members[1].broker.topics.get("t").id, index, offset, max_bytes, 0, -1)


def opened(members: Members) -> FollowerSession:
    return sessions_of(members).open(0, 0, 2, 1)


def test_epochs_count_up_and_a_full_fetch_replaces_the_session() -> None:
    members = started(MEMORY)
    sessions = sessions_of(members)
    session = sessions.open(0, 0, 2, 1)
    assert session.epoch == 1
    assert sessions.open(session.id, 1, 2, 1) is session
    for epoch in (1, 3):
        with pytest.raises(InvalidFetchSessionEpoch):
            sessions.open(session.id, epoch, 2, 1)
    for node_id, broker_epoch in ((3, 1), (2, 2)):
        with pytest.raises(FetchSessionNotFound):
            sessions.open(session.id, 2, node_id, broker_epoch)
    other = sessions.open(session.id, 0, 2, 1)
    assert other is not session
    assert len(sessions) == 1
    assert sessions.open(0, -1, 2, 1).id == 0
    assert len(sessions) == 1


def test_a_new_life_of_a_follower_ends_the_sessions_of_the_former() -> None:
    sessions = sessions_of(started(MEMORY))
    old = [sessions.open(0, 0, 2, 1) for _ in range(2)]
    other = sessions.open(0, 0, 3, 1)
    new = sessions.open(0, 0, 2, 5)
    assert len(sessions) == 2
    assert {new.id, other.id}.isdisjoint(one.id for one in old)


def test_too_many_sessions_end_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_sessions, "SESSIONS_MAX", 3)
    sessions = sessions_of(started(MEMORY))
    first = sessions.open(0, 0, 2, 1)
    second = sessions.open(0, 0, 2, 1)
    sessions.open(first.id, 1, 2, 1)
    for _ in range(2):
        sessions.open(0, 0, 2, 1)
    assert len(sessions) == 3
    with pytest.raises(FetchSessionNotFound):
        sessions.open(second.id, 1, 2, 1)


def test_too_many_partitions_end_the_sessions_unused_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_sessions, "PARTITIONS_MAX", 5)
    members = started(MEMORY)
    sessions = sessions_of(members)
    opened = [sessions.open(0, 0, 2, 1) for _ in range(3)]
    for session in opened:
        for index in range(2):
            session.put(fetch(members, index=index))
    sessions.check_size(opened[2])
    assert [len(session.partitions) for session in opened] == [0, 2, 2]
    for index in range(6):
        opened[2].put(fetch(members, index=index))
    with pytest.raises(FetchSessionNotFound):
        sessions.check_size(opened[2])
    assert len(sessions) == 0


def test_a_partition_that_is_unknown_is_not_kept() -> None:
    session = opened(started(MEMORY))
    session.put(PartitionFetch(bytes(16), 0, 0, PLENTY))
    look = session.look(PLENTY)
    assert len(look.results) == 1
    session.answered(look.results)
    assert not session.partitions


def test_a_partition_is_due_when_named_and_with_each_append() -> None:
    members = started(MEMORY)
    session = opened(members)
    session.put(fetch(members))
    look = session.look(PLENTY)
    assert (look.size, look.is_urgent, len(look.results)) == (0, False, 1)  # its high watermark is news
    session.answered(look.results)
    assert not session.due
    assert session.look(PLENTY).results == []
    append(members.partition(1), b"a")
    members.settle()
    assert list(session.due)
    look = session.look(PLENTY)
    assert look.size > 0
    session.answered(look.results)
    assert not session.due, "the follower names it again"


def test_partition_without_room_stays_due() -> None:
    members = started(MEMORY)
    append(members.partition(1), b"a" * 1000)
    session = opened(members)
    session.put(fetch(members, max_bytes=10))
    look = session.look(10)
    assert look.size > 1000, "the first batch is sent whole"
    session.answered(look.results)
    session.put(fetch(members, max_bytes=0))
    monkey = session.look(0)
    assert monkey.size > 1000


def test_a_waiting_fetch_looks_at_many_partitions_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_sessions, "LOOKS_MAX", 2)
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={index: [1, 2] for index in range(7)})))
    session = opened(members)
    for index in range(7):
        session.put(fetch(members, index=index))
    while session.due:  # the high watermark of each is news
        session.answered(session.look(PLENTY).results)
    append(members.partition(1, index=6), b"a")
    for index in range(7):
        session.put(fetch(members, index=index))
    looks = [session.look(PLENTY)]
    woken = DelayedOperation[None]((session,), None, lambda expired: looks.append(session.look(PLENTY)))
    members[1].broker.scheduler.purgatory.add(woken, lambda _: None)
    members.settle()
    assert [look.size > 0 for look in looks] == [False, False, False, True]
    assert [len(look.results) for look in looks] == [0, 0, 0, 1]


def test_a_look_takes_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={index: [1, 2] for index in range(20)})))
    session = opened(members)
    for index in range(20):
        session.put(fetch(members, index=index))
    opening = LogLeader.fetch

    def slow(*arguments: Any, **more: Any) -> Any:
        members.clock.advance(LOOK_MS / 2)
        return opening(*arguments, **more)

    monkeypatch.setattr(LogLeader, "fetch", slow)
    seen = []
    while session.due:
        look = session.look(PLENTY)
        seen.append([result.followed.fetch.index for result in look.results])
        session.answered(look.results)
    assert seen == [[index, index + 1] for index in range(0, 20, 2)]


def test_a_follower_out_of_sync_is_sent_no_more_than_the_throttle_allows() -> None:
    members = started({**MEMORY, "leader.replication.throttled.rate": 1000})
    throttled = members[1].broker.config.for_topic({"leader.replication.throttled.replicas": "0:1"})
    members[1].broker.topics.get("t").configure(throttled)
    append(members.partition(1), b"a" * 3000)
    session = opened(members)
    session.put(fetch(members))
    look = session.look(PLENTY)
    session.answered(look.results)
    assert look.size > 3000, "in sync"
    members.write(lambda old: old._replace(isr=(1, 3)))
    members[1].broker.topics.get("t").configure(throttled)
    session.put(fetch(members))
    members.clock.advance(1000)
    look = session.look(PLENTY)
    assert look.size == 0, "more than two seconds' worth are used up by the one in sync"
    assert session.due
    leadership = members.partition(1).replica.leadership
    assert leadership is not None
    assert leadership.followers[2].leo == 0, "its fetch is recorded"
    members.clock.advance(1100)
    assert session.look(PLENTY).size > 3000
    other = sessions_of(members).open(0, 0, 3, 1)
    other.put(fetch(members))
    assert other.look(PLENTY).size > 3000, "another replica is in sync"


def test_errors_are_urgent_and_told_once() -> None:
    members = started(MEMORY)
    session = opened(members)
    session.put(PartitionFetch(bytes(16), 0, 0, PLENTY))
    look = session.look(PLENTY)
    assert look.is_urgent
    assert isinstance(look.results[0].error, UnknownTopicId)
    session.answered(look.results)
    assert session.look(PLENTY).results == []


def test_a_new_role_makes_a_partition_due() -> None:
    members = started(MEMORY)
    session = opened(members)
    session.put(fetch(members))
    session.answered(session.look(PLENTY).results)
    elect(members, 2)
    look = session.look(PLENTY)
    assert look.is_urgent
    assert look.results[0].error is not None


def test_each_fetch_records_some_idle_partitions_again() -> None:
    members = started(MEMORY)
    session = opened(members)
    new = NewTopic("u", assignments={index: [1, 2] for index in range(4)})
    topic = members.result(members[1].broker.topics.create(new))
    for index in range(4):
        session.put(PartitionFetch(topic.id, index, 0, PLENTY, 0))
    session.answered(session.look(PLENTY).results)
    assert not session.due
    session.record_some(session.recorded_ms + 250, 1000)
    assert len(session.due) == 1
    first = list(session.due)
    session.record_some(session.recorded_ms + 5000, 1000)
    assert len(session.due) == 4
    assert first[0] in session.due


def test_a_forgotten_partition_is_not_watched() -> None:
    members = started(MEMORY)
    watched = len(members[1].broker.scheduler.purgatory)
    session = opened(members)
    session.put(fetch(members))
    session.look(PLENTY)
    assert len(members[1].broker.scheduler.purgatory) == watched + 1
    session.forget(fetch(members).key)
    assert len(members[1].broker.scheduler.purgatory) == watched
    append(members.partition(1), b"a")
    members.settle()
    assert session.look(PLENTY).results == []


def test_a_broker_that_leads_nothing_says_so() -> None:
    members = started(MEMORY)
    session = sessions_of(members, 2).open(0, 0, 3, 1)
    session.put(fetch(members))
    assert isinstance(session.look(PLENTY).results[0].error, NotLeader)

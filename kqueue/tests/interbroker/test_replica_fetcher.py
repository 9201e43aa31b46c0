"""Fetch loops of followers, step by step and without sockets."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kqueue.base.config import ConfigSource
from kqueue.base.errors import OffsetOutOfRange
from kqueue.broker.replicas.log_leader import LogLeader
from kqueue.interbroker.replica_fetcher import NAMED_MAX
from kqueue.replication.leader_replica import LeaderReplica
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import KAFKA, MEMORY, elect
from kqueue.tests.interbroker.fetching_members import BACKOFF_MS, FetchingMembers
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchRequest
from kqueue.wire.messages.list_offsets import ListOffsetsRequest

ALL = [1, 2, 3]


def requests(members: FetchingMembers, node: int) -> list[FetchRequest]:
    return [request for request in members.peers[node].requests if isinstance(request, FetchRequest)]


def named(request: FetchRequest) -> list[int]:
    return [row.partition for topic in request.topics for row in topic.partitions]


@for_each("settings", [{}, KAFKA, MEMORY])
def test_followers_copy_verbatim_and_the_leader_commits(settings: dict[str, object]) -> None:
    members = FetchingMembers(3, settings)
    members.topic("t", ALL)
    leader = members.partition(1)
    for _ in range(3):
        append(leader, b"a", b"b")
        members.settle()
        assert leader.is_committed(leader.log_end_offset)
    assert len(set(members.logs())) == 1
    members.advance(1000)
    assert [members.partition(node).high_watermark for node in ALL] == [6, 6, 6]


def test_an_idle_follower_names_no_partition(caplog: pytest.LogCaptureFixture) -> None:
    members = FetchingMembers(2, {"replica.lag.time.max.ms": 30_000})
    members.topic("t", *[[1, 2]] * 20)
    members.advance(2000)
    before = len(requests(members, 2))
    members.advance(10_000)
    idle = requests(members, 2)[before:]
    assert 15 <= len(idle) <= 25, "one in replica.fetch.wait.max.ms"
    assert not any(named(request) for request in idle)
    append(members.partition(1, "t", 7), b"a")
    members.settle()
    assert [named(request) for request in requests(members, 2)[before + len(idle) :]] == [[7]]


def test_the_leader_hears_of_idle_partitions_often_enough_to_keep_their_followers_in_sync() -> None:
    members = FetchingMembers(2, {"replica.lag.time.max.ms": 4000})
    members.topic("t", *[[1, 2]] * 5)
    members.advance(60_000)
    now_ms = members.clock.monotonic_ms()
    for index in range(5):
        leadership = members.partition(1, "t", index).replica.leadership
        assert leadership is not None
        assert now_ms - leadership.followers[2].last_caught_up_ms <= 2000


def test_rule_19_a_follower_cuts_what_the_new_leader_does_not_have(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    members = FetchingMembers(3)
    members.topic("t", ALL)
    append(members.partition(1), b"a")
    members.advance(1000)
    for node in (2, 3):
        members.peers[node].down.add(1)
    members.advance(600)
    append(members.partition(1), b"only here", b"and here")
    members.settle()
    elect(members, 2, 2, 3)
    append(members.partition(2), b"elsewhere")
    members.advance(2000)
    assert len(set(members.logs())) == 1
    assert [members.partition(node).log_end_offset for node in ALL] == [2, 2, 2]
    assert "t-0: truncated from offset 3 to 1, where broker 2's log differs" in caplog.text
    assert "lost" not in caplog.text


def test_a_follower_below_the_leaders_start_begins_again_there() -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    members.peers[2].down.add(1)
    members.advance(600)
    members.write(lambda old: old._replace(isr=(1,)))
    leader = members.partition(1)
    for _ in range(3):
        append(leader, b"a", b"b")
    members.settle()
    leader.log.advance_start(4)
    members.peers[2].down.clear()
    members.advance(3 * BACKOFF_MS)
    follower = members.partition(2)
    assert (follower.log_start_offset, follower.log_end_offset) == (4, 6)


@for_each("settings", [{}, KAFKA])
def test_a_follower_begins_with_the_whole_of_a_batch_in_which_the_leaders_log_starts(
    settings: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    members = FetchingMembers(2, settings)
    members.topic("t", [1, 2])
    members.peers[2].down.add(1)
    members.advance(600)
    members.write(lambda old: old._replace(isr=(1,)))
    leader = members.partition(1)
    for _ in range(3):
        append(leader, b"a", b"b", b"c")
    members.settle()
    leader.log.advance_start(4)
    members.peers[2].down.clear()
    members.advance(5 * BACKOFF_MS)
    follower = members.partition(2)
    assert (follower.log_start_offset, follower.log_end_offset) == (4, 9)
    assert "trying again" not in caplog.text.partition("begins again")[2]
    append(leader, b"d")
    members.advance(1000)
    assert (follower.log_end_offset, follower.high_watermark) == (10, 10)
    assert follower.log.read(4, 1000, end_offset=10).read() == leader.log.read(4, 1000, end_offset=10).read()


def test_a_follower_that_starts_beyond_the_leaders_end_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    append(members.partition(1), b"a")
    members.advance(1000)
    members.peers[2].down.add(1)
    members.advance(600)
    members.write(lambda old: old._replace(isr=(1,)))
    leader = members.partition(1)
    for _ in range(5):
        append(leader, b"b")
    members.settle()
    leader.log.advance_start(4)
    elect(members, 2, 2)  # unclean
    append(members.partition(2), b"c")
    before = len(requests(members, 1))
    members.advance(3 * BACKOFF_MS)
    assert (leader.log_start_offset, leader.log_end_offset, leader.high_watermark) == (0, 2, 2)
    assert len(set(members.logs())) == 1
    assert "t-0: begins anew, to copy from offset 0 on: it had offsets 4 to " in caplog.text
    assert len(requests(members, 1)) - before < 10
    append(members.partition(2), b"d")
    members.settle()
    assert len(set(members.logs())) == 1
    members.kill(1)
    members.start(1)
    assert members.partition(1).log_end_offset == 3


def test_a_follower_beyond_the_end_of_a_leader_that_compares_no_epochs_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = FetchingMembers(3)
    members.topic("t", ALL)
    append(members.partition(1), b"a")
    members.advance(1000)
    for node in (2, 3):
        members.peers[node].down.add(1)
    members.advance(600)
    append(members.partition(1), b"only here", b"and here")
    members.settle()
    monkeypatch.setattr(LeaderReplica, "diverging", lambda *_: None)
    elect(members, 2, 2, 3)
    members.advance(2000)
    assert [members.partition(node).log_end_offset for node in ALL] == [1, 1, 1]
    assert len(set(members.logs())) == 1


def test_a_leader_that_refuses_an_offset_within_its_log_is_asked_after_the_backoff(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    members.advance(600)
    before = len(requests(members, 2))

    def refuse(*_: object, **__: object) -> None:
        raise OffsetOutOfRange("no")

    with monkeypatch.context() as patch:
        patch.setattr(LogLeader, "fetch", refuse)
        append(members.partition(1), b"a")
        members.advance(10 * BACKOFF_MS)
        assert 5 <= len(requests(members, 2)) - before <= 35
        assert caplog.text.count("answers OFFSET_OUT_OF_RANGE, trying again") == 1
    members.advance(2 * BACKOFF_MS)
    assert len(set(members.logs())) == 1


def test_a_leader_that_does_not_say_its_offsets_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    members.peers[2].down.add(1)
    members.advance(600)
    members.write(lambda old: old._replace(isr=(1,)))
    leader = members.partition(1)
    append(leader, b"a", b"b")
    members.settle()
    leader.log.advance_start(2)
    members.peers[2].down.clear()
    while not any(isinstance(request, ListOffsetsRequest) for request in members.peers[2].requests):
        members.clock.advance(50)
        members[2].broker.scheduler.timers.run_due(members.clock.monotonic_ms())
        Members.settle(members)
        members.peers[2].deliver()
    members.peers[2].down.add(1)
    members.settle()
    assert "t-0: copying from broker 1 failed, trying again: broker 1 is down" in caplog.text
    members.peers[2].down.clear()
    members.advance(4 * BACKOFF_MS)
    assert (members.partition(2).log_start_offset, members.partition(2).log_end_offset) == (2, 2)


def test_log_start_and_high_watermark_follow_within_the_wait() -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    leader, follower = members.partition(1), members.partition(2)
    append(leader, b"a", b"b")
    members.settle()
    assert (leader.high_watermark, follower.high_watermark) == (2, 0)
    members.advance(600)
    assert follower.high_watermark == 2
    leader.log.advance_start(1)
    leader.log_start_moved()
    members.advance(600)
    assert follower.log_start_offset == 1


def test_a_leader_that_is_away_is_asked_again_after_the_backoff() -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    members.advance(600)
    members.peers[2].down.add(1)
    before = len(requests(members, 2))
    members.advance(2000)
    tries = len(requests(members, 2)) - before
    assert 2000 / BACKOFF_MS / 2 <= tries <= 2000 / BACKOFF_MS + 2
    append(members.partition(1), b"a")
    members.peers[2].down.clear()
    members.advance(2 * BACKOFF_MS)
    assert len(set(members.logs())) == 1


def test_a_lost_session_is_opened_again_at_once() -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2], [1, 2])
    members.settle()
    sessions = members[1].broker.fetch_sessions.of_followers
    for id in list(sessions._sessions):
        sessions.close(id, 2)
    members.advance(600)
    append(members.partition(1, "t", 1), b"a")
    members.settle()
    assert members.partition(1, "t", 1).is_committed(1)


class Tampered:
    """Gives a partition's next answers another content."""

    def __init__(self, members: FetchingMembers, node: int, index: int, **fields: Any) -> None:
        self.left = 1
        self._members, self._index, self._fields = members, index, fields
        fetcher = next(iter(members.fetchers[node]._fetchers.values()))
        self._answered = fetcher._answered
        fetcher._answered = self  # type: ignore[method-assign]

    def __call__(self, response: Any) -> None:
        rows = [row for topic in response.responses for row in topic.partitions if row.partition_index == self._index]
        if rows and self.left:
            self.left -= 1
            for name, value in self._fields.items():
                setattr(rows[0], name, value)
        self._answered(response)


@pytest.mark.parametrize(
    "fields",
    [
        {"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "records": b""},
        {"error_code": 999, "records": b""},
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER, "records": b""},
        {"records": memoryview(b"no batch" * 20)},
        {"records": memoryview(b"\0" * 70)},
        {"records": memoryview(b"short")},
    ],
    ids=["storage", "unknown", "not leader", "garbage", "zeros", "short"],
)
def test_a_partition_that_fails_backs_off_alone(fields: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2], [1, 2])
    members.settle()
    tampered = Tampered(members, 2, 0, **fields)
    members.advance(600)  # a request after it
    for index in (0, 1):
        append(members.partition(1, "t", index), b"a")
    members.settle()
    assert tampered.left == 0
    assert members.partition(2, "t", 0).log_end_offset == 0
    assert members.partition(2, "t", 1).log_end_offset == 1
    append(members.partition(1, "t", 1), b"b")
    members.settle()
    assert members.partition(2, "t", 1).log_end_offset == 2
    members.advance(3 * BACKOFF_MS + 600)
    assert len(set(members.logs("t", 0))) == 1
    expected = fields.get("error_code") != ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert sum("t-0" in record.message for record in caplog.records) == expected


def test_a_log_that_is_being_recovered_is_copied_later_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    append(members.partition(1), b"a")
    members.settle()
    members.kill(2)
    append(members.partition(1), b"b")
    members.start(2, recovers=False)
    with caplog.at_level(logging.WARNING):
        members.join(2)
        members.advance(BACKOFF_MS * 3)
    assert len(set(members.logs())) == 1
    assert not [line for line in caplog.messages if "trying again" in line]


def test_more_partitions_than_one_request_names() -> None:
    members = FetchingMembers(2, MEMORY)
    members.topic("t", *[[1, 2]] * (NAMED_MAX + 50))
    append(members.partition(1, "t", NAMED_MAX + 40), b"a")
    members.advance(1200)
    assert members.partition(1, "t", NAMED_MAX + 40).is_committed(1)
    assert max(len(named(request)) for request in requests(members, 2)) <= NAMED_MAX


def test_several_fetchers_share_the_partitions_and_follow_the_setting() -> None:
    members = FetchingMembers(2, {"num.replica.fetchers": 3})
    members.topic("t", *[[1, 2]] * 30)
    members.settle()
    sizes = [len(fetcher) for fetcher in members.fetchers[2]._fetchers.values()]
    assert len(sizes) == 3
    assert sum(sizes) == 30
    assert min(sizes) > 3
    for index in range(30):
        append(members.partition(1, "t", index), b"a")
    members.advance(600)
    assert all(members.partition(1, "t", index).is_committed(1) for index in range(30))


def test_leadership_that_moves_back_and_forth_leaves_equal_logs() -> None:
    members = FetchingMembers(3)
    members.topic("t", ALL)
    for round in range(6):
        leader = 1 + round % 3
        elect(members, leader)
        append(members.partition(leader), b"of round %d" % round)
        members.advance(700)
    assert len(set(members.logs())) == 1
    assert {members.partition(node).high_watermark for node in ALL} == {6}


def test_a_deleted_topic_is_fetched_no_more(caplog: pytest.LogCaptureFixture) -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    members.topic("u", [1, 2])
    members.settle()
    members.result(members[1].broker.topics.delete("t"))
    members.advance(1200)
    append(members.partition(1, "u"), b"a")
    members.settle()
    assert members.partition(1, "u").is_committed(1)
    assert sum(map(len, members.fetchers[2]._fetchers.values())) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_close_ends_the_loops() -> None:
    members = FetchingMembers(2)
    members.topic("t", [1, 2])
    members.settle()
    members.fetchers[2].close()
    before = len(requests(members, 2))
    append(members.partition(1), b"a")
    members.advance(3000)
    assert len(requests(members, 2)) == before


def test_a_follower_out_of_sync_copies_no_faster_than_the_throttle() -> None:
    rate = 10_000
    settings = {**MEMORY, "follower.replication.throttled.rate": rate, "replica.fetch.max.bytes": 3000}
    members = FetchingMembers(2, settings)
    members.topic("t", [1, 2])
    members.topic("other", [1, 2])
    members.settle()
    members.peers[2].down.add(1)
    members.write(lambda old: old._replace(isr=(1,)))
    for name in ("t", "other"):
        for _ in range(50):
            append(members.partition(1, name), b"a" * 2000)
    follower = members[2].broker
    follower.topics.get("t").configure(follower.config.for_topic({"follower.replication.throttled.replicas": "0:2"}))
    members.peers[2].down.clear()
    members.advance(BACKOFF_MS + 1000)
    assert members.partition(2, "other").log_end_offset == 50, "not named in the setting"
    before = len(members.logs("t", 0, 2)[0])
    members.advance(4000)
    copied = len(members.logs("t", 0, 2)[0]) - before
    assert copied == pytest.approx(4 * rate, rel=0.2)
    follower.config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER, {"follower.replication.throttled.rate": 10**9})
    members.advance(1100)
    assert members.partition(2).log_end_offset == 50
    assert len(set(members.logs())) == 1


def test_in_sync_follower_is_not_throttled() -> None:
    settings = {**MEMORY, "follower.replication.throttled.rate": 1, "leader.replication.throttled.rate": 1}
    members = FetchingMembers(2, settings)
    names = dict.fromkeys(("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"), "*")
    members.topic("t", [1, 2], **names)
    for _ in range(50):
        append(members.partition(1), b"a" * 2000)
        members.settle()
    assert members.partition(1).is_committed(50)

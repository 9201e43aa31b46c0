"""Leaders and followers of one partition, whose registrations the tests write by hand."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kqueue.base.errors import (
    FencedLeaderEpoch,
    LogRecovering,
    NotEnoughReplicas,
    NotLeader,
    OffsetNotAvailable,
    OffsetOutOfRange,
    StorageFailed,
    StorageUnavailable,
    UnknownLeaderEpoch,
)
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.broker.replicas.uncommitted_ends import UncommittedEnds
from kqueue.broker.topics.topics import NewTopic
from kqueue.log.formats.leader_epochs import EpochEndOffset
from kqueue.records.batch import COMMIT, control_key_value, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.replication.errors import NotEnoughReplicasAfterAppend
from kqueue.replication.leader_replica import ReplicaFetch
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_log_follower import stamped
from kqueue.tests.broker.replicas.test_partition import append, values
from kqueue.tests.broker.replication import KAFKA, MEMORY, PLENTY, elect, fetch, fetch_of, log_bytes, replicate, started
from kqueue.tests.tables import for_each


@for_each("settings", [{}, KAFKA, MEMORY])
def test_rule_22_the_high_watermark_is_what_all_in_sync_replicas_have(settings: dict[str, object]) -> None:
    members = started(settings)
    leader = members.partition(1)
    end = append(leader, b"a", b"b")
    members.settle()
    assert (leader.high_watermark, values(leader)) == (0, [])
    fetch(members, 2)
    fetch(members, 3)
    assert leader.high_watermark == 0, "they have fetched from 0, and say so by the next fetch"
    fetch(members, 2)
    assert leader.high_watermark == 0, "broker 3 has not"
    fetch(members, 3)
    assert leader.high_watermark == end
    assert values(leader) == [b"a", b"b"]
    replicate(members, 2, 3)
    for node in (2, 3):
        follower = members.partition(node)
        assert log_bytes(follower) == log_bytes(leader), "verbatim"
        assert follower.high_watermark == end
        assert follower.log.epochs.entries() == leader.log.epochs.entries()


def test_rule_21_a_leader_counts_what_it_has_flushed_itself() -> None:
    members = started(count=2)
    leader = members.partition(1)
    end = append(leader, b"a")
    follower = members.partition(2)
    for _ in range(2):
        answer = leader.lead().fetch(fetch_of(follower, 2), PLENTY)
        assert isinstance(answer, PartitionRead)
        if answer.fetched.region is not None:
            follower.follow(0).append(memoryview(answer.fetched.region.read()))
    assert leader.replica.leadership is not None
    assert leader.replica.leadership.followers[2].leo == end
    assert leader.high_watermark == 0
    members.settle()
    assert leader.high_watermark == end


def test_rule_9_a_log_that_is_not_open_is_opened_for_its_leader() -> None:
    members = started()
    members.settle()
    assert members.partition(1).replica.leadership is not None
    assert members.partition(2).replica.leadership is None


def test_rule_10_a_former_leader_takes_nothing_and_fails_what_waits() -> None:
    members = started()
    leader, sim = members.partition(1), members[1]
    end = append(leader, b"a")
    outcomes: list[object] = []

    def try_complete(expired: bool) -> object:
        try:
            return True if leader.is_committed(end) else None
        except NotLeader as error:
            return error

    sim.broker.scheduler.purgatory.add(DelayedOperation((leader,), None, try_complete), outcomes.append)
    members.settle()
    assert outcomes == []
    elect(members, 2)
    assert isinstance(outcomes[0], NotLeader)
    with pytest.raises(NotLeader, match="broker 2 leads t-0"):
        append(leader, b"b")
    assert leader.log_end_offset == 1, "rule 10: it truncates nothing"
    assert append(members.partition(2), b"c") == 1
    elect(members, NO_LEADER)
    with pytest.raises(NotLeader, match="no broker leads t-0"):
        append(members.partition(2), b"d")


def test_appends_are_stamped_with_the_partitions_epoch() -> None:
    members = started()
    elect(members, 1)
    elect(members, 1)
    leader = members.partition(1)
    append(leader, b"a")
    assert (leader.leader_epoch, leader.log.epochs.entries()) == (2, [(2, 0)])


def test_rules_11_and_13_too_few_in_sync_replicas(caplog: pytest.LogCaptureFixture) -> None:
    members = started(min_isr=2)
    leader = members.partition(1)
    leader.check_in_sync()
    end = append(leader, b"a")
    assert not leader.is_committed(end)
    with caplog.at_level(logging.WARNING):
        members.write(lambda old: old._replace(isr=(1,)))
        for _ in range(3):
            with pytest.raises(NotEnoughReplicasAfterAppend, match="only 1 replicas are in sync now"):
                leader.is_committed(end)
            with pytest.raises(NotEnoughReplicas, match="only 1 replicas are in sync, and min.insync.replicas is 2"):
                leader.check_in_sync()
        assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1, (
            "one line per change, not per request"
        )
        assert "t-0: too few replicas are in sync for acks=all: 1 (1); min.insync.replicas is 2" in caplog.text
        members.write(lambda old: old._replace(isr=(1, 2)))
        assert "t-0: enough replicas are in sync again" in caplog.text
    replicate(members, 2)
    assert leader.is_committed(end)


def test_a_lower_minimum_commits_what_waits() -> None:
    members = started(min_isr=2)
    members.write(lambda old: old._replace(isr=(1,)))
    leader = members.partition(1)
    end = append(leader, b"a")
    members.settle()
    assert leader.high_watermark == 0
    lower = members.registration()._replace(configs={"min.insync.replicas": "1"})
    members.store.commit({}, {"/topics/t": lower.to_bytes()}, [])
    members.settle()
    leader.check_in_sync()
    assert leader.is_committed(end)


def test_a_smaller_in_sync_set_commits_what_waited_for_the_one_that_left() -> None:
    members = started()
    leader = members.partition(1)
    end = append(leader, b"a")
    replicate(members, 2)
    assert leader.high_watermark == 0
    members.write(lambda old: old._replace(isr=(1, 2)))
    assert leader.high_watermark == end


def test_rule_15_fetches_of_other_epochs_and_former_lives_are_refused() -> None:
    members = started()
    elect(members, 1)
    leader = members.partition(1)
    append(leader, b"a")
    good = ReplicaFetch(2, 5, 1, 0)
    assert isinstance(leader.lead().fetch(good, PLENTY), PartitionRead)
    for changed, error in (
        ({"leader_epoch": 0}, FencedLeaderEpoch),
        ({"leader_epoch": 2}, UnknownLeaderEpoch),
        ({"broker_epoch": 4}, NotLeader),
        ({"node_id": 9}, NotLeader),
        ({"offset": 2}, OffsetOutOfRange),
    ):
        with pytest.raises(error):
            leader.lead().fetch(good._replace(**changed), PLENTY)
    with pytest.raises(NotLeader):
        members.partition(2).lead().fetch(good, PLENTY)


def test_rules_16_and_19_a_former_leader_truncates_what_only_it_had() -> None:
    members = started()
    replicate(members, 2, 3)
    append(members.partition(1), b"committed")
    replicate(members, 2, 3)
    append(members.partition(1), b"lost 1")
    append(members.partition(1), b"lost 2")
    members.settle()
    elect(members, 2, 2, 3)
    append(members.partition(2), b"kept")
    members.settle()
    assert fetch(members, 1, leader=2) == EpochEndOffset(0, 1)
    assert members.partition(1).log_end_offset == 1
    replicate(members, 1, 3, leader=2)
    for node in (1, 2, 3):
        assert values(members.partition(node)) == [b"committed", b"kept"]
        assert log_bytes(members.partition(node)) == log_bytes(members.partition(2))


def test_producers_and_open_transactions_are_known_to_a_new_leader() -> None:
    members = started(MEMORY, count=2)
    leader, follower = members.partition(1), members.partition(2)

    def batch(sequence: int) -> tuple[memoryview, Any]:
        builder = BatchBuilder(producer_id=7, epoch=1, base_sequence=sequence, transactional=True)
        builder.append(1_700_000_000_000, None, b"%d" % sequence)
        data = builder.build()
        return memoryview(data), read_header(data)

    for sequence in range(3):
        leader.append(*batch(sequence), client=True)
    replicate(members, 2)
    elect(members, 2, 2)
    assert follower.append(*batch(2)).duplicate
    members.settle()
    assert (follower.high_watermark, follower.last_stable_offset) == (3, 0)
    marker = BatchBuilder(producer_id=7, epoch=1, transactional=True, control=True)
    marker.append(1_700_000_000_000, *control_key_value(COMMIT, 0))
    data = marker.build()
    follower.append(memoryview(data), read_header(data), client=False)
    assert follower.last_stable_offset == 4
    fetch(members, 1, leader=2)
    assert leader.log.producers.first_unstable(4) >= 4


def test_a_follower_opens_with_the_checkpointed_high_watermark_not_with_its_log_end() -> None:
    members = started(count=2)
    append(members.partition(1), b"committed")
    replicate(members, 2)
    append(members.partition(1), b"not committed")
    fetch(members, 2)
    assert members.partition(2).high_watermark == 1
    assert members.partition(2).log_end_offset == 2
    members[2].stop()
    members.start(2)
    follower = members.partition(2)
    assert (follower.high_watermark, follower.log_end_offset) == (1, 2)
    members.kill(2)
    members.start(2)
    follower = members.partition(2)
    assert (follower.high_watermark, follower.log_end_offset) == (1, 2)


def test_a_broker_that_starts_leads_nothing_before_it_is_unfenced() -> None:
    """Rule 9. Others may have elected it in its former life, or know of that only."""
    members = started(count=2)
    members.kill(1)
    members.start(1, may_lead=False)
    members.settle()
    leader = members.partition(1)
    assert (leader.leader, leader.is_leader) == (1, False)
    with pytest.raises(NotLeader):
        append(leader, b"a")
    members.write(lambda old: old._replace(isr=(1,)))
    elect(members, 1)
    assert not leader.is_leader, "elected by one who knows of the former life"
    members.let_lead(1)
    assert leader.is_leader
    append(leader, b"a")


def test_a_leader_that_is_fenced_confirms_nothing_more() -> None:
    members = started(count=2)
    leader = members.partition(1)
    append(leader, b"a")
    members.let_lead(1, False)
    with pytest.raises(NotLeader):
        leader.is_committed(1)
    with pytest.raises(NotLeader):
        leader.lead().fetch(fetch_of(members.partition(2), 2), PLENTY)
    members.let_lead(1)
    assert leader.replica.leadership is not None
    assert leader.replica.leadership.leso == 1, "it begins to lead anew"


def test_an_answer_of_another_epoch_is_refused() -> None:
    members = started(count=2)
    follower = members.partition(2)
    elect(members, 1)
    for partition, epoch in ((follower, 0), (follower, 2), (members.partition(1), 1)):
        with pytest.raises(FencedLeaderEpoch, match=f"t-0: an answer of epoch {epoch} came in epoch 1"):
            partition.follow(epoch)
    follower.follow(1)


def test_a_cut_that_waited_for_a_flush_is_refused_after_an_election() -> None:
    members, _ = diverged()
    follower, ended = members.partition(2), list[object]()
    follower.follow(follower.leader_epoch).append(memoryview(stamped(10, follower.leader_epoch, b"not flushed")))
    follower.follow(follower.leader_epoch).truncate(1, ended.append)
    assert ended == [], "it waits for the flush of what was appended"
    follower.apply(follower.registration._replace(leader_epoch=9, partition_epoch=99))
    members.settle()
    assert [type(each) for each in ended] == [FencedLeaderEpoch]
    assert follower.log_end_offset == 11


@for_each("settings", [{}, MEMORY])
def test_a_follower_below_the_leaders_log_start_begins_anew_there(settings: dict[str, object]) -> None:
    members = started(settings, count=2)
    leader, follower = members.partition(1), members.partition(2)
    for number in range(3):
        append(leader, b"%d" % number)
    fetch(members, 2)
    for number in range(3, 6):
        append(leader, b"%d" % number)
    members.write(lambda old: old._replace(isr=(1,)))
    members.settle()
    leader.log.advance_start(5)
    with pytest.raises(OffsetOutOfRange, match="starts at 5, broker 2 fetches 3"):
        fetch(members, 2)
    follower.follow(0).restart_at(5, lambda error: None)
    members.settle()
    assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (5, 5, 5)
    replicate(members, 2)
    assert values(follower, 5) == [b"5"]
    members[2].settle()
    if not settings:
        members[2].stop()
        members.start(2)
        assert (members.partition(2).log_start_offset, members.partition(2).log_end_offset) == (5, 6)


def test_a_follower_raises_its_log_start_as_the_leader_does() -> None:
    members = started(count=2)
    leader, follower = members.partition(1), members.partition(2)
    for number in range(4):
        append(leader, b"%d" % number)
    replicate(members, 2)
    leader.log.advance_start(2)
    fetch(members, 2)
    assert (follower.log_start_offset, follower.log.epochs.entries()) == (2, [(0, 2)])


def test_rule_23_the_end_is_reported_once_the_high_watermark_reaches_that_of_the_election() -> None:
    members = started(count=2)
    append(members.partition(1), b"a", b"b")
    fetch(members, 2)
    elect(members, 2)
    leader = members.partition(2)
    assert (leader.high_watermark, leader.visible_end) == (0, 2)
    append(leader, b"c")
    assert leader.visible_end == 2
    replicate(members, 1, leader=2)
    assert leader.high_watermark == 3


def test_rule_23_a_request_for_the_end_waits_also_while_too_few_are_in_sync() -> None:
    members = started(count=2, min_isr=2)
    append(members.partition(1), b"a", b"b")
    fetch(members, 2)
    elect(members, 2, 2)
    leader = members.partition(2)
    ends = UncommittedEnds([leader])
    assert not ends.all_committed()
    with pytest.raises(OffsetNotAvailable, match="records up to offset 2 are not committed yet"):
        ends.check(leader)
    members.write(lambda old: old._replace(isr=(1, 2)))
    replicate(members, 1, leader=2)
    assert ends.all_committed()
    ends.check(leader)
    assert UncommittedEnds([leader]).all_committed()


def test_a_follower_deletes_nothing_by_its_own_time_but_what_its_leader_has_deleted() -> None:
    members = Members(2, {"log.retention.check.interval.ms": 1000})
    configs = {"segment.bytes": "1000", "retention.ms": "1", "file.delete.delay.ms": "0"}
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [1, 2]}, configs=configs)))
    for _ in range(20):
        append(members.partition(1), b"x" * 300)
        replicate(members, 2)
    follower, leader = members.partition(2), members.partition(1)
    members[2].advance(5000)
    assert follower.log_start_offset == 0
    members[1].advance(5000)
    assert leader.log_start_offset > 10
    replicate(members, 2)
    assert follower.log_start_offset == leader.log_start_offset
    assert follower.log.segments.base_offset > 10, "its segments below are gone, too"


def test_records_are_deleted_by_the_leader_only() -> None:
    members = started(count=2)
    append(members.partition(1), b"a")
    replicate(members, 2)
    topic = members[2].broker.topics.get("t")
    with pytest.raises(NotLeader):
        members[2].broker.upkeep.deletion.delete_before(topic, 0, 1)


def test_a_replica_that_is_taken_away_loses_its_log_and_can_come_back() -> None:
    members = started(count=2)
    append(members.partition(1), b"a")
    replicate(members, 2)
    follower = members.partition(2)
    members.write(lambda old: old._replace(replicas=(1,), isr=(1,), leader_epoch=1))
    assert not members[2].storage.exists("t-0")
    with pytest.raises(NotLeader, match="broker 2 has no replica of t-0"):
        _ = follower.log_end_offset
    members.write(lambda old: old._replace(replicas=(1, 2), leader_epoch=2))
    assert (follower.log_end_offset, follower.high_watermark) == (0, 0)
    replicate(members, 2)
    assert values(follower) == [b"a"]


def test_each_append_wakes_the_followers_that_wait_for_it() -> None:
    members = started(count=2)
    leader = members.partition(1)
    assert leader.replica.key is not None
    woken: list[object] = []
    start = leader.log_end_offset
    operation = DelayedOperation((leader.replica.key,), None, lambda expired: leader.log_end_offset > start or None)
    members[1].broker.scheduler.purgatory.add(operation, woken.append)
    members.settle()
    assert woken == []
    append(leader, b"a")
    members[1].broker.scheduler.purgatory.run_ready()
    assert woken == [True]


def diverged() -> tuple[Members, FaultyStorage]:
    """Broker 2 follows, with ten records of which only the first is the leader's."""
    storage = FaultyStorage()
    members = Members(2, {"log.segment.bytes": 300}, storages={2: storage})
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [1, 2]})))
    append(members.partition(1), b"a")
    replicate(members, 2)
    elect(members, 2, 2)
    for _ in range(9):
        append(members.partition(2), b"x" * 90)
        members.settle()
    elect(members, 1, 1)
    assert members.partition(2).log_end_offset == 10
    assert len(members.partition(2).log.segments) > 2
    return members, storage


def test_rule_19_a_follower_is_cut_in_a_job_and_serves_nothing_meanwhile() -> None:
    members, storage = diverged()
    follower, ended = members.partition(2), list[object]()
    before = len(storage.steps)
    follower.follow(follower.leader_epoch).truncate(1, ended.append)
    assert len(storage.steps) == before, "nothing waits for the disk"
    assert (follower.log.health.is_suspended, ended) == (True, [])
    with pytest.raises(StorageUnavailable, match="is being truncated"):
        follower.read(0, PLENTY)
    members[2].advance(60_000)
    assert ended == [None]
    assert (follower.log_end_offset, follower.high_watermark, follower.log.flushed_offset) == (1, 1, 1)
    replicate(members, 2)
    assert log_bytes(follower) == log_bytes(members.partition(1))


def test_a_follower_that_is_elected_while_it_is_cut_leads_from_the_end_on() -> None:
    members, _ = diverged()
    follower, ended = members.partition(2), list[object]()
    follower.follow(follower.leader_epoch).truncate(1, ended.append)
    follower.apply(follower.registration._replace(leader=2, isr=(1, 2), leader_epoch=9, partition_epoch=99))
    assert (follower.is_leader, follower.replica.leadership) == (True, None)
    members.settle()
    assert follower.replica.leadership is not None
    assert follower.replica.leadership.leso == 1
    append(follower, b"b")


def test_a_topic_that_is_deleted_while_a_log_is_cut_is_deleted_after_it() -> None:
    members, _ = diverged()
    follower, ended = members.partition(2), list[object]()
    follower.follow(follower.leader_epoch).truncate(1, ended.append)
    registration, topics = members.registration(), members[2].broker.topics
    alone = PartitionRegistration((2,), (2,), 2, 7)
    topics.apply("t", None)
    topics.apply("t", registration._replace(id=b"n" * 16, partitions=(alone,)))
    with pytest.raises(LogRecovering):
        append(members.partition(2), b"new")
    assert ended == []
    members.settle()
    assert len(ended) == 1
    append(members.partition(2), b"new")
    members.settle()
    assert members.partition(2).log_end_offset == 1


def test_a_cut_that_fails_takes_the_log_offline() -> None:
    members, storage = diverged()
    follower, ended = members.partition(2), list[object]()
    storage.fail("remove", lambda path: path.endswith(".log"))
    follower.follow(follower.leader_epoch).truncate(1, ended.append)
    members.settle()
    assert isinstance(ended[0], StorageFailed)
    assert follower.is_offline
    assert not follower.log.health.is_suspended

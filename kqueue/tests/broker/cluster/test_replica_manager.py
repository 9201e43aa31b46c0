from __future__ import annotations

from kqueue.broker.topics.topics import NewTopic
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append


def test_many_logs_are_opened_for_their_leader_in_turns_of_their_own() -> None:
    members = Members(2)
    new = NewTopic("t", assignments={index: [1, 2] for index in range(300)})
    members.result(members[1].broker.topics.create(new))
    members.kill(1)
    members.start(1, may_lead=False)
    members.settle()
    assert not any(partition.is_open for partition in members[1].broker.topics.get("t").partitions)
    members.let_lead(1)
    partitions = members[1].broker.topics.get("t").partitions
    assert all(partition.is_leader for partition in partitions)
    assert not any(partition.is_open for partition in partitions)
    members[1].advance(100)
    assert all(partition.replica.leadership is not None for partition in partitions)


def test_a_replica_that_is_taken_away_while_its_log_is_recovered_is_deleted_after_that() -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [1, 2]})))
    append(members.partition(1), b"a")
    members.settle()
    members.kill(1)
    members.start(1, recovers=False)
    assert members[1].storage.exists("t-0")
    members.write(lambda old: old._replace(replicas=(2,), isr=(2,), leader=2, leader_epoch=1))
    assert not members[1].storage.exists("t-0")

from __future__ import annotations

from kqueue.admin.group_partitions import GroupPartition, group_dict, group_partitions, share_partitions
from kqueue.client import GroupDescription, GroupMember, ShareOffset, TaskId, TopicPartition

ONE, TWO = TopicPartition("few", 0), TopicPartition("few", 1)


def test_partitions_that_are_assigned_or_committed_have_their_member_and_lag() -> None:
    group = GroupDescription("g", "consumer", "Stable", (GroupMember("m", "c", "/h", assigned=(TWO,)),))
    rows = group_partitions(group, {ONE: 3}, {ONE: 5, TWO: 7}, pending=[ONE])
    assert [(row.partition, row.committed, row.end, row.lag, row.owner) for row in rows] == [
        (0, 3, 5, 2, (None, None, None)),
        (1, None, 7, None, ("m", "/h", "c")),
    ]
    shown = group_dict(group, rows)
    assert [row["pending"] for row in shown["partitions"]] == [True, False]  # type: ignore[attr-defined]


def test_tasks_beyond_the_partitions_of_a_topic_are_left_out() -> None:
    member = GroupMember("m", "c", "/h", assigned=(ONE, TWO), active=(TaskId("0", 0), TaskId("0", 1)))
    rows = group_partitions(GroupDescription("g", "streams", "Stable", (member,)), {}, {ONE: 5})
    assert [(row.topic, row.partition) for row in rows] == [("few", 0)]


def test_lag_is_never_negative() -> None:
    assert GroupPartition("t", 0, 9, 7, None).lag == 0


def test_partitions_of_a_share_group_are_sorted() -> None:
    rows = share_partitions({TWO: ShareOffset(None, None), ONE: ShareOffset(1, 2)})
    assert [row.as_dict() for row in rows] == [
        {"topic": "few", "partition": 0, "start_offset": 1, "lag": 2},
        {"topic": "few", "partition": 1, "start_offset": None, "lag": None},
    ]

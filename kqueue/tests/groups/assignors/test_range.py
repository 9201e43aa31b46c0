from __future__ import annotations

from hypothesis import given

from kqueue.groups.assignors import AssignorMember, AssignorTopic
from kqueue.tests.groups.assignors.drawn_groups import IDS, assign, groups


def test_range_gives_partitions_of_equal_topics_to_the_same_members() -> None:
    topics = {id: AssignorTopic(id, f"t{number}", 5) for number, id in enumerate(IDS[:2])}
    members = [
        AssignorMember(name, instance_id, None, frozenset(topics), {})
        for name, instance_id in (("a", None), ("b", "y"), ("c", "x"))
    ]
    assignment = assign("range", members, topics)
    assert assignment == {
        "c": {key: [0, 1] for key in topics},
        "b": {key: [2, 3] for key in topics},
        "a": {key: [4] for key in topics},
    }


@given(group=groups())
def test_range_shares_each_topic_evenly_in_order(
    group: tuple[list[AssignorMember], dict[bytes, AssignorTopic]],
) -> None:
    """So topics of the same subscribers are co-partitioned, whatever else these subscribe to."""
    members, topics = group
    assignment = assign("range", members, topics)
    for id, topic in topics.items():
        subscribers = sorted(
            (member for member in members if id in member.topics),
            key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
        )
        owned = [assignment[member.member_id].get(id, []) for member in subscribers]
        assert [index for indexes in owned for index in indexes] == list(range(topic.partition_count if owned else 0))
        assert sorted(map(len, owned), reverse=True) == [len(indexes) for indexes in owned]
        assert not owned or len(owned[0]) - len(owned[-1]) <= 1

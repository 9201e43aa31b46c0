from __future__ import annotations

from kqueue.groups.assignors import AssignorMember, AssignorTopic
from kqueue.tests.groups.assignors.drawn_groups import IDS, assign


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

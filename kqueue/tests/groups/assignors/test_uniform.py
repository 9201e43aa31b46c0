from __future__ import annotations

from hypothesis import given

from kqueue.groups.assignors import AssignorMember, AssignorTopic
from kqueue.tests.groups.assignors.drawn_groups import IDS, assign, groups, loads


@given(group=groups(same=True))
def test_uniform_differs_by_one_at_most(group: tuple[list[AssignorMember], dict[bytes, AssignorTopic]]) -> None:
    members, topics = group
    if members:
        counts = loads(assign("uniform", members, topics), members)
        assert max(counts) - min(counts) <= 1


@given(group=groups())
def test_uniform_leaves_nothing_to_move(group: tuple[list[AssignorMember], dict[bytes, AssignorTopic]]) -> None:
    members, topics = group
    assignment = assign("uniform", members, topics)
    counts = dict(zip((member.member_id for member in members), loads(assignment, members), strict=True))
    for giver in members:
        for topic in assignment.get(giver.member_id, {}):
            for taker in members:
                if topic in taker.topics:
                    assert counts[giver.member_id] - counts[taker.member_id] <= 1


def test_a_member_that_comes_takes_no_more_than_its_share() -> None:
    topic = AssignorTopic(IDS[0], "t", 6)
    current = {"a": frozenset({0, 2, 4}), "b": frozenset({1, 3, 5})}
    members = [
        AssignorMember(name, None, None, frozenset({IDS[0]}), {IDS[0]: current[name]} if name in current else {})
        for name in "abc"
    ]
    assignment = assign("uniform", members, {IDS[0]: topic})
    assert [set(assignment[name][IDS[0]]) for name in "abc"] == [{0, 2}, {1, 3}, {4, 5}]

from __future__ import annotations

import hypothesis.strategies as st
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


@given(count=st.integers(1, 9), partitions=st.lists(st.integers(0, 20), min_size=1, max_size=4), leaves=st.integers(0))
def test_a_member_that_comes_or_goes_moves_no_partition_of_others(
    count: int, partitions: list[int], leaves: int
) -> None:
    """Except to the one that comes."""
    topics = {IDS[number]: AssignorTopic(IDS[number], f"t{number}", many) for number, many in enumerate(partitions)}
    members = [AssignorMember(f"m{number}", None, None, frozenset(topics), {}) for number in range(count)]
    first = assign("uniform", members, topics)
    settled = [
        member._replace(current={id: frozenset(indexes) for id, indexes in first[member.member_id].items()})
        for member in members
    ]
    more = assign("uniform", [*settled, AssignorMember("new", None, None, frozenset(topics), {})], topics)
    fewer_members = [member for number, member in enumerate(settled) if number != leaves % count]
    fewer = assign("uniform", fewer_members, topics)
    for member in settled:
        for id, indexes in more[member.member_id].items():
            assert set(indexes) <= member.current[id]
    for member in fewer_members:
        for id, had in member.current.items():
            assert had <= set(fewer[member.member_id].get(id, ()))


def test_members_of_one_kind_share_what_one_member_had() -> None:
    """Of 40 members with two kinds of subscriptions: many moves, each of which needs both heaps."""
    a, b = IDS[:2]
    topics = {a: AssignorTopic(a, "a", 400), b: AssignorTopic(b, "b", 10)}
    members = [
        AssignorMember(f"m{number:02}", None, None, frozenset(topics if number % 2 else [a]), {})
        for number in range(40)
    ]
    members[0] = members[0]._replace(current={a: frozenset(range(400))})
    assignment = assign("uniform", members, topics)
    counts = loads(assignment, members)
    assert max(counts) - min(counts) <= 1
    assert len(assignment["m00"][a]) == counts[0]

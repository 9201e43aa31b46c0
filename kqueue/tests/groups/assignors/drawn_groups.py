"""Any members, topics and former assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import hypothesis.strategies as st

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.assignors import ASSIGNORS, Assignment, AssignorMember, AssignorTopic

IDS = [bytes([number]) * 16 for number in range(4)]


@st.composite
def groups(draw: st.DrawFn, same: bool = False) -> tuple[list[AssignorMember], dict[bytes, AssignorTopic]]:
    counts = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    topics = {IDS[index]: AssignorTopic(IDS[index], f"t{index}", count) for index, count in enumerate(counts)}
    subscriptions = st.frozensets(st.sampled_from(list(topics)))
    everywhere = draw(subscriptions)
    partitions = st.frozensets(st.integers(0, 11), max_size=6)
    current = st.dictionaries(st.sampled_from(IDS), partitions, max_size=4)
    members = [
        AssignorMember(
            f"m{number}",
            draw(st.sampled_from([None, f"i{9 - number}"])),
            None,
            everywhere if same else draw(subscriptions),
            draw(current),
        )
        for number in range(draw(st.integers(0, 5)))
    ]
    return members, topics


def assign(name: str, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> Assignment:
    return run_to_end(ASSIGNORS.get(name)().assign(members, topics))


def loads(assignment: Assignment, members: Sequence[AssignorMember]) -> list[int]:
    return [sum(map(len, assignment.get(member.member_id, {}).values())) for member in members]

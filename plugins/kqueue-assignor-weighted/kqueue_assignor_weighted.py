"""Assignor by weight: a member of weight 3 gets three times the partitions of a member of weight 1.

The weight is at the end of a static member's `group.instance.id`, behind an asterisk: ``mill-1*3``.
Other members have the weight 1.

Topic by topic, in the order of their names:

1. Each partition counts for the subscriber whose (partitions + 1) / weight is the lowest then. Of
   equal ones it is one that has more partitions of the topic now, so as few as possible move.
2. Members keep what they have of the topic, up to their number.
3. Members with fewer get the rest.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heapreplace

from kqueue.groups.assignors import Assignment, AssignorMember, AssignorTopic, AssignorWork

__all__ = ["WEIGHT_MAX", "WeightedAssignor", "weight_of"]

WEIGHT_MAX = 1000
_WEIGHT = re.compile(r"\*([0-9]{1,4})\Z", re.ASCII)


def weight_of(member: AssignorMember) -> int:
    """Return the weight in the member's instance id, from 1 to `WEIGHT_MAX`; 1 if it has none."""
    match = _WEIGHT.search(member.instance_id or "")
    return min(max(int(match[1]), 1), WEIGHT_MAX) if match else 1


class WeightedAssignor:
    """Shares out partitions by the weights of members, and lets them keep what they have."""

    def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
        assignment: Assignment = {member.member_id: {} for member in members}
        loads = dict.fromkeys(assignment, 0)
        for topic in sorted(topics.values(), key=lambda topic: topic.name):
            subscribers = [member for member in members if topic.id in member.topics]
            if subscribers:
                counts = yield from _counts(topic, subscribers, loads)
                for member_id, partitions in (yield from _share(topic, subscribers, counts)).items():
                    assignment[member_id][topic.id] = partitions
        return assignment


def _counts(
    topic: AssignorTopic, subscribers: Sequence[AssignorMember], loads: dict[str, int]
) -> Generator[None, None, dict[str, int]]:
    """Return how many partitions of the topic each member gets, and add them to `loads`."""
    counts = {member.member_id: 0 for member in subscribers}
    weights = {member.member_id: weight_of(member) for member in subscribers}
    held = {
        member.member_id: sum(index < topic.partition_count for index in member.current.get(topic.id, ()))
        for member in subscribers
    }

    def rank(name: str) -> tuple[Fraction, bool, str]:
        return Fraction(loads[name] + 1, weights[name]), counts[name] >= held[name], name

    heap = [rank(name) for name in counts]
    heapify(heap)
    for _ in range(topic.partition_count):
        name = heap[0][2]
        counts[name] += 1
        loads[name] += 1
        heapreplace(heap, rank(name))
        yield None
    return counts


def _share(
    topic: AssignorTopic, subscribers: Sequence[AssignorMember], counts: Mapping[str, int]
) -> Generator[None, None, dict[str, list[int]]]:
    """Return the partitions of the members, as many as `counts` says."""
    shares: dict[str, list[int]] = {}
    free = set(range(topic.partition_count))
    for member in subscribers:
        kept = sorted(free & member.current.get(topic.id, frozenset()))[: counts[member.member_id]]
        shares[member.member_id] = kept
        free.difference_update(kept)
        yield None
    rest = iter(sorted(free))
    for name, partitions in shares.items():
        partitions.extend(next(rest) for _ in range(counts[name] - len(partitions)))
        yield None
    return shares

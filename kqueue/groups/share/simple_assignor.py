"""The assignor `simple` of share groups: each partition has a member, each member a partition.

Members share the partitions of a topic evenly; where there are more members than partitions, a
partition has several. What a member had stays where that is even. Source: KIP-932, Kafka's
SimpleAssignor.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TypeVar

from kqueue.groups.share.member import Assignment

NAME = "simple"
A = TypeVar("A", int, str)
B = TypeVar("B", int, str)


def assign(
    members: Mapping[str, frozenset[bytes]],
    partitions: Mapping[bytes, Sequence[int]],
    current: Mapping[str, Assignment],
) -> dict[str, dict[bytes, frozenset[int]]]:
    """Return the target assignment of each member.

    Args:
        members: the topics of each member, by member id.
        partitions: of each topic, those that can be assigned.
        current: the target assignment until now.
    """
    result: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic, indexes in partitions.items():
        readers = sorted(member_id for member_id, topics in members.items() if topic in topics)
        if readers and indexes:
            former = {member_id: current.get(member_id, {}).get(topic, frozenset()) for member_id in readers}
            for member_id, assigned in _assign_topic(readers, sorted(indexes), former).items():
                if assigned:
                    result[member_id][topic] = frozenset(assigned)
    return result


def _assign_topic(
    readers: Sequence[str], indexes: Sequence[int], former: Mapping[str, frozenset[int]]
) -> dict[str, set[int]]:
    """Assign the partitions of one topic."""
    assigned: dict[str, set[int]] = {member_id: set() for member_id in readers}
    if len(readers) <= len(indexes):
        owners: dict[int, list[str]] = {}
        for member_id in readers:
            for index in former[member_id]:
                owners.setdefault(index, []).append(member_id)
        for index, member_id in _spread(indexes, readers, owners).items():
            assigned[member_id].add(index)
    else:
        had = {member_id: sorted(former[member_id]) for member_id in readers}
        for member_id, index in _spread(readers, indexes, had).items():
            assigned[member_id].add(index)
    return assigned


def _spread(items: Sequence[A], bins: Sequence[B], former: Mapping[A, Sequence[B]]) -> dict[A, B]:
    """Return a bin for each item, as many items in each as evenness allows; an item stays in a
    former bin where it can.
    """
    share, extra = divmod(len(items), len(bins))
    counts = dict.fromkeys(bins, 0)
    result: dict[A, B] = {}
    for limit in (share, share + 1):
        for item in items:
            for bin in former.get(item, ()):
                if item in result or bin not in counts:
                    continue  # it has a bin, or that one is gone
                # In the second round a bin may have one item above its share, while there
                # are extra ones.
                if counts[bin] >= limit or (limit > share and not extra):
                    continue
                result[item] = bin
                counts[bin] += 1
                extra -= limit > share
    heap = [(count, number) for number, count in enumerate(counts.values())]
    heapq.heapify(heap)
    for item in items:
        if item not in result:
            count, number = heapq.heappop(heap)
            result[item] = bins[number]
            heapq.heappush(heap, (count + 1, number))
    return result

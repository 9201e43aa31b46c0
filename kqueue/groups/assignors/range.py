"""The assignor `range`: of each topic, members get consecutive partitions.

Members in the same order share all topics with the same subscribers. So two topics with as many
partitions are co-partitioned: partition n of both has the same owner. Source: KIP-848, Kafka
RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kqueue.groups.assignors.contract import Assignment, AssignorMember, AssignorTopic, AssignorWork


class RangeAssignor:
    """Ranges by the order of members: static ones by instance id, then the others by member id."""

    def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
        """See `Assignor`."""
        assignment: Assignment = {member.member_id: {} for member in members}
        subscribers: dict[bytes, list[str]] = {topic: [] for topic in topics}
        for member in sorted(members, key=_order):
            for topic in member.topics:
                subscribers[topic].append(member.member_id)
            yield None
        for topic, member_ids in subscribers.items():
            if not member_ids:
                continue
            share, extra = divmod(topics[topic].partition_count, len(member_ids))
            start = 0
            for position, member_id in enumerate(member_ids):
                end = start + share + (position < extra)
                if end > start:
                    assignment[member_id][topic] = list(range(start, end))
                start = end
                yield None
        return assignment


def _order(member: AssignorMember) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member.member_id

"""Checks what an assignor returned before a group uses it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from kqueue.base.errors import KqueueError
from kqueue.groups.assignors.contract import AssignorMember, AssignorTopic


class InvalidAssignment(KqueueError):
    """An assignor returned what its contract does not allow."""


def check_assignment(
    result: Any, members: Mapping[str, AssignorMember], topics: Mapping[bytes, AssignorTopic]
) -> Generator[None, None, None]:
    """Raise InvalidAssignment unless each partition has one member at most, that subscribes to it.

    Args: members: by member id. topics: by id.
    """
    if not isinstance(result, dict):
        raise InvalidAssignment(f"it returned {type(result).__name__}, expected a dict by member id")
    taken: dict[bytes, set[int]] = {topic: set() for topic in topics}
    for member_id, assigned in result.items():
        member = members.get(member_id)
        if member is None:
            raise InvalidAssignment(f"it gave partitions to {member_id!r:.100}, who is no member")
        if not isinstance(assigned, dict):
            raise InvalidAssignment(f"{member_id!r} got {type(assigned).__name__}, expected a dict by topic id")
        for topic, indexes in assigned.items():
            if topic not in member.topics:
                raise InvalidAssignment(f"it gave {member_id!r} a topic to which it does not subscribe: {topic!r:.100}")
            _check_partitions(topics[topic], indexes, taken[topic])
        yield None


def _check_partitions(topic: AssignorTopic, indexes: Any, taken: set[int]) -> None:
    """Add the partitions to those that are `taken`. Raises InvalidAssignment."""
    if not isinstance(indexes, list):
        raise InvalidAssignment(f"partitions of {topic.name!r} are {type(indexes).__name__}, expected a list")
    for index in indexes:
        if type(index) is not int or not 0 <= index < topic.partition_count:
            raise InvalidAssignment(
                f"topic {topic.name!r} has no partition {index!r:.100}, expected an int from 0 to "
                f"{topic.partition_count - 1}"
            )
        if index in taken:
            raise InvalidAssignment(f"it gave partition {index} of {topic.name!r} twice")
        taken.add(index)

"""Assignors as plugins bring them, good and bad."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kqueue.groups.assignors import AssignorFactory, AssignorMember, AssignorTopic, AssignorWork


class FirstTakesAll:
    """Gives all partitions of a topic to the first member that subscribes to it."""

    def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
        assignment: dict[str, dict[bytes, list[int]]] = {}
        for id, topic in topics.items():
            first = next(member for member in members if id in member.topics)
            assignment.setdefault(first.member_id, {})[id] = list(range(topic.partition_count))
            yield None
        return assignment


def returning(result: Any) -> AssignorFactory:
    """Return a factory of assignors that return `result`, or raise it."""

    class Returning:
        def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
            yield None
            if isinstance(result, Exception):
                raise result
            return result  # type: ignore[no-any-return]

    return Returning


def endless(on_step: Callable[[], None]) -> AssignorFactory:
    """Return a factory of assignors that never end, and object to being closed."""

    class Endless:
        def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
            while True:
                on_step()
                try:
                    yield None
                except GeneratorExit:
                    raise RuntimeError("not yet") from None

    return Endless

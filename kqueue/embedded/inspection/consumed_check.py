"""Checks whether a group has consumed a topic, and reports its progress if not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.names import INTERNAL_TOPICS, did_you_mean
from kqueue.base.text import counted
from kqueue.embedded.inspection.broker_calls import NoSuchName, RunOnBroker, appended_visible
from kqueue.embedded.inspection.groups import OtherCoordinator, group_of, names

if TYPE_CHECKING:
    from kqueue.app import Server

SHOWN_MAX = 10


class PartitionProgress(NamedTuple):
    """Progress of a group in one partition, as offsets: log start, goal and committed offset
    (None: none).
    """

    partition: int
    start: int
    goal: int
    committed: int | None

    @property
    def is_done(self) -> bool:
        """Whether the goal is reached."""
        return self.goal <= self.start if self.committed is None else self.committed >= self.goal

    @property
    def expected(self) -> int:
        """Offsets to consume."""
        return max(self.goal - self.start, 0)

    @property
    def consumed(self) -> int:
        """Offsets consumed, of those expected."""
        return 0 if self.committed is None else min(max(self.committed - self.start, 0), self.expected)

    def __str__(self) -> str:
        position = "nowhere" if self.committed is None else f"at {self.committed}"
        return f"partition {self.partition} {position} of {self.goal}"


class ConsumedState(NamedTuple):
    """Progress of a group in a topic. `problem`: why it can't be compared; None: it can. `group`:
    its state, as text.
    """

    problem: str | None
    partitions: list[PartitionProgress]
    group: str = ""


class ConsumedCheck:
    """Compares a group's committed offsets with the expected ones; see `Broker.assert_consumed`."""

    def __init__(self, ask: RunOnBroker, topic: str, group: str, upto: int | Mapping[int, int] | None) -> None:
        self._ask = ask
        self._topic = topic
        self._group = group
        self._upto = upto

    def look(self) -> str | None:
        """Return the present difference as text; None: there is none."""

        async def seen(server: Server) -> ConsumedState:
            found = server.broker.topics.find(self._topic)
            await appended_visible(server, () if found is None or self._upto is not None else found.partitions)
            return await _look(server, self._topic, self._group, self._upto)

        return _problem(self._topic, self._group, self._ask(seen))


async def _look(server: Server, topic: str, group: str, upto: int | Mapping[int, int] | None) -> ConsumedState:
    found = server.broker.topics.find(topic)
    if found is None:
        known = [name for name in server.broker.topics.names() if name not in INTERNAL_TOPICS]
        return ConsumedState(f"there is no topic {topic!r}{did_you_mean(topic, known)}", [])
    goals = _goals(topic, {one.index: one.high_watermark for one in found.partitions}, upto)
    try:
        described = await group_of(server, group)
    except OtherCoordinator as error:
        return ConsumedState(str(error), [])
    except NoSuchName:
        return ConsumedState(f"there is no group {group!r}{did_you_mean(group, names(server))}", [])
    offsets = described.offsets.get(topic, {})
    wanted = [one for one in found.partitions if one.index in goals]
    progress = [
        PartitionProgress(one.index, one.log_start_offset, goals[one.index], offsets.get(one.index)) for one in wanted
    ]
    count = len(described.members)
    return ConsumedState(None, progress, f"{described.state}, {count} member{'s' * (count != 1)}")


def _goals(topic: str, ends: dict[int, int], upto: int | Mapping[int, int] | None) -> dict[int, int]:
    if upto is None:
        return ends
    if isinstance(upto, int):
        if len(ends) != 1:
            raise ValueError(f"{topic} has {len(ends)} partitions: upto= takes partition -> offset")
        return {0: upto}
    unknown = sorted(set(upto) - set(ends))
    if unknown:
        raise ValueError(f"{topic} has partitions 0 to {len(ends) - 1}, not {unknown[0]}")
    return dict(upto)


def _problem(topic: str, group: str, seen: ConsumedState) -> str | None:
    if seen.problem is not None:
        return seen.problem
    behind = [str(one) for one in seen.partitions if not one.is_done]
    if not behind:
        return None
    consumed, expected = (
        sum(numbers) for numbers in zip(*((one.consumed, one.expected) for one in seen.partitions), strict=True)
    )
    if len(behind) > SHOWN_MAX:
        behind = [*behind[:SHOWN_MAX], f"and {counted(len(behind) - SHOWN_MAX, 'more partition')}"]
    records = counted(expected, "record")
    return f"group {group} has consumed {consumed} of {records} of {topic}: {', '.join(behind)} ({seen.group})"

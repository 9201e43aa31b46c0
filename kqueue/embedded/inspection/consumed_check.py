"""Checks whether a group has consumed a topic, and reports its progress if not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kqueue.base.names import INTERNAL_TOPICS, did_you_mean
from kqueue.base.text import counted
from kqueue.embedded.inspection.broker_calls import NoSuchName, RunOnBroker, appended_visible
from kqueue.embedded.inspection.groups import Group, OtherCoordinator, group_of, names

if TYPE_CHECKING:
    from kqueue.app import Server

SHOWN_MAX = 10


class TopicOffsets(Protocol):
    """The offsets of a topic that are compared."""

    @property
    def start_offsets(self) -> dict[int, int]:
        """Partition -> log start offset."""
        ...

    @property
    def end_offsets(self) -> dict[int, int]:
        """Partition -> high watermark."""
        ...


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
            known_topic = server.broker.topics.find(self._topic)
            await appended_visible(
                server, () if known_topic is None or self._upto is not None else known_topic.partitions
            )
            return await _look(server, self._topic, self._group, self._upto)

        return _problem(self._topic, self._group, self._ask(seen))


class LedConsumedCheck:
    """`ConsumedCheck` in a cluster: offsets from the partitions' leaders, the group from its
    coordinator.
    """

    def __init__(
        self,
        topic: str,
        group: str,
        upto: int | Mapping[int, int] | None,
        read_topic: Callable[[str], TopicOffsets],
        groups: Mapping[str, Group],
    ) -> None:
        """Args: read_topic: returns a topic by its name. Raises NoSuchName."""
        self._topic = topic
        self._group = group
        self._upto = upto
        self._read_topic = read_topic
        self._groups = groups

    def look(self) -> str | None:
        """Return the present difference as text; None: there is none."""
        try:
            topic = self._read_topic(self._topic)
            starts, ends = topic.start_offsets, topic.end_offsets
            seen = _progress(self._topic, starts, ends, self._upto, self._groups[self._group])
        except NoSuchName as error:
            return str(error)
        return _problem(self._topic, self._group, seen)


async def _look(server: Server, topic: str, group: str, upto: int | Mapping[int, int] | None) -> ConsumedState:
    known_topic = server.broker.topics.find(topic)
    if known_topic is None:
        known = [name for name in server.broker.topics.names() if name not in INTERNAL_TOPICS]
        return ConsumedState(f"there is no topic {topic!r}{did_you_mean(topic, known)}", [])
    try:
        described = await group_of(server, group)
    except OtherCoordinator as error:
        return ConsumedState(str(error), [])
    except NoSuchName:
        return ConsumedState(f"there is no group {group!r}{did_you_mean(group, names(server))}", [])
    absent = [one.index for one in known_topic.partitions if not one.has_replica]
    if absent:
        return ConsumedState(
            f"this broker has no replica of {', '.join(f'{topic}-{index}' for index in absent)}; "
            "use cluster.assert_consumed",
            [],
        )
    starts = {one.index: one.log_start_offset for one in known_topic.partitions}
    ends = {one.index: one.high_watermark for one in known_topic.partitions}
    return _progress(topic, starts, ends, upto, described)


def _progress(
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    upto: int | Mapping[int, int] | None,
    described: Group,
) -> ConsumedState:
    goals = _goals(topic, ends, upto)
    offsets = described.offsets.get(topic, {})
    progress = [PartitionProgress(index, starts[index], goals[index], offsets.get(index)) for index in sorted(goals)]
    count = len(described.members)
    return ConsumedState(None, progress, f"{described.state}, {count} member{'s' * (count != 1)}")


def _goals(topic: str, ends: Mapping[int, int], upto: int | Mapping[int, int] | None) -> dict[int, int]:
    if upto is None:
        return dict(ends)
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

"""Since when groups are behind.

A group that reads at the pace of its producers has some lag in most samples. So lag alone does not
say that it is behind: it is, in a partition, while records that were there at the sample before are
unread. It is behind since that sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kqueue.client import TopicPartition

PARTITIONS_MAX = 10_000
"""Partitions of all groups together that are remembered as behind; of further ones the time is not
known."""


class GroupPosition(NamedTuple):
    """A group's position in one partition.

    `offset`: of the next record to read, None: unknown. `lag`: None: unknown.
    """

    offset: int | None
    lag: int | None


Positions = Mapping[TopicPartition, GroupPosition]


class Since(NamedTuple):
    """When something began. `is_at_least`: it had begun before the first sample."""

    time_ms: int
    is_at_least: bool = False


class BehindSince:
    """Remembers since when each group, and each of its partitions, is behind.

    Args:
        partitions_max: how many partitions are remembered.
        step_ms_min: a sample that follows the last one sooner ends what it finds read, and begins
            nothing: a group that keeps up has not read what was written just now.
    """

    def __init__(self, partitions_max: int = PARTITIONS_MAX, *, step_ms_min: int = 0) -> None:
        self._partitions_max = partitions_max
        self._step_ms_min = step_ms_min
        self._sampled_ms: int | None = None
        self._ends: Mapping[TopicPartition, int] = {}
        self._groups: dict[str, Since] = {}
        self._partitions: dict[str, dict[TopicPartition, Since]] = {}

    def group(self, name: str) -> Since | None:
        """Return since when a group is behind in some partition; None: it is not, or is unknown."""
        return self._groups.get(name)

    def partition(self, name: str, partition: TopicPartition) -> Since | None:
        """Return since when a group is behind in a partition; None as in `group`."""
        return self._partitions.get(name, {}).get(partition)

    def record(
        self,
        now_ms: int,
        groups: Mapping[str, Positions],
        ends: Mapping[TopicPartition, int],
        unread: Iterable[str] = (),
    ) -> None:
        """Record a sample.

        Args:
            groups: the positions of all groups that exist and could be read.
            ends: of the logs.
            unread: groups that exist and could not be read; they stay as they are.
        """
        remembered = {name: self._partitions[name] for name in unread if name in self._partitions}
        since_groups = {name: self._groups[name] for name in unread if name in self._groups}
        count = sum(map(len, remembered.values()))
        # What is behind in the first sample may have been so for long.
        since = Since(now_ms, is_at_least=True) if self._sampled_ms is None else Since(self._sampled_ms)
        is_early = self._sampled_ms is not None and now_ms - self._sampled_ms < self._step_ms_min
        for name, positions in groups.items():
            before = self._partitions.get(name, {})
            behind: dict[TopicPartition, Since] = {}
            is_behind = False
            for partition, position in positions.items():
                if not self._is_behind(partition, position, partition in before):
                    continue
                if is_early and name not in self._groups:
                    continue
                is_behind = True
                if count < self._partitions_max:
                    behind[partition] = before.get(partition, since)
                    count += 1
            if is_behind:
                since_groups[name] = self._groups.get(name, since)
                remembered[name] = behind
        self._groups, self._partitions = since_groups, remembered
        if not is_early:
            self._sampled_ms, self._ends = now_ms, dict(ends)

    def _is_behind(self, partition: TopicPartition, position: GroupPosition, was_behind: bool) -> bool:
        if position.lag is None:
            return was_behind
        end_before = self._ends.get(partition)
        if position.offset is None or end_before is None:
            return position.lag > 0
        return position.lag > 0 and position.offset < end_before

"""Topic partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class TopicPartition(NamedTuple):
    """A partition of a topic; equal to a plain ``(topic, partition)``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(
    partitions: Mapping[TopicPartition, T] | Iterable[tuple[TopicPartition, T]],
) -> dict[str, list[tuple[int, T]]]:
    """Group by topic, in the same order, as requests do.

    Returns: for each topic its (partition, value) pairs.
    """
    grouped: dict[str, list[tuple[int, T]]] = {}
    for (topic, partition), value in partitions.items() if isinstance(partitions, Mapping) else partitions:
        grouped.setdefault(topic, []).append((partition, value))
    return grouped

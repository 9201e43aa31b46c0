"""Partitions by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class TopicPartition(NamedTuple):
    """A partition; equal to a plain ``(topic, partition)``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(places: Mapping[TopicPartition, T] | Iterable[tuple[TopicPartition, T]]) -> dict[str, list[tuple[int, T]]]:
    """The same, in the same order, as requests have it: for each topic its partitions with what
    belongs to them.
    """
    found: dict[str, list[tuple[int, T]]] = {}
    for (topic, partition), value in places.items() if isinstance(places, Mapping) else places:
        found.setdefault(topic, []).append((partition, value))
    return found

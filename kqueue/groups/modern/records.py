"""The records that each modern type of groups has, and the values that several of them share.

epoch           of the group: raised for each change of members, subscriptions or topics
metadata        what a member sent of itself
target_epoch    the epoch of which the target assignment is, and when it was computed
target          what a member shall own
current         what a member owns
others          of one type only: patterns, a topology, share partitions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kqueue.base.errors import MalformedMessage
from kqueue.groups.log.consumer_schemas import (
    AssignedTopic,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kqueue.groups.log.modern_records import read_value, versioned_value
from kqueue.groups.modern.assignment import CurrentAssignment, K, Wanted

V = TypeVar("V")
S = TypeVar("S")


class RecordType(NamedTuple, Generic[V]):
    """A type of records: the number in its key, and the codec of its value."""

    number: int
    encode: Callable[[V], bytes]
    decode: Callable[[bytes], V]


class GroupEpoch(NamedTuple):
    """The record of a group's epoch, and what it was raised for.

    Attributes:
        metadata_hash: of the topics, see `modern.topics`.
        validated_topology_epoch, configs: of streams groups: of the topology whose topics are
            there, and the settings of the last assignment.
    """

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class TargetEpoch(NamedTuple):
    """The group epoch of a target assignment, and when it was computed (wall clock)."""

    epoch: int
    timestamp_ms: int


class ModernRecords(NamedTuple, Generic[S, K]):
    """The records of one type of groups, whose members send an `S` and own indexes of `K`s.

    `obsolete`: types of former versions of Kafka: read over, and deleted with the group.
    """

    epoch: RecordType[GroupEpoch]
    metadata: RecordType[S]
    current: RecordType[CurrentAssignment[K]]
    target: RecordType[Wanted[K]]
    target_epoch: RecordType[TargetEpoch]
    others: tuple[RecordType[Any], ...] = ()
    obsolete: tuple[int, ...] = ()

    def numbers(self) -> tuple[int, ...]:
        """Return the types in the keys of these records."""
        shared: list[RecordType[Any]] = [self.epoch, self.metadata, self.current, self.target, self.target_epoch]
        return *(each.number for each in (*shared, *self.others)), *self.obsolete


def assignment_epochs(
    indexes: Sequence[int], epochs: Sequence[int] | None, member_epoch: int, what: str
) -> dict[int, int]:
    """Return the epoch in which each index was assigned. Without `epochs` it is the member's.

    Args: what: what the indexes are, and of what, for the error.
    Raises: MalformedMessage: their numbers differ.
    """
    if epochs is None:
        return dict.fromkeys(indexes, member_epoch)
    if len(epochs) != len(indexes):
        raise MalformedMessage(f"a current assignment has {len(indexes)} {what} and {len(epochs)} epochs")
    return dict(zip(indexes, epochs, strict=True))


def target_epoch_value(target: TargetEpoch) -> bytes:
    """Return the value of the epoch of a target assignment, alike in all types."""
    return versioned_value(
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=target.epoch, assignment_timestamp=target.timestamp_ms
        )
    )


def read_target_epoch(value: bytes) -> TargetEpoch:
    """Return the epoch of a target assignment, and when it was made."""
    read = read_value(ConsumerGroupTargetAssignmentMetadataValue, value)
    return TargetEpoch(read.assignment_epoch, read.assignment_timestamp)


def target_value(assignment: Wanted[bytes]) -> bytes:
    """Return the value of a member's target assignment by topic, alike in consumer and share
    groups.
    """
    topics = [AssignedTopic(topic_id=topic, partitions=sorted(assignment[topic])) for topic in sorted(assignment)]
    return versioned_value(ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def read_target(value: bytes) -> dict[bytes, frozenset[int]]:
    """Return a member's target assignment by topic."""
    read = read_value(ConsumerGroupTargetAssignmentMemberValue, value)
    return {each.topic_id: frozenset(each.partitions) for each in read.topic_partitions if each.partitions}

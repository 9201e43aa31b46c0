"""The log ends of all partitions of many topics, in few requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from kqueue.admin.partition_conditions import NO_LEADER
from kqueue.client import LATEST, Client, TopicMetadata, TopicPartition
from kqueue.client.errors import ClientError

PARTITIONS_PER_CALL = 10_000
"""A call is one request to each leader, so its size is bounded."""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Log ends by partition; the error of each partition that could not be read."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)
    failed: dict[TopicPartition, ClientError] = field(default_factory=dict)


def log_ends(client: Client, topics: Iterable[TopicMetadata], *, timeout_ms: int | None = None) -> LogEnds:
    """Return the log end (high watermark) of each partition.

    A partition without a leader is in neither map: asking would only wait for a leader. An error
    of some partitions does not hide the others.

    Args:
        timeout_ms: of each call for 10,000 partitions; None: that of the client.
    """
    partitions = (
        TopicPartition(topic.name, index)
        for topic in topics
        for index, partition in topic.partitions.items()
        if partition.leader != NO_LEADER
    )
    return ends_of(client, partitions, timeout_ms=timeout_ms)


def ends_with_leader(
    client: Client, partitions: Iterable[TopicPartition], topics: Mapping[str, TopicMetadata]
) -> dict[TopicPartition, int]:
    """Return the log ends of those partitions that exist, have a leader and may be read.

    Args: topics: the metadata by name; topics that are not in it do not exist.
    """
    return ends_of(
        client,
        (
            one
            for one in partitions
            if one.topic in topics
            and one.partition in topics[one.topic].partitions
            and topics[one.topic].partitions[one.partition].leader != NO_LEADER
        ),
    ).ends


def ends_of(client: Client, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None) -> LogEnds:
    """As `log_ends`, of these partitions, which must exist."""
    read = LogEnds()
    remaining = iter(partitions)
    while some := list(islice(remaining, PARTITIONS_PER_CALL)):
        try:
            offsets = client.offsets(dict.fromkeys(some, LATEST), timeout_ms=timeout_ms)
        except ClientError as error:
            offsets = dict(error.done)
            read.failed.update(error.failed or dict.fromkeys(some, error))
        read.ends.update({one: entry.offset for one, entry in offsets.items() if entry.offset is not None})
    return read

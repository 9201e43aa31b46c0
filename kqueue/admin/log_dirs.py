"""Data folders of all brokers, and the sizes of partitions and topics from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kqueue.client import Client, ClusterMetadata, LogDir, TopicPartition
from kqueue.client.errors import ClientError


@dataclass(frozen=True, slots=True)
class LogDirs:
    """Data folders by broker id; the error of each broker that could not be asked."""

    by_broker: dict[int, list[LogDir]] = field(default_factory=dict)
    failed: dict[int, ClientError] = field(default_factory=dict)


class TopicSize(NamedTuple):
    """Bytes of a topic's logs, without indexes.

    `leaders`: of one replica of each partition, the leader's; `replicas`: of all of them.
    """

    leaders: int
    replicas: int


class LeaderSize(NamedTuple):
    """Bytes of a partition's log at its leader, without indexes. Replicas may differ."""

    leader: int
    bytes: int


def log_dirs(client: Client, brokers: Iterable[int], *, timeout_ms: int | None = None) -> LogDirs:
    """Return the data folders of each broker, one request to each.

    Args:
        timeout_ms: for each broker; None: that of the client.
    """
    read = LogDirs()
    for id in brokers:
        try:
            read.by_broker[id] = client.cluster.log_dirs(id, timeout_ms=timeout_ms)
        except ClientError as error:
            read.failed[id] = error
    return read


def leader_sizes(dirs: Mapping[int, Sequence[LogDir]], metadata: ClusterMetadata) -> dict[TopicPartition, LeaderSize]:
    """Return the size of each partition at its leader, of those whose broker reports it."""
    by_broker = {id: _sizes(folders) for id, folders in dirs.items()}
    sizes = {}
    for topic in metadata.topics.values():
        for index, partition in topic.partitions.items():
            topic_partition = TopicPartition(topic.name, index)
            size = by_broker.get(partition.leader, {}).get(topic_partition)
            if size is not None:
                sizes[topic_partition] = LeaderSize(partition.leader, size)
    return sizes


def topic_sizes(dirs: Mapping[int, Sequence[LogDir]], metadata: ClusterMetadata) -> dict[str, TopicSize]:
    """Return the size of each topic of which a broker reports a replica.

    What a broker that is missing in `dirs` holds does not count.
    """
    leaders, replicas = Counter[str](), Counter[str]()
    for topic_partition, leader_size in leader_sizes(dirs, metadata).items():
        leaders[topic_partition.topic] += leader_size.bytes
    for folders in dirs.values():
        for partition, size in _sizes(folders).items():
            replicas[partition.topic] += size
    return {name: TopicSize(leaders[name], size) for name, size in replicas.items()}


def _sizes(folders: Iterable[LogDir]) -> dict[TopicPartition, int]:
    """Return the size of each replica of a broker; a future one is a copy and does not count."""
    return {partition: size for folder in folders for partition, size in folder.sizes.items()}

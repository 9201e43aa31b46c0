"""Counts of a cluster's brokers, topics and partitions, from one Metadata response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kqueue.client import ClusterMetadata, TopicMetadata
from kqueue.client.metadata import NO_LEADER


class TopicCounts(NamedTuple):
    """A topic in a list. `replicas`: of its partition with the most.

    `leaderless`, `under_replicated`: partitions that are so.
    """

    name: str
    is_internal: bool
    partitions: int
    replicas: int
    leaderless: int
    under_replicated: int


class BrokerCounts(NamedTuple):
    """A broker in a list. `leads`, `replicas`, `out_of_sync`: partitions."""

    id: int
    address: str
    rack: str | None
    is_controller: bool
    is_fenced: bool
    leads: int
    replicas: int
    out_of_sync: int


class ClusterCounts(NamedTuple):
    """A cluster at one look. Internal topics count. `rows`: the brokers by id."""

    cluster_id: str | None
    brokers: int
    topics: int
    partitions: int
    leaderless: int
    under_replicated: int
    rows: list[BrokerCounts]


def topic_counts(topic: TopicMetadata) -> TopicCounts:
    """Return the counts of one topic."""
    partitions = topic.partitions.values()
    return TopicCounts(
        topic.name,
        topic.is_internal,
        len(topic.partitions),
        max((len(partition.replicas) for partition in partitions), default=0),
        sum(partition.leader == NO_LEADER for partition in partitions),
        sum(len(partition.in_sync) < len(partition.replicas) for partition in partitions),
    )


def cluster_counts(metadata: ClusterMetadata, fenced: Iterable[int] = ()) -> ClusterCounts:
    """Return the counts of all. `fenced`: brokers that lead nothing; they may be missing in
    `metadata`.
    """
    topics = [topic_counts(topic) for topic in metadata.topics.values()]
    return ClusterCounts(
        metadata.cluster_id,
        len(metadata.brokers),
        len(topics),
        sum(topic.partitions for topic in topics),
        sum(topic.leaderless for topic in topics),
        sum(topic.under_replicated for topic in topics),
        broker_counts(metadata, frozenset(fenced)),
    )


def broker_counts(metadata: ClusterMetadata, fenced: frozenset[int] = frozenset()) -> list[BrokerCounts]:
    """Return the counts of each broker, by id; of replicas of brokers that are gone too."""
    leads, replicas, out_of_sync = Counter[int](), Counter[int](), Counter[int]()
    for topic in metadata.topics.values():
        for partition in topic.partitions.values():
            leads[partition.leader] += 1
            replicas.update(partition.replicas)
            if len(partition.in_sync) < len(partition.replicas):
                out_of_sync.update(set(partition.replicas).difference(partition.in_sync))
    rows = []
    for node_id in sorted({*metadata.brokers, *replicas}):
        endpoint = metadata.brokers.get(node_id)
        rows.append(
            BrokerCounts(
                node_id,
                str(endpoint.address) if endpoint is not None else "not registered, or down",
                endpoint.rack if endpoint is not None else None,
                node_id == metadata.controller,
                node_id in fenced or endpoint is None,
                leads[node_id],
                replicas[node_id],
                out_of_sync[node_id],
            )
        )
    return rows

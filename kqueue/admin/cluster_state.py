"""The state of a cluster: partitions in a bad condition, and what each broker leads and holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kqueue.admin.partition_conditions import NO_LEADER, Condition, conditions_of
from kqueue.client import Client, ClusterMetadata, PartitionMetadata, Reassignment, ResourceType, TopicPartition

MIN_ISR = "min.insync.replicas"
MAX_DIGITS = 10


class BrokerLoad(NamedTuple):
    """Numbers of partitions of one broker.

    `preferred`: those that it is to lead. `out_of_sync`: its replicas that lag behind their leader.
    """

    leads: int
    preferred: int
    replicas: int
    out_of_sync: int


NO_LOAD = BrokerLoad(0, 0, 0, 0)


def broker_loads(metadata: ClusterMetadata) -> dict[int, BrokerLoad]:
    """Return the load of each broker by id, of those that replicas name too."""
    leads, preferred, replicas, lagging = (Counter[int]() for _ in range(4))
    for partition in _partitions(metadata):
        leads[partition.leader] += 1
        preferred.update(partition.replicas[:1])
        replicas.update(partition.replicas)
        lagging.update(set(partition.replicas) - set(partition.in_sync))
    ids = sorted(metadata.brokers.keys() | replicas.keys())
    return {id: BrokerLoad(leads[id], preferred[id], replicas[id], lagging[id]) for id in ids}


def partition_counts(
    metadata: ClusterMetadata, moving: Mapping[TopicPartition, Reassignment], min_isr: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of partitions in all and in each condition, as `cluster describe` names it.

    Args:
        moving: the partitions that are being moved.
        min_isr: min.insync.replicas by topic; a topic that is missing counts as 1.
    """
    counts: Counter[Condition] = Counter()
    not_preferred = 0
    for topic in metadata.topics.values():
        for index, partition in topic.partitions.items():
            move = moving.get(TopicPartition(topic.name, index))
            counts.update(
                conditions_of(
                    partition.leader,
                    partition.replicas,
                    partition.in_sync,
                    adding=() if move is None else move.adding,
                    min_isr=min_isr.get(topic.name, 1),
                )
            )
            not_preferred += partition.leader not in (NO_LEADER, *partition.replicas[:1])
    named = {one.value.replace("-", "_"): counts[one] for one in Condition}
    partitions = sum(len(topic.partitions) for topic in metadata.topics.values())
    return {"partitions": partitions, **named, "not_preferred": not_preferred, "reassigning": len(moving)}


def min_isr_of(client: Client, topics: Collection[str]) -> dict[str, int]:
    """Return min.insync.replicas of each topic; 1 where the broker does not report it.

    Raises: ClientError.
    """
    if not topics:
        return {}
    described = client.configs(ResourceType.TOPIC, list(topics), [MIN_ISR])
    return {name: _number(rows[MIN_ISR].value) if MIN_ISR in rows else 1 for name, rows in described.items()}


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < MAX_DIGITS else 1


def _partitions(metadata: ClusterMetadata) -> Iterator[PartitionMetadata]:
    for topic in metadata.topics.values():
        yield from topic.partitions.values()

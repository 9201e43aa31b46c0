"""Counts of topics, partitions and brokers for lists, from the cluster's metadata."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kqueue.admin.cluster_state import NO_LOAD, BrokerLoad, broker_loads
from kqueue.admin.partition_conditions import NO_LEADER
from kqueue.client import ClusterDescription, ClusterMetadata, TopicMetadata

UP, FENCED, GONE = "up", "fenced", "down or removed"


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


class BrokerRow(NamedTuple):
    """A broker in a list. `address`: "" where the cluster does not list it. `state`: UP, FENCED
    (registered, leads nothing) or GONE (only replicas name it).
    """

    id: int
    address: str
    rack: str | None
    state: str
    is_controller: bool
    load: BrokerLoad


def topic_counts(topic: TopicMetadata, adding: Collection[tuple[str, int]] = ()) -> TopicCounts:
    """Return the counts of one topic. `adding`: partitions that get replicas now, and are not
    under-replicated for that.
    """
    replicas = leaderless = under_replicated = 0
    for index, partition in topic.partitions.items():
        replicas = max(replicas, len(partition.replicas))
        leaderless += partition.leader == NO_LEADER
        if len(partition.in_sync) < len(partition.replicas) and (topic.name, index) not in adding:
            under_replicated += 1
    return TopicCounts(
        topic.name, topic.is_internal, len(topic.partitions), replicas, leaderless, under_replicated
    )  # fmt: skip


def broker_rows(metadata: ClusterMetadata, description: ClusterDescription | None = None) -> list[BrokerRow]:
    """Return the brokers by id: of the metadata, of the description, and those that replicas name.

    Args:
        description: None: the brokers can't tell which of them are fenced.
    """
    loads = broker_loads(metadata)
    listed = {**(description.brokers if description is not None else {}), **metadata.brokers}
    fenced = (description.fenced if description is not None else frozenset()) - metadata.brokers.keys()
    rows = []
    for node_id in sorted(listed.keys() | loads.keys()):
        endpoint = listed.get(node_id)
        rows.append(
            BrokerRow(
                node_id,
                str(endpoint.address) if endpoint is not None else "",
                endpoint.rack if endpoint is not None else None,
                broker_state(node_id, listed, fenced),
                node_id == metadata.controller,
                loads.get(node_id, NO_LOAD),
            )
        )
    return rows


def broker_state(node_id: int, listed: Collection[int], fenced: Collection[int]) -> str:
    """Return the state of a broker: UP, FENCED or GONE."""
    return FENCED if node_id in fenced else UP if node_id in listed else GONE

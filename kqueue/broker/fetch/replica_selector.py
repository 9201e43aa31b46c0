"""The choice of the replica that a consumer reads: the leader, or a follower in its own rack
(KIP-392).

Source: Kafka's RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica.
"""

from __future__ import annotations

from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.replicas.partition import Partition
from kqueue.replication.config import RACK_AWARE_SELECTOR

NO_REPLICA = -1


class RackSelector:
    """Selects replicas for a consumer in `rack`."""

    def __init__(self, cluster: Cluster, rack: str) -> None:
        self._cluster = cluster
        self._rack = rack

    def select(self, partition: Partition, offset: int) -> int:
        """Return the in-sync follower of the consumer's rack that has most of the log.

        `NO_REPLICA`: the leader is in that rack, or no such follower has `offset`.
        """
        leadership = partition.replica.leadership
        if leadership is None or self._rack_of(partition.leader) == self._rack:
            return NO_REPLICA
        best, best_end = NO_REPLICA, -1
        for node in partition.isr:
            follower = leadership.followers.get(node)
            if follower is not None and follower.leo >= offset and follower.leo > best_end and self._has(node):
                best, best_end = node, follower.leo
        return best

    def _has(self, node_id: int) -> bool:
        broker = self._cluster.find(node_id)
        return broker is not None and broker.is_active and broker.rack == self._rack

    def _rack_of(self, node_id: int) -> str | None:
        broker = self._cluster.find(node_id)
        return None if broker is None else broker.rack


def selector_for(cluster: Cluster, selector_class: str | None, rack: str) -> RackSelector | None:
    """Return what selects replicas for a consumer; None: it reads leaders.

    Args:
        selector_class: `replica.selector.class`.
        rack: the consumer's; "": none.
    """
    return RackSelector(cluster, rack) if rack and selector_class == RACK_AWARE_SELECTOR else None

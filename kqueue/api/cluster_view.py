"""Brokers and partitions of the cluster as the clients of one listener see them.

Source: Kafka's KRaftMetadataCache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kqueue.replication.registrations import NO_LEADER, BrokerRegistration, Endpoint, PartitionRegistration
from kqueue.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kqueue.broker.metadata.brokers import Cluster
    from kqueue.broker.replicas.partition import Partition


class BrokerAddress(NamedTuple):
    """The address at which clients of a listener reach a broker. `rack` None: not set."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionView(NamedTuple):
    """A partition as Metadata responses describe it.

    Attributes:
        error: NONE, or why it has no leader.
        leader: -1: none that a client can reach.
        offline: replicas that don't serve.
    """

    error: ErrorCode
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    registration: PartitionRegistration


class ClusterView:
    """The brokers at one moment, for the clients of one listener.

    Args: own: where this broker's listener is reached, as long as it has not registered.
    """

    def __init__(self, cluster: Cluster, listener: str, own: Endpoint | None = None) -> None:
        self._own = own
        self.brokers: dict[int, BrokerAddress] = {}
        """Those that are not fenced and have the listener, by id, ascending."""
        self.fenced: dict[int, BrokerAddress] = {}
        """The others that have the listener."""
        self._registered: set[int] = set()
        self._own_id = cluster.node_id
        self._controller_id = cluster.controller_id
        for broker in cluster.all():
            self._registered.add(broker.id)
            address = address_of(cluster, broker, listener)
            if address is not None:
                (self.fenced if broker.fenced else self.brokers)[broker.id] = address
        self._last: PartitionView | None = None

    @property
    def bootstrap(self) -> Mapping[int, BrokerAddress]:
        """Whom clients may ask: the brokers that are not fenced; without one this broker. An empty
        list, as after a start of all brokers, would make librdkafka forget every address for good.
        """
        if self.brokers:
            return self.brokers
        own = self.fenced.get(self._own_id)
        if own is None and self._own is not None:
            own = BrokerAddress(self._own_id, *self._own)
        return {} if own is None else {own.id: own}

    @property
    def controller_id(self) -> int:
        """The controller, where clients can reach it; else this broker: all can do what is asked
        of a controller.
        """
        return self._controller_id if self._controller_id in self.brokers else self._own_id

    def partition(self, partition: Partition) -> PartitionView:
        """Return what clients are told of a partition."""
        registration = partition.registration
        if partition.is_offline:  # asked of this broker's own replica: it failed, or is being recovered
            return self._view(registration, self._own_id)
        last = self._last
        if last is None or last.registration is not registration:  # a single broker has one for all
            last = self._last = self._view(registration, None)
        return last

    def _view(self, registration: PartitionRegistration, failed: int | None) -> PartitionView:
        leader, brokers = registration.leader, self.brokers
        error = ErrorCode.NONE
        if leader == failed or leader not in brokers:
            error = ErrorCode.LEADER_NOT_AVAILABLE
            if leader != failed and leader in self._registered and leader not in self.fenced:
                error = ErrorCode.LISTENER_NOT_FOUND
            leader = NO_LEADER
        return PartitionView(
            error,
            leader,
            registration.leader_epoch,
            list(registration.replicas),
            [node for node in registration.isr if node != failed],
            [node for node in registration.replicas if node not in brokers or node == failed],
            registration,
        )


def address_of(cluster: Cluster, broker: BrokerRegistration, listener: str) -> BrokerAddress | None:
    """Return where clients of a listener reach a broker; None: it has no such listener."""
    endpoint = cluster.endpoint(broker.id, listener)
    return None if endpoint is None else BrokerAddress(broker.id, endpoint.host, endpoint.port, broker.rack)

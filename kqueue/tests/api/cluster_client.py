"""Clients of brokers in a cluster: of one that sees registrations without other brokers, and of one
of several that share a metadata store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.broker.topics.topics import Topic
from kqueue.replication.registrations import BrokerRegistration, Endpoint, PartitionRegistration
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.broker.members import Members

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"


def broker(id: int, *, outside: bool = True, **fields: Any) -> BrokerRegistration:
    """A broker with the listener INSIDE, and OUTSIDE if `outside`."""
    endpoints = {INSIDE: Endpoint(f"in{id}", 9000 + id)}
    if outside:
        endpoints[OUTSIDE] = Endpoint(f"out{id}", 9100 + id)
    return BrokerRegistration(id, id * 10, "", endpoints, **{"fenced": False, **fields})


class ClusterClient(SimulatedClient):
    """`SimulatedClient` of broker 1 of three; `controller` is broker 2."""

    def __init__(self, settings: Mapping[str, object] | None = None, *brokers: BrokerRegistration) -> None:
        super().__init__({"node.id": 1, **(settings or {})})
        self.cluster = ClusterBrokers(1)
        self.cluster.controller_id = 2
        self.sim.broker.metadata.cluster = self.sim.broker.replicas.host.cluster = self.cluster
        self.register(*(brokers or (broker(1), broker(2, rack="r2"), broker(3))))

    def register(self, *brokers: BrokerRegistration) -> None:
        """Let brokers register, or change."""
        self.cluster.apply({str(one.id): one.to_bytes() for one in brokers})

    def topic(self, name: str, *partitions: PartitionRegistration) -> Topic:
        """Create a topic whose partitions have these registrations."""
        topic = self.sim.topic(name, len(partitions))
        for partition, registration in zip(topic.partitions, partitions, strict=True):
            partition.apply(registration._replace(partition_epoch=registration.partition_epoch + 1))
        return topic

    def ask(self, request: Any, version: int, **call: Any) -> Any:
        """As `SimulatedClient.ask`, by the listener OUTSIDE."""
        return super().ask(request, version, **{"listener": OUTSIDE, **call})


class MembersClient(SimulatedClient):
    """`SimulatedClient` of one of `Members`."""

    def __init__(self, members: Members, node: int) -> None:
        super().__init__(sim=members[node])
        self._members = members

    def ask(self, request: Any, version: int, **call: Any) -> Any:
        """As `SimulatedClient.ask`, with all brokers running."""
        started = self.start(request, version, **call)
        self._members.settle()
        return started.response

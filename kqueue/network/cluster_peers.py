"""Connects a broker of a cluster with the others. A single broker does not import it: with what it
uses, it is a megabyte.
"""

from __future__ import annotations

import asyncio
import random

from kqueue.broker.broker import Broker
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.interbroker.coordination import connect_coordinators
from kqueue.interbroker.replica_fetchers import ReplicaFetchers
from kqueue.network.peer_connections import (
    PeerConnections,
    is_leaving,
    peer_address,
    peer_client_id,
    response_bytes_max,
)
from kqueue.network.peer_security import PeerSecurity


def connect_peers(
    broker: Broker, loop: asyncio.AbstractEventLoop, security: PeerSecurity | None
) -> tuple[PeerConnections, ReplicaFetchers]:
    """Let the broker reach the others of its cluster, and copy what they lead; the caller closes
    both, the second first. `security` None: connections are plain.
    """
    cluster = broker.metadata.cluster
    assert isinstance(cluster, ClusterBrokers)
    peers = PeerConnections(
        loop,
        broker.scheduler.clock,
        broker.scheduler.timers,
        broker.scheduler.jobs,
        lambda node_id: peer_address(cluster, node_id),
        client_id=peer_client_id(broker.identity.node_id),
        response_bytes_max=response_bytes_max(broker.config),
        rng=random.Random(),
    )
    peers.security = security
    peers.is_leaving = lambda node_id: is_leaving(cluster, node_id)
    cluster.observe(lambda node_id: peers.refresh())
    connect_coordinators(broker, peers)
    fetchers = ReplicaFetchers(broker.config, broker.scheduler, cluster, broker.topics, broker.replicas.host, peers)
    return peers, fetchers

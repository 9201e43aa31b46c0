"""Checks of a list of replicas that a client gives. Source: Kafka's ReplicationControlManager."""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.base.errors import InvalidReplicaAssignment


def check_replicas(replicas: Sequence[int], node_id: int) -> None:
    """Check that `replicas` is this broker, which is the only one. Raises
    InvalidReplicaAssignment: it is empty, or names another broker, or this one twice.
    """
    if not replicas:
        raise InvalidReplicaAssignment("the list of replicas is empty")
    other = next((broker for broker in replicas if broker != node_id), None)
    if other is not None:
        raise InvalidReplicaAssignment(f"broker {other} is not registered; broker {node_id} is the only one")
    if len(replicas) > 1:
        raise InvalidReplicaAssignment(f"broker {node_id} is named more than once in a list of replicas")

"""Removal of a broker that is gone for good from the cluster (UnregisterBroker).

Its replicas stay where they are assigned, without a broker: they are offline until a broker of the
same id registers, or partitions are moved. Durability: stored when the promise is done.
"""

from __future__ import annotations

from kqueue.base.errors import Conflict, KqueueError, PolicyViolation
from kqueue.base.promise import Promise
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.replication.registrations import BROKERS_PREFIX

ATTEMPTS_MAX = 5


def remove_broker(node_id: int, metadata: MetadataCache, cluster: Cluster) -> Promise[None]:
    """Delete the registration of a broker; one that has none is removed already.

    Raises, and so does the promise: PolicyViolation: it is not fenced, so its process runs.
    """
    promise: Promise[None] = Promise()
    attempts = ATTEMPTS_MAX

    def commit() -> None:
        broker = cluster.find(node_id)
        if broker is None:
            metadata.resolve(promise, None)
            return
        if not broker.fenced:
            why = "without it no partition has a leader" if cluster.is_alone else "stop it first"
            raise PolicyViolation(f"broker {node_id} serves: {why}")
        metadata.commit(f"unregister broker {node_id}", {f"{BROKERS_PREFIX}{node_id}": None}, done)

    def done(error: KqueueError | None) -> None:
        nonlocal attempts
        attempts -= 1
        try:
            if isinstance(error, Conflict) and attempts:
                commit()  # it registered, or was fenced, meanwhile
            elif error is not None:
                raise error
            else:
                metadata.resolve(promise, None)
        except KqueueError as failure:
            metadata.fail(promise, failure)

    commit()
    return promise

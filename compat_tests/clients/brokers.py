"""The brokers that the scenarios run against.

kqueue in this process, in memory or on disk, or (``--cluster``) a cluster of three on disk, or an
external broker at ``--bootstrap``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kqueue
from compat_tests.clients import security
from compat_tests.clients.cluster import MEMBERS, ClusterInProcess, ClusterOfProcesses
from compat_tests.kafka.node import free_ports
from compat_tests.kafka.serving import Process

MEMORY, DISK, CLUSTER, EXTERNAL = "memory", "disk", "cluster", "external"

SETTINGS = {
    "log.retention.ms": -1,  # the records of some tests are of 1970
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 500,
    "group.share.assignment.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}


@dataclass
class RunningBroker:
    """A running broker; `session_ms` is the shortest session timeout that it allows."""

    storage: str
    bootstrap: str
    session_ms: int
    broker: Any = None

    @property
    def members(self) -> int:
        """How many brokers the cluster has; 1 for an external one."""
        return MEMBERS if self.storage == CLUSTER else 1

    def restart(self) -> None:
        """Restart the broker, or all of the cluster, on the same address; stored data is kept."""
        if self.broker is None:
            pytest.skip("an external broker cannot be restarted")
        self.broker.restart()
        assert self.broker.bootstrap == self.bootstrap


@contextmanager
def serving(
    storage: str, folder: Path, session_ms: int, settings: Mapping[str, object] = SETTINGS
) -> Iterator[RunningBroker]:
    """Run kqueue in this process, on free ports."""
    if storage == CLUSTER:
        with ClusterInProcess(folder, {**SETTINGS, **settings}) as cluster:
            yield RunningBroker(storage, cluster.bootstrap, session_ms, cluster)
        return
    own = {**SETTINGS, **settings, **security.broker_settings()}
    own["listeners"] = f"{security.protocol().name}://127.0.0.1:0"
    with kqueue.Broker(folder if storage == DISK else None, settings=own) as broker:
        security.grant([broker.bootstrap])
        yield RunningBroker(storage, broker.bootstrap, session_ms, broker)


@contextmanager
def killable(storage: str, folder: Path) -> Iterator[Process | ClusterOfProcesses]:
    """Run the broker in a process of its own, or those of a cluster in one each; after a crash they
    have the same ports.
    """
    if storage == MEMORY:
        pytest.skip("a broker that is killed keeps nothing in memory")
    if storage == CLUSTER:
        with ClusterOfProcesses(folder, SETTINGS) as cluster:
            yield cluster
        return
    settings = {name.replace(".", "_"): value for name, value in {**SETTINGS, **security.broker_settings()}.items()}
    address = f"{security.protocol().name}://127.0.0.1:{free_ports(1)[0]}"
    with Process(folder / "data", folder / "broker.log", listeners=address, **settings) as process:
        security.grant([process.bootstrap])
        yield process

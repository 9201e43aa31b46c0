"""The brokers that the scenarios run against.

kqueue in this process, in memory or on disk, or an external broker at ``--bootstrap``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compat_tests.kafka.node import free_ports
from compat_tests.kafka.serving import Process

MEMORY, DISK, EXTERNAL = "memory", "disk", "external"

SETTINGS = {
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

    def restart(self) -> None:
        """Restart the broker on the same address; its stored data is kept."""
        if self.broker is None:
            pytest.skip("an external broker cannot be restarted")
        self.broker.restart()
        assert self.broker.bootstrap == self.bootstrap


@contextmanager
def serving(
    storage: str, folder: Path, session_ms: int, settings: Mapping[str, object] = SETTINGS
) -> Iterator[RunningBroker]:
    """Run kqueue in a thread of this process, on a free port."""
    import kqueue

    with kqueue.Broker(folder if storage == DISK else None, settings={**SETTINGS, **settings}) as broker:
        yield RunningBroker(storage, broker.bootstrap, session_ms, broker)


@contextmanager
def killable(folder: Path) -> Iterator[Process]:
    """Run kqueue in a process of its own, on a port that it keeps after a crash."""
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    address = f"PLAINTEXT://127.0.0.1:{free_ports(1)[0]}"
    with Process(folder / "data", folder / "broker.log", listeners=address, **settings) as process:
        yield process

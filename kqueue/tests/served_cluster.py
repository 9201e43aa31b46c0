"""Embedded brokers that are one cluster, for tests over real sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import kqueue
from kqueue.client import Client
from kqueue.tests.waits import eventually


@contextlib.contextmanager
def served_cluster(
    folder: Path, count: int = 3, settings: Mapping[str, object] | None = None
) -> Iterator[list[kqueue.Broker]]:
    """Yield brokers 1 to `count`, in memory, over a SQLite store in `folder`; all are unfenced."""
    with contextlib.ExitStack() as stack:
        brokers = []
        for node in range(1, count + 1):
            own = {
                "kqueue.cluster.store": f"sqlite:{folder / 'store.db'}",
                "broker.rack": f"rack{node}",
                **(settings or {}),
            }
            brokers.append(stack.enter_context(kqueue.Broker(node_id=node, settings=own)))
        wait_until_unfenced(brokers)
        yield brokers


def wait_until_unfenced(brokers: list[kqueue.Broker]) -> None:
    """Return when each broker shows all of them."""
    for broker in brokers:
        with Client(broker.bootstrap) as client:
            eventually(lambda client=client: len(client.metadata([]).brokers) == len(brokers))  # type: ignore[misc]


def bootstrap(brokers: list[kqueue.Broker]) -> str:
    """The addresses of all brokers."""
    return ",".join(broker.bootstrap for broker in brokers)

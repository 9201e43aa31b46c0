"""Brokers inside your own process: `kqueue.Broker`, an ordinary object with its own thread, and
`kqueue.Cluster`, several of them as one cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.embedded.broker import Broker

if TYPE_CHECKING:
    from kqueue.embedded.cluster import Cluster

__all__ = ["Broker", "Cluster"]


def __getattr__(name: str) -> object:
    # lazy: who needs one broker does not wait for the import of the other
    if name == "Cluster":
        from kqueue.embedded.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

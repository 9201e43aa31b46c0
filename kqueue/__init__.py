"""kqueue: a message-queue broker that speaks the Apache Kafka protocol, inside your own Python
process or served.

`Broker` is the embedded broker, `Cluster` several of them, `open_log` reads a partition's folder
without one, `partitioner` gives the producers of kafka-python and aiokafka one of kqueue's
partitioners; everything else is reached through the command `kqueue` or the subpackages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.base.version import __version__

__all__ = ["Broker", "Cluster", "__version__", "open_log", "partitioner"]

if TYPE_CHECKING:
    from kqueue.embedded import Broker, Cluster
    from kqueue.log_tools import open_log
    from kqueue.records.partitioners import as_client_partitioner as partitioner


def __getattr__(name: str) -> object:
    # Lazy, so that `import kqueue` and the command line stay quick for those who never start a
    # broker.
    if name == "Broker":
        from kqueue.embedded import Broker

        return Broker
    if name == "Cluster":
        from kqueue.embedded import Cluster

        return Cluster
    if name == "open_log":
        from kqueue.log_tools import open_log

        return open_log
    if name == "partitioner":
        from kqueue.records.partitioners import as_client_partitioner

        return as_client_partitioner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""kqueue: a message-queue broker that speaks the Apache Kafka protocol, inside your own Python process or served.

`Broker` is the embedded broker, `open_log` reads a partition's folder without one; everything else is reached through the command
`kqueue` or the subpackages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Broker", "__version__", "open_log"]

if TYPE_CHECKING:
    from kqueue.embedded import Broker
    from kqueue.files import open_log


def __getattr__(name: str) -> object:
    # Lazy, so that `import kqueue` and the command line stay quick for those who never start a broker.
    if name == "Broker":
        from kqueue.embedded import Broker

        return Broker
    if name == "open_log":
        from kqueue.files import open_log

        return open_log
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

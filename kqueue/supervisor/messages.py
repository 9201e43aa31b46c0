"""The messages of a supervisor and its workers: lines of JSON over a socket pair.

to a worker      first its `WorkerOrder`, later OPEN; the end of the stream: the supervisor is gone
from a worker    SERVES, then READY; FAILED and why in their place; the end: it has ended
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kqueue.config.properties import SourcedValue

OPEN = "open"
"""Accept from the sockets of all workers, too."""
SERVES = "serves"
"""Its own sockets accept connections."""
READY = "ready"
"""Its logs are recovered, it knows of all workers that they may lead, and its topics are there."""
FAILED = "failed"
LINE_BYTES_MAX = 2**24
"""An order has the settings, whose file is bounded, and the topics."""


class WorkerOrder(NamedTuple):
    """The configuration that a worker is to have.

    Attributes:
        settings: value and origin by name.
        own, shared: descriptors of listening sockets, by listener; only it has the own ones.
        nodes: the node ids of all workers.
        topics: to create before it is ready; partitions by name, None: num.partitions.
        stop_s: after which it ends itself once the supervisor is gone.
    """

    number: int
    settings: Mapping[str, SourcedValue]
    own: Mapping[str, Sequence[int]]
    shared: Mapping[str, Sequence[int]]
    nodes: tuple[int, ...]
    topics: Mapping[str, int | None]
    verbose: bool
    stop_s: float

    @property
    def descriptors(self) -> list[int]:
        """All descriptors that its process inherits."""
        return [number for of_listeners in (self.own, self.shared) for each in of_listeners.values() for number in each]

    def to_line(self) -> bytes:
        """Return the line of an order."""
        return encode(self._asdict())

    @classmethod
    def from_line(cls, line: bytes) -> WorkerOrder:
        """Read the line of an order."""
        values = json.loads(line)
        values["settings"] = {name: SourcedValue(*value) for name, value in values["settings"].items()}
        values["nodes"] = tuple(values["nodes"])
        return cls(**values)


class Failure(NamedTuple):
    """The error because of which a worker does not serve. kind: the name of its class."""

    kind: str
    text: str


def encode(message: Any) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode() + b"\n"

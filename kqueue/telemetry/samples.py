"""Samples: one value per metric and labels, at one moment; and what they are read from."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kqueue.api.request_meter import RequestMeter
from kqueue.base import events
from kqueue.base.histogram import Histogram
from kqueue.broker.broker import Broker
from kqueue.broker.replicas.flush_meter import FlushMeter
from kqueue.log.folders.log_dirs import LogDirListing
from kqueue.security.principals import Principal

OTHER = "other"
"""The label of all topics, or groups, beyond the bound."""
Labels = tuple[str, ...]
Value = float | Histogram
T = TypeVar("T")
logger = logging.getLogger("kqueue.telemetry")


class Session(Protocol):
    """A connection. `listener`: the name of the listener that accepted it."""

    listener: str
    principal: Principal

    @property
    def delayed_apis(self) -> list[str]:
        """The APIs of the requests whose response is not known yet."""
        ...


class Connections(Protocol):
    """All connections of a server.

    Attributes:
        waiting_requests: whose response is not complete.
        authentication_failures: by listener and mechanism.
        send_blocked: how long responses waited for room in their socket; None: not measured.
    """

    waiting_requests: int
    authentication_failures: Counter[tuple[str, str]]
    send_blocked: Histogram | None

    @property
    def queued(self) -> Histogram | None:
        """How long requests queued for the broker's thread; None: not measured."""
        ...

    @property
    def sessions(self) -> Iterable[Session]:
        """Each connection."""
        ...


class Sources(NamedTuple):
    """What metrics and health are read from.

    `jobs`: returns how many jobs run or wait. `names_max`: how many topics, and how many groups,
    have values of their own.
    """

    broker: Broker
    meter: RequestMeter
    flushes: FlushMeter
    connections: Connections
    jobs: Callable[[], int]
    is_stopping: Callable[[], bool]
    loop_delay: Histogram
    names_max: int


class Samples:
    """The values of one moment. `folders`: the data folders, whose disks are asked in another
    thread, since a disk may hang.
    """

    def __init__(self) -> None:
        self.values: dict[str, dict[Labels, Value]] = defaultdict(dict)
        self.folders: list[LogDirListing] = []

    def add(self, metric: str, value: Value, *labels: str) -> None:
        """Set the value of a metric with these labels."""
        self.values[metric][labels] = value

    def count(self, metric: str, value: float, *labels: str) -> None:
        """Add to what the labels have already, as those named `OTHER` do."""
        values = self.values[metric]
        before = values.get(labels, 0)
        assert not isinstance(before, Histogram)
        values[labels] = before + value

    def read_disks(self) -> None:
        """Ask the disks of the data folders. Blocks. Thread: any, but not the owner thread."""
        folders, self.folders = self.folders, []
        for listing in folders:
            folder = listing.run()
            sizes = {"free": folder.usable_bytes, "total": folder.total_bytes, "reserve": folder.reserve_bytes}
            for name, size in sizes.items():
                if size is not None:
                    self.add(f"kqueue_folder_{name}_bytes", size, folder.place)


class NameBound:
    """Bounds how many names of a kind are labels: clients can make topics and groups without
    end.
    """

    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._told: set[str] = set()

    def named(self, what: str, things: Sequence[T]) -> Iterator[tuple[str | None, T]]:
        """Return each thing with its label; None: those beyond the bound share one. That there are
        too many is logged once.
        """
        names_max = self._names_max
        if len(things) > names_max and what not in self._told:
            self._told.add(what)
            events.METRICS_NAMES_LIMITED.log(
                logger,
                "metrics name %d of %d %s, the others are %r (kqueue.metrics.names.max)",
                names_max=names_max,
                names=len(things),
                what=what,
                other=OTHER,
            )
        for number, thing in enumerate(things):
            yield (None if number >= names_max else str(getattr(thing, "name", thing))), thing

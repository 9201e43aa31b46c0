"""Divides the loop's time fairly between connections that have requests to begin.

A connection works for one time slice (`SLICE_S`, at least one request), then queues for the next.
Between two passes over the queue the loop polls all sockets.

The order is start-time fair queueing. Each connection has a tag: the service time that it has
received. The queue serves the smallest tag first, and of equal tags the connection with the shorter
slices. So one small request of a quiet connection precedes the next request of a busy one, however
many busy ones there are.

A connection that becomes readable while the queue is empty, or whose slices are short, is served
without queueing.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Final, Protocol

from kqueue.base.clock import monotonic_s
from kqueue.base.histogram import Histogram
from kqueue.workers.loop_pass import PASS_S

SLICE_S: Final = 0.002
"""Length of a time slice in seconds."""
SHORT_SLICE_S: Final = 0.001
"""Connections whose slices take less on average precede the others."""
NEW_SLICE_S = SHORT_SLICE_S
"""The assumed cost of a new connection's slices; its first short slice corrects it."""
MUST_QUEUE: Final = 0.0
"""The value that `FairScheduler.begin` returns where the connection may begin no request in this
slice.
"""
COST_DECAY = 0.2


class Schedulable(Protocol):
    """A connection. The scheduler sets `served_s` (its tag) and `slice_s` (the average cost of its
    slices), both in seconds.
    """

    served_s: float
    slice_s: float

    def run_slice(self) -> None:
        """Work for one time slice, between `FairScheduler.begin` and `FairScheduler.end`."""
        ...


class FairScheduler:
    """The queue of connections that have more to do than fits into a slice.

    Args:
        now: seconds of a monotonic clock.

    Attributes: queued: how long connections with requests queued; None: it is not measured.

    Thread: that of `loop`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float] = monotonic_s) -> None:
        self._loop = loop
        self.now = now
        self._queue: list[tuple[float, float, int, Schedulable, float]] = []  # the last: since when
        self.queued: Histogram | None = None
        self._order = itertools.count()
        self._pass: asyncio.Handle | None = None
        self._in_pass = False
        self._served_s = 0.0  # the tag of the connection that was served last
        self._served_max_s = 0.0
        self._unqueued_s = 0.0  # since the last pass, by connections that did not queue
        self._began_s = 0.0
        self._deferred = False

    def begin(self, connection: Schedulable) -> float:
        """Begin a slice. Returns until when the connection may begin requests (at least one), or
        `MUST_QUEUE`.
        """
        now = self._began_s = self.now()
        # To be served without queueing is an advantage, so it ends where those that queue would pay
        # for it: when they have waited for a pass, or this connection's slices are long.
        is_queue_due = self._unqueued_s >= PASS_S or (self._queue and connection.slice_s >= SHORT_SLICE_S)
        self._deferred = bool(is_queue_due) and not self._in_pass
        return MUST_QUEUE if self._deferred else now + SLICE_S

    def end(self, connection: Schedulable) -> None:
        """End a slice, and charge its time to the connection."""
        if self._deferred:
            return
        cost_s = self.now() - self._began_s
        if cost_s >= SHORT_SLICE_S or connection.slice_s >= SHORT_SLICE_S:  # short slices are not charged
            self._charge(connection, cost_s)
        if not self._in_pass:
            self._unqueued_s += cost_s
            if self._unqueued_s >= PASS_S:
                self._schedule_pass()

    def _charge(self, connection: Schedulable, cost_s: float) -> None:
        average_s = connection.slice_s
        # A long slice counts in full at once, and is forgotten slowly: a client that sends one
        # large request in ten must not pass as a light one nine times.
        connection.slice_s = cost_s if cost_s > average_s else average_s + COST_DECAY * (cost_s - average_s)
        # From the tag that is being served on, not from its own old one: time in which a connection
        # was idle earns it no credit to spend in a burst.
        served_s = connection.served_s = max(self._served_s, connection.served_s) + cost_s
        if served_s > self._served_max_s:
            self._served_max_s = served_s

    def add(self, connection: Schedulable) -> None:
        """Queue a connection; its `run_slice` is called once. It must not be queued already."""
        is_short = connection.slice_s < SHORT_SLICE_S  # then its previous service does not count
        tag_s = self._served_s if is_short else max(self._served_s, connection.served_s)
        since_s = 0.0 if self.queued is None else self.now()
        heapq.heappush(self._queue, (tag_s, connection.slice_s, next(self._order), connection, since_s))
        self._schedule_pass()

    def close(self) -> None:
        """Drop the queue."""
        self._queue.clear()
        if self._pass is not None:
            self._pass.cancel()

    def _schedule_pass(self) -> None:
        if self._pass is None:
            self._pass = self._loop.call_soon(self._run_pass)

    def _run_pass(self) -> None:
        self._pass = None
        self._unqueued_s = 0.0
        queue = self._queue
        until = self.now() + PASS_S
        self._in_pass = True
        try:
            while queue:
                self._served_s, _, _, connection, since_s = heapq.heappop(queue)
                if since_s and self.queued is not None:
                    self.queued.observe(self.now() - since_s)
                connection.run_slice()
                if self.now() >= until:
                    break
        finally:
            self._in_pass = False
            if queue:
                self._schedule_pass()
            else:
                # The busy period is over. Without the jump a connection that was served much would
                # have to wait, in the next one, for what it got in this.
                self._served_s = self._served_max_s

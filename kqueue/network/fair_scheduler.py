"""FairScheduler: the loop's time, divided fairly between connections that have work.

A connection works for one turn (`TURN_S`, at least one request), then queues for the next. Between
two passes over the queue the loop polls all sockets. The order is start-time fair queueing: each
connection has a tag, the amount of service that it has had; the queue serves the smallest tag
first, and of equal ones the connection whose turns cost least. So one small request of a quiet
connection comes before the next request of a busy one, however many of those there are.

A connection that is read while there is no queue, or whose turns are short, is served at once,
without the queue.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol

from kqueue.workers.loop_pass import PASS_S

TURN_S = 0.002
"""After so long a connection that has more to do gives way to others."""
SHORT_TURN_S = 0.001
"""Connections whose turns are shorter on average come before others."""
UNKNOWN_TURN_S = SHORT_TURN_S
"""What a turn of a new connection is taken to cost; one short turn tells."""
COST_DECAY = 0.2


class Schedulable(Protocol):
    """A connection. `served_s` and `turn_s` are kept by `FairScheduler`: its tag, and what its turns cost,
    in seconds.
    """

    served_s: float
    turn_s: float

    def turn(self) -> None:
        """Work for one turn: between `FairScheduler.begin` and `FairScheduler.end`."""
        ...


class FairScheduler:
    """The queue of connections that have work left; belongs to the thread of `loop`. `now` gives
    seconds of a monotonic clock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self.now = now
        self._queue: list[tuple[float, float, int, Schedulable]] = []
        self._order = itertools.count()
        self._pass: asyncio.Handle | None = None
        self._in_pass = False
        self._served_s = 0.0  # the tag of the connection that was served last
        self._served_max_s = 0.0
        self._unqueued_s = 0.0  # since the last pass, by connections that did not queue
        self._began_s = 0.0
        self._deferred = False

    def begin(self, worker: Schedulable) -> float:
        """A connection has work now. Returns until when it may begin requests: a time that is over
        already if it is to queue.
        """
        now = self._began_s = self.now()
        is_queue_due = self._unqueued_s >= PASS_S or (self._queue and worker.turn_s >= SHORT_TURN_S)
        self._deferred = bool(is_queue_due) and not self._in_pass
        return now if self._deferred else now + TURN_S

    def end(self, worker: Schedulable) -> None:
        """It did what `begin` allowed: count what that cost."""
        if self._deferred:
            return
        cost_s = self.now() - self._began_s
        if cost_s >= SHORT_TURN_S or worker.turn_s >= SHORT_TURN_S:  # of short turns the queue keeps no account
            self._charge(worker, cost_s)
        if not self._in_pass:
            self._unqueued_s += cost_s
            if self._unqueued_s >= PASS_S:
                self._pass_soon()

    def _charge(self, worker: Schedulable, cost_s: float) -> None:
        worker.turn_s = cost_s if cost_s > worker.turn_s else worker.turn_s + COST_DECAY * (cost_s - worker.turn_s)
        served_s = worker.served_s = max(self._served_s, worker.served_s) + cost_s
        if served_s > self._served_max_s:
            self._served_max_s = served_s

    def add(self, worker: Schedulable) -> None:
        """Queue a connection that has work left; its `turn` is called once. It must not be in the
        queue already.
        """
        is_short = worker.turn_s < SHORT_TURN_S  # then what it has had before is of no account
        tag_s = self._served_s if is_short else max(self._served_s, worker.served_s)
        heapq.heappush(self._queue, (tag_s, worker.turn_s, next(self._order), worker))
        self._pass_soon()

    def close(self) -> None:
        """No more turns."""
        self._queue.clear()
        if self._pass is not None:
            self._pass.cancel()

    def _pass_soon(self) -> None:
        if self._pass is None:
            self._pass = self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._pass = None
        self._unqueued_s = 0.0
        queue = self._queue
        until = self.now() + PASS_S
        self._in_pass = True
        try:
            while queue:
                self._served_s, _, _, worker = heapq.heappop(queue)
                worker.turn()
                if self.now() >= until:
                    break
        finally:
            self._in_pass = False
            if queue:
                self._pass_soon()
            else:
                self._served_s = self._served_max_s

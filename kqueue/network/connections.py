"""The objects that all connections of one server share: the receive buffer, limits and budgets, the
scheduler, and the sweep that closes connections that are idle or too slow.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.histogram import Histogram
from kqueue.base.jobs import Jobs
from kqueue.base.settings import LONG_MAX
from kqueue.base.timers import PeriodicTimer, Timer, Timers
from kqueue.network.client_log import ClientLog
from kqueue.network.contract import ManagedConnection
from kqueue.network.eviction import select_slowest
from kqueue.network.fair_scheduler import FairScheduler
from kqueue.network.memory_budgets import RequestBudget, ResponseBudget, memory_limit
from kqueue.network.receive_buffer import RECEIVE_BYTES, BufferPool
from kqueue.network.responses import StartRequest
from kqueue.security.audit import AuditLog
from kqueue.workers.loop_pass import PASS_S

SWEEP_MS = 1000


class SessionLimits(NamedTuple):
    """Limits of connections, in bytes, numbers and milliseconds; None: no limit.

    The `_of_all` limits hold for all connections together, the others for each.
    """

    request_bytes: int
    requests: int
    requests_of_all: int
    response_bytes: int
    idle_ms: int | None
    slow_reader_ms: int
    slow_sender_ms: int
    slow_holder_ms: int
    request_bytes_of_all: int | None = None
    response_bytes_of_all: int = LONG_MAX

    @classmethod
    def of(cls, config: Config) -> SessionLimits:
        """Return the limits that the settings ask for."""
        idle_ms = config["connections.max.idle.ms"]
        return cls(
            request_bytes=config["socket.request.max.bytes"],
            requests=config["queued.max.requests"],
            requests_of_all=config["kqueue.max.waiting.requests"],
            response_bytes=config["kqueue.queued.max.response.bytes"],
            idle_ms=None if idle_ms == -1 else idle_ms,
            slow_reader_ms=config["kqueue.slow.reader.timeout.ms"],
            slow_sender_ms=config["kqueue.slow.sender.timeout.ms"],
            slow_holder_ms=config["kqueue.slow.holder.timeout.ms"],
            request_bytes_of_all=memory_limit(config, "queued.max.request.bytes"),
            response_bytes_of_all=memory_limit(config, "kqueue.queued.max.response.bytes.total") or LONG_MAX,
        )

    @property
    def sweep_ms(self) -> float:
        """The interval of the sweep: each second, or four times within the shortest timeout."""
        shortest_ms = min(self.idle_ms or SWEEP_MS * 4, self.slow_reader_ms, self.slow_sender_ms)
        return min(SWEEP_MS, shortest_ms / 4)


class ThrottleEnd(NamedTuple):
    """When a throttled connection continues, on the monotonic clock."""

    until_ms: float
    timer: Timer


class ConnectionRegistry:
    """The connections of one server, and what they share. All of it runs on the thread of `loop`.

    Args:
        start: starts one request; see `Dispatcher.start`.
        closed: called with each connection that was closed.

    `waiting_requests` counts the requests of all connections whose response is not complete.
    `notes_arrivals`: whether connections note when requests arrive, while requests are logged.
    `audit`: where failed authentications are written; None: nowhere. `authentication_failures`: how
    many there were, by listener and mechanism.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        jobs: Jobs,
        limits: SessionLimits,
        client_log: ClientLog,
        start: StartRequest,
        closed: Callable[[ManagedConnection], None],
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.jobs = jobs
        self.limits = limits
        self.request_budget = RequestBudget(limits.request_bytes_of_all)
        self.response_budget = ResponseBudget(limits.response_bytes_of_all, loop.call_soon)
        self.client_log = client_log
        self.audit: AuditLog | None = None
        self.authentication_failures: Counter[tuple[str, str]] = Counter()
        self.send_blocked: Histogram | None = None
        self.start = start
        self.scheduler = FairScheduler(loop)
        self.buffers = BufferPool()
        self.received = memoryview(bytearray(RECEIVE_BYTES))
        self.sessions: set[ManagedConnection] = set()
        self.waiting_requests = 0
        self.notes_arrivals = False
        self._closed = closed
        self._timers = timers
        self._sweeper: PeriodicTimer | None = None
        self._throttled: dict[ManagedConnection, ThrottleEnd] = {}
        self._ready: set[ManagedConnection] = set()

    @property
    def queued(self) -> Histogram | None:
        """How long connections with requests queued for their time slice; None: not measured."""
        return self.scheduler.queued

    def measure(self) -> None:
        """Measure from now on how long requests queue for the broker's thread, and responses for
        room in their socket: `queued`, `send_blocked`.
        """
        self.scheduler.queued = Histogram()
        self.send_blocked = Histogram()

    def add(self, session: ManagedConnection) -> None:
        """Register an open connection."""
        self.sessions.add(session)
        if self._sweeper is None:
            self._sweeper = self._timers.every(self.limits.sweep_ms, self._sweep)

    def remove(self, session: ManagedConnection) -> None:
        """Unregister a closed connection."""
        self.sessions.discard(session)
        self._ready.discard(session)
        until = self._throttled.pop(session, None)
        if until is not None:
            until.timer.cancel()
        self._closed(session)

    def throttle(self, session: ManagedConnection, ms: float) -> None:
        """Call `session.end_throttle` after `ms`, or when an earlier, longer throttle ends."""
        until_ms = self.clock.monotonic_ms() + ms
        former = self._throttled.get(session)
        if former is not None:
            if former.until_ms >= until_ms:
                return
            former.timer.cancel()

        def end() -> None:
            del self._throttled[session]
            session.end_throttle()

        self._throttled[session] = ThrottleEnd(until_ms, self.call_later(ms, end))

    def will_send(self, session: ManagedConnection) -> None:
        """Have the next `flush` send the responses of `session`."""
        self._ready.add(session)

    def flush(self) -> None:
        """Send the responses that became complete, once per connection.

        After `PASS_S` the remaining connections are flushed in the loop's next iteration.
        """
        now = self.scheduler.now
        until = now() + PASS_S if self._ready else 0.0
        while self._ready:
            self._ready.pop().flush()
            if self._ready and now() >= until:
                self.loop.call_soon(self.flush)
                break

    def unsent(self) -> int:
        """Return how many connections have responses that their clients have not received."""
        return sum(session.has_unsent for session in self.sessions)

    def close(self) -> None:
        """Close every connection."""
        for session in list(self.sessions):
            session.close()
        self.scheduler.close()
        self._stop_sweeping()

    def call_later(self, ms: float, run: Callable[[], object]) -> Timer:
        """Call `run` after `ms` milliseconds of the server's clock."""
        return self._timers.at(self.clock.monotonic_ms() + ms, run)

    def every(self, ms: float, run: Callable[[], object]) -> PeriodicTimer:
        """Call `run` every `ms` milliseconds of the server's clock."""
        return self._timers.every(ms, run)

    def _stop_sweeping(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _sweep(self) -> None:
        if not self.sessions:
            self._stop_sweeping()
            self.buffers.clear()
            return
        now_ms = self.clock.monotonic_ms()
        for session in list(self.sessions):
            session.check(now_ms)
        self._free_memory()

    def _free_memory(self) -> None:
        """Close the connections that would hold memory longest, where it is short."""
        max_s = self.limits.slow_holder_ms / 1000
        requests, responses = self.request_budget, self.response_budget
        if requests.has_waiters and requests.limit is not None:
            excess = requests.used - requests.limit // 2
            for session, holding in select_slowest(self.sessions, lambda one: one.request_memory(), excess, max_s):
                session.cut_off(
                    f"it is slow to send its request while others wait for room: it sends "
                    f"{holding.bytes_per_s:.0f} bytes/s, "
                    f"holds {holding.held_bytes} bytes, and {holding.remaining_bytes} are to come "
                    f"(queued.max.request.bytes)"
                )
        if responses.is_short:
            excess = responses.used - responses.limit // 2
            for session, holding in select_slowest(self.sessions, lambda one: one.response_memory(), excess, max_s):
                session.cut_off(
                    f"it is slow to take its answers while memory for them is short: it takes "
                    f"{holding.bytes_per_s:.0f} bytes/s, "
                    f"and {holding.held_bytes} bytes wait (kqueue.queued.max.response.bytes.total)"
                )

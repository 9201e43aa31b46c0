"""What all connections of one server share: the receive buffer, the limits in force, and the sweep
that finds who is too slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.jobs import Jobs
from kqueue.base.settings import Config
from kqueue.base.timers import PeriodicTimer, Timer, Timers
from kqueue.network.connection_quotas import ClientLog, RequestBudget
from kqueue.network.fair_scheduler import FairScheduler
from kqueue.network.memory_budgets import ResponseBudget, select_slowest
from kqueue.network.receive_buffer import RECEIVE_BYTES, BufferPool
from kqueue.network.responses import Chunks, Connection, DeferredResponse
from kqueue.workers.loop_pass import PASS_S

if TYPE_CHECKING:
    from kqueue.network.session import Session

SWEEP_MS = 1000


class SessionLimits(NamedTuple):
    """The limits of each connection, in bytes, numbers and milliseconds; None where there is none."""

    request_bytes: int
    requests: int
    requests_of_all: int
    response_bytes: int
    idle_ms: int | None
    slow_reader_ms: int
    slow_sender_ms: int
    slow_holder_ms: int

    @classmethod
    def of(cls, config: Config) -> SessionLimits:
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
        )

    @property
    def sweep_ms(self) -> float:
        """How often connections are looked at: each second, or more often where a limit is shorter
        than some seconds.
        """
        shortest_ms = min(self.idle_ms or SWEEP_MS * 4, self.slow_reader_ms, self.slow_sender_ms)
        return min(SWEEP_MS, shortest_ms / 4)


class ConnectionRegistry:
    """The middle of a server; everything here runs on the thread of `loop`.

    `start` takes one request (see `Dispatcher.start`). `gone` is called with each connection that
    has ended. `waiting_requests` are those of all connections that wait for their answer.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        jobs: Jobs,
        bounds: SessionLimits,
        budget: RequestBudget,
        answers_bytes: int,
        client_log: ClientLog,
        start: Callable[[memoryview, Connection], Chunks | DeferredResponse | None],
        gone: Callable[[Session], None],
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.jobs = jobs
        self.bounds = bounds
        self.budget = budget
        self.answers = ResponseBudget(answers_bytes, loop.call_soon)
        self.client_log = client_log
        self.start = start
        self.turns = FairScheduler(loop)
        self.buffers = BufferPool()
        self.received = memoryview(bytearray(RECEIVE_BYTES))
        self.sessions: set[Session] = set()
        self.waiting_requests = 0
        self._gone = gone
        self._timers = timers
        self._sweeper: PeriodicTimer | None = None
        self._answered: set[Session] = set()

    def add(self, session: Session) -> None:
        self.sessions.add(session)
        if self._sweeper is None:
            self._sweeper = self._timers.every(self.bounds.sweep_ms, self._sweep)

    def remove(self, session: Session) -> None:
        self.sessions.discard(session)
        self._answered.discard(session)
        self._gone(session)

    def will_send(self, session: Session) -> None:
        """`session` has answers for its client, which go out at the next `flush`."""
        self._answered.add(session)

    def flush(self) -> None:
        """Send what became answerable in this turn: once for each connection, however many answers
        it got.

        After one pass the rest is sent in the loop's next turn.
        """
        now = self.turns.now
        until = now() + PASS_S if self._answered else 0.0
        while self._answered:
            self._answered.pop().flush()
            if self._answered and now() >= until:
                self.loop.call_soon(self.flush)
                break

    def unsent(self) -> int:
        """How many connections have answers that they did not take yet."""
        return sum(session.owes_answers for session in self.sessions)

    def close(self) -> None:
        """Close every connection."""
        for session in list(self.sessions):
            session.close()
        self.turns.close()
        self._stop_sweeping()

    def later(self, ms: float, run: Callable[[], object]) -> Timer:
        """Call `run` in so many milliseconds of the server's clock."""
        return self._timers.at(self.clock.monotonic_ms() + ms, run)

    def _stop_sweeping(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _sweep(self) -> None:
        if not self.sessions:
            self._stop_sweeping()
            self.buffers.forget()
            return
        now_ms = self.clock.monotonic_ms()
        for session in list(self.sessions):
            session.check(now_ms)
        self._free_memory()

    def _free_memory(self) -> None:
        """Where others wait for memory, close those who would hold theirs the longest."""
        max_s = self.bounds.slow_holder_ms / 1000
        budget, answers = self.budget, self.answers
        if budget.crowded and budget.limit is not None:
            excess = budget.used - budget.limit // 2
            for session, holding in select_slowest(self.sessions, lambda one: one.request_holding(), excess, max_s):
                session.cut_off(
                    f"it is slow to send its request while others wait for room: it sends {holding.rate:.0f} bytes/s, holds {holding.held} "
                    f"bytes, and {holding.left} are to come (queued.max.request.bytes)"
                )
        if answers.is_short:
            excess = answers.used - answers.limit // 2
            for session, holding in select_slowest(self.sessions, lambda one: one.answer_holding(), excess, max_s):
                session.cut_off(
                    f"it is slow to take its answers while memory for them is short: it takes {holding.rate:.0f} bytes/s, and "
                    f"{holding.held} bytes wait (kqueue.queued.max.response.bytes.total)"
                )

"""Starts the workers, starts those again that die, and stops all of them.

    start    worker 0 first: it has the data folder, and the topics of a single broker. One that
             can't serve ends the start: all stop, and its error is the supervisor's.
    open     clients of the bootstrap address wait until all workers may lead, so that partitions of
             the first topic are spread; at most `OPEN_AFTER_S`, as logs may be recovered.
    restart  a worker that dies has the same sockets and data in its next process. Clients that
             connect meanwhile wait. Restarts that fail follow each other ever slower.
    stop     TERM or Ctrl-C: the sockets close, all workers stop at the same time. Those that have
             not in time, or at a second signal, are killed, which costs what a crash costs.

All accept from one listening socket: a port in use is noticed, as it is not with SO_REUSEPORT, and
a worker that hangs keeps no share of the clients waiting. If the supervisor dies, the socket pairs
to the workers close, and they stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import ListenFailed
from kqueue.config.listeners import ListenerAddress
from kqueue.config.properties import SourcedValue
from kqueue.network.listener import bind
from kqueue.supervisor.former_workers import check_former_workers
from kqueue.supervisor.keeper import Keeper
from kqueue.supervisor.messages import WorkerOrder
from kqueue.supervisor.service_manager import ServiceManager
from kqueue.supervisor.worker_plan import Plan, WorkerPlan, plan_workers

OPEN_AFTER_S = 10.0
DISK_S = 60.0
"""The seconds that a stop may take beside both waits of `kqueue.stop.timeout.ms`."""
INSIST_AFTER_S = 1.0
logger = logging.getLogger("kqueue.server")


def serve_workers(
    given: Mapping[str, SourcedValue], count: int, topics: Mapping[str, int | None], *, verbose: bool = False
) -> int | None:
    """Serve with several workers until TERM or Ctrl-C; return the number of that signal.

    Args:
        given: the settings of a single broker; see `worker_plan`.
        count: the number of workers, from 1.
        topics: to create at the start: partitions by name, None: num.partitions.
    Raises:
        SettingError, ListenFailed, StorageFailed: before anything is created.
        WorkerFailed: all have stopped.
    """
    plan = plan_workers(given, count)
    check_former_workers(plan)
    with Supervisor(plan, topics, verbose=verbose) as supervisor, asyncio.Runner() as runner:
        runner.run(supervisor.run())
        return supervisor.stopped_by


class Supervisor:
    """Runs the workers of a plan. Leaving its context closes the sockets.

    Raises: ListenFailed: a port is in use.
    """

    def __init__(self, plan: Plan, topics: Mapping[str, int | None], *, verbose: bool = False) -> None:
        self._plan = plan
        self._topics = topics
        self._verbose = verbose
        self._stop_s = 2 * plan.config["kqueue.stop.timeout.ms"] / 1000 + DISK_S
        self._failure: BaseException | None = None
        self._first_signal_s: float | None = None
        self.stopped_by: int | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._manager = contextlib.ExitStack()
        with contextlib.ExitStack() as opened:
            self._sockets = opened
            self._shared = {name: self._listen(one.bind) for name, one in plan.bootstrap.items()}
            self._keepers = [Keeper(self._order(worker)) for worker in plan.workers]
            self._sockets = opened.pop_all()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *exception: object) -> None:
        self._sockets.close()

    async def run(self) -> None:
        """Serve until TERM or Ctrl-C. Raises: WorkerFailed."""
        self._stopping, self._insists = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        self._run(self._start())
        await self._stopping.wait()
        await self._stop()
        if self._failure is not None:
            raise self._failure

    def _listen(self, address: ListenerAddress) -> list[socket.socket]:
        sockets = bind(address, self._plan.config)
        for bound in sockets:
            self._sockets.callback(bound.close)
        try:
            for bound in sockets:
                bound.listen(self._plan.config["socket.listen.backlog.size"])
        except OSError as error:
            raise ListenFailed(f"listener {address} can't be opened: {error.strerror or error}") from None
        return sockets

    def _order(self, worker: WorkerPlan) -> WorkerOrder:
        own = {name: self._listen(address) for name, address in worker.listeners.items()}
        return WorkerOrder(
            number=worker.number,
            settings=worker.settings,
            own=_descriptors(own),
            shared=_descriptors(self._shared),
            nodes=tuple(other.node_id for other in self._plan.workers),
            topics=self._topics if worker.number == 0 else {},
            verbose=self._verbose,
            stop_s=self._stop_s,
        )

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside; a failure of it stops all."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
            self._stopping.set()

    async def _start(self) -> None:
        began = monotonic_s()
        first, *others = self._keepers
        self._run(first.run())
        await first.serves.wait()
        for keeper in others:
            self._run(keeper.run())
        for keeper in others:
            await keeper.serves.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPEN_AFTER_S):
                for keeper in self._keepers:
                    await keeper.is_ready.wait()
        for keeper in self._keepers:
            keeper.open()
        where = ", ".join(
            str(one.bind._replace(port=self._shared[name][0].getsockname()[1]))
            for name, one in self._plan.bootstrap.items()
        )
        serve = f"{len(self._keepers)} workers serve" if others else "1 worker serves"
        events.WORKERS_STARTED.log(
            logger, "%s %s (%.2f s)", workers=serve, listeners=where, seconds=monotonic_s() - began
        )
        self._manager.enter_context(ServiceManager().serving())

    def _signalled(self, number: int) -> None:
        """A second signal insists, unless a wrapper such as `timeout` has sent the first twice."""
        now_s = monotonic_s()
        if self._first_signal_s is None:
            self._first_signal_s = now_s
            self.stopped_by = number
            self._stopping.set()
        elif now_s - self._first_signal_s >= INSIST_AFTER_S:
            self._insists.set()

    async def _stop(self) -> None:
        events.BROKER_STOPPING.log(logger, "stopping")
        self._manager.close()
        starting, *keeping = self._tasks
        starting.cancel()
        self._sockets.close()
        for keeper in self._keepers:
            keeper.stop()
        insisting = asyncio.ensure_future(self._insists.wait())
        deadline_s = monotonic_s() + self._stop_s
        while unfinished := [task for task in keeping if not task.done()]:
            left_s = deadline_s - monotonic_s()
            if insisting.done() or left_s <= 0:
                break
            await asyncio.wait((*unfinished, insisting), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        insisting.cancel()
        for keeper in self._keepers:
            keeper.kill()
        await asyncio.wait((starting, *keeping))
        events.BROKER_STOPPED.log(logger, "stopped")


def _descriptors(sockets: Mapping[str, Iterable[socket.socket]]) -> dict[str, list[int]]:
    return {name: [bound.fileno() for bound in each] for name, each in sockets.items()}

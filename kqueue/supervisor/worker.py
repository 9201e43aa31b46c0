"""The process of one worker: `python -m kqueue.supervisor.worker DESCRIPTOR`, started by the
supervisor only. The descriptor is its end of the socket pair; see `messages`.

TERM stops it cleanly. Ctrl-C is left to the supervisor. If the supervisor dies the worker stops
cleanly, and ends itself where that takes too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import IO

from kqueue.app import Server
from kqueue.base.errors import KqueueError
from kqueue.base.log_event import LOG_FORMAT
from kqueue.config.properties import make_config
from kqueue.network.event_loop import BrokerEventLoop
from kqueue.supervisor.initial_topics import all_serve, create_topics
from kqueue.supervisor.logs import given_form, log_to_stderr
from kqueue.supervisor.messages import FAILED, OPEN, READY, SERVES, WorkerOrder, encode
from kqueue.workers.process_setup import raise_open_files_limit, tune_garbage_collector


class Worker:
    """Serves what its order says, on the running event loop.

    Args: tell: sends a message to the supervisor.
    """

    def __init__(self, order: WorkerOrder, tell: Callable[[object], None]) -> None:
        self._order = order
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        logging.disable(logging.WARNING)  # the supervisor has warned of settings
        try:
            config = make_config(order.settings)
        finally:
            logging.disable(logging.NOTSET)
        self.config = config
        self._server = Server(
            config, sockets={name: list(map(_socket, numbers)) for name, numbers in order.own.items()}
        )
        self._shared = [(name, _socket(number)) for name, numbers in order.shared.items() for number in numbers]

    async def run(self) -> None:
        """Serve until TERM, or until the supervisor is gone.

        Raises: as `Server.start` and `stop`; KqueueError: a topic can't be created.
        """
        self._loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        await self._server.start()
        tune_garbage_collector()
        preparing = self._loop.create_task(self._prepare())
        try:
            self._tell(SERVES)
            stopping = self._loop.create_task(self._stop.wait())
            await asyncio.wait((preparing, stopping), return_when=asyncio.FIRST_COMPLETED)
            if preparing.done():
                preparing.result()
            await stopping
        finally:
            preparing.cancel()
            await self._server.stop()

    def stop(self) -> None:
        """Stop soon. Thread: any."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stop.set)

    def open(self) -> None:
        """Accept from the shared sockets, too. Thread: any."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._accept_shared)

    def _accept_shared(self) -> None:
        while self._shared and not self._stop.is_set():
            self._server.accept_from(*self._shared.pop())

    async def _prepare(self) -> None:
        await self._server.ready()
        await all_serve(self._server, self._order.nodes)
        await create_topics(self._server, self._order.topics)
        self._tell(READY)


def follow_supervisor(lines: IO[bytes], worker: Worker, stop_s: float) -> None:
    """Do what the supervisor says until it is gone; then stop, and after `stop_s` end the process.

    Thread: one of its own, which does not keep the process alive.
    """
    # killed with messages unread it resets the connection, and it may leave half a message
    with contextlib.suppress(OSError, ValueError):
        for line in lines:
            if json.loads(line) == OPEN:
                worker.open()
    worker.stop()
    time.sleep(stop_s)
    os._exit(1)


def main() -> None:
    """Serve as the supervisor says. Exits with 1 if it can't, or if the stop was not clean."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = _socket(int(sys.argv[1]))
    channel.setblocking(True)
    lines = channel.makefile("rb")
    line = lines.readline()
    if not line:
        return  # the supervisor is gone
    order = WorkerOrder.from_line(line)
    log = log_to_stderr(verbose=order.verbose, label=f"worker {order.number}")
    log.use(given_form(order.settings))
    raise_open_files_limit()

    def tell(message: object) -> None:
        with contextlib.suppress(OSError):  # it is gone
            channel.sendall(encode(message))

    async def serve() -> None:
        worker = Worker(order, tell)
        log.use(worker.config[LOG_FORMAT])
        threading.Thread(target=follow_supervisor, args=(lines, worker, order.stop_s), daemon=True).start()
        await worker.run()

    try:
        with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
            runner.run(serve())
    except (KqueueError, OSError) as error:
        tell({FAILED: [type(error).__name__, str(error)]})
        sys.exit(1)


def _socket(number: int) -> socket.socket:
    listening = socket.socket(fileno=number)
    listening.set_inheritable(False)
    listening.setblocking(False)
    return listening


if __name__ == "__main__":
    main()

"""The thread and event loop of an embedded broker, or of all brokers of an embedded cluster."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from kqueue.embedded.green_threads import prepare_greenlets
from kqueue.network.event_loop import BrokerEventLoop

T = TypeVar("T")
_STOP_AGAIN_S = 0.05
_RUNNING: weakref.WeakSet[LoopThread] = weakref.WeakSet()


class LoopThread:
    """A thread that runs servers on an event loop, from `start` to `stop`, each called once.

    One that runs is stopped when the interpreter ends. In a forked child it still belongs to the
    parent.

    Args:
        begin: starts the servers. It may return before that is complete once `stopping` is set.
        end: stops them.
        close_descriptors: closes this process's copies of their sockets, in a forked child.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
        end: Callable[[], Coroutine[Any, Any, None]],
        close_descriptors: Callable[[], None],
    ) -> None:
        self._begin = begin
        self._end = end
        self.close_descriptors = close_descriptors
        self._process_id = os.getpid()
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopping: asyncio.Event
        self.loop: asyncio.AbstractEventLoop

    @property
    def belongs_to_parent(self) -> bool:
        """Whether this process was forked from that of the thread."""
        return self._process_id != os.getpid()

    def check_not_own(self) -> None:
        """Raise RuntimeError in the thread itself."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("this is the broker's own thread, which can't wait for itself")

    def start(self) -> None:
        """Return once `begin` has.

        Raises: what `begin` raises. RuntimeError: the loop would block greenlets of this process.
        """
        prepare_greenlets()
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            # it failed, and ends by itself; or the caller was interrupted, and will not use it
            while self._thread.is_alive():
                self._request_stop()
                self._thread.join(_STOP_AGAIN_S)
            raise
        _RUNNING.add(self)

    def stop(self) -> None:
        """Return once `end` has, and the thread has ended; nothing in a forked child. Raises: what
        `end` raises.
        """
        if self.belongs_to_parent:
            return
        _RUNNING.discard(self)
        self._request_stop()
        self._thread.join()
        self._ended.result()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work` on the loop, from another thread; return its result."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result()

    def _request_stop(self) -> None:
        with contextlib.suppress(RuntimeError, AttributeError):  # its loop has ended, or not begun
            self.loop.call_soon_threadsafe(self._stopping.set)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            failure = error
        future = self._ended if self._started.done() else self._started
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(None)

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()  # before the loop: see `_request_stop`
        self.loop = asyncio.get_running_loop()
        await self._begin(self._stopping)
        self._started.set_result(None)
        await self._stopping.wait()
        await self._end()


async def unless(stopping: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Return once `work` has, or `stopping` is set; `work` is cancelled then. Raises: what `work`
    raises.
    """
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait())
    await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if working.done():
        working.result()
    working.cancel()


def _stop_all() -> None:
    for thread in list(_RUNNING):
        thread.stop()


def _close_descriptors_in_child() -> None:
    for thread in list(_RUNNING):
        thread.close_descriptors()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_descriptors_in_child)

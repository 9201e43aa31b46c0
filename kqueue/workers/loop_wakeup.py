"""Wakes the event loop from other threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable


class LoopWakeup:
    """Calls `call` on the loop after `wake`, once for all wakes before.

    On Linux an eventfd wakes the loop by one write and one read. `call_soon_threadsafe` serves
    elsewhere; it costs a write, two reads, an exception and a handle for each wake.

    Thread: `wake` belongs to any thread, the other methods to that of `loop`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self._loop = loop
        self._call = call
        self._is_due = False
        self._lock = threading.Lock()  # a write never meets a descriptor that another file uses now
        self._is_closed = False
        self._fd: int | None = None
        if hasattr(os, "eventfd"):
            self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            loop.add_reader(self._fd, self._read)

    def wake(self) -> None:
        """Have the loop call `call` soon. Does nothing after `close`."""
        with self._lock:
            if self._is_due or self._is_closed:
                return
            self._is_due = True
            if self._fd is not None:
                os.eventfd_write(self._fd, 1)
                return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._run)

    def close(self) -> None:
        """Call nothing any more. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            fd, self._fd = self._fd, None
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)

    def _read(self) -> None:
        assert self._fd is not None, "a closed wakeup has no reader"
        os.eventfd_read(self._fd)
        self._run()

    def _run(self) -> None:
        # Before the call: what ends while it runs wakes the loop again.
        self._is_due = False
        if not self._is_closed:
            self._call()

"""One server's view of the event loop that it shares with others, so that a test can pause or kill
that server alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kqueue.network.event_loop import turn_end_of

Arguments = tuple[Any, ...]


class _Call:
    """A callback that waits for its turn. `handle`: None until the loop has it."""

    __slots__ = ("arguments", "callback", "handle")

    def __init__(self, callback: Callable[..., object], arguments: Arguments) -> None:
        self.callback = callback
        self.arguments = arguments
        self.handle: asyncio.Handle | None = None


class ServerLoop:
    """The part of `asyncio.AbstractEventLoop` that servers use.

    While it is paused, no callback runs and no socket is read or written, as in a process that was
    stopped by SIGSTOP; `resume` runs in order what became due meanwhile. After `close` nothing
    runs, as after SIGKILL.

    Thread: as of the loop's methods.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._at_turn_end = turn_end_of(loop)
        self._readers: dict[int, tuple[Callable[..., object], Arguments]] = {}
        self._writers: dict[int, tuple[Callable[..., object], Arguments]] = {}
        self._held: list[_Call] = []
        self._closed = False
        self.is_paused = False

    def pause(self) -> None:
        """Run nothing until `resume`. A second call does nothing."""
        if not self.is_paused:
            self._unregister()
            self.is_paused = True

    def resume(self) -> None:
        """Continue after `pause`, else do nothing."""
        if not self.is_paused or self._closed:
            return
        self.is_paused = False
        for fd, (callback, arguments) in self._readers.items():
            self._loop.add_reader(fd, callback, *arguments)
        for fd, (callback, arguments) in self._writers.items():
            self._loop.add_writer(fd, callback, *arguments)
        held, self._held = self._held, []
        for call in held:
            self._loop.call_soon(self._run, call)

    def close(self) -> None:
        """Run nothing any more."""
        if not self.is_paused:
            self._unregister()
        self._closed = self.is_paused = True
        self._readers, self._writers, self._held = {}, {}, []

    def _unregister(self) -> None:
        for fd in self._readers:
            self._loop.remove_reader(fd)
        for fd in self._writers:
            self._loop.remove_writer(fd)

    # --- what servers use

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        """Call it in the next pass of the loop."""
        call = _Call(callback, args)
        call.handle = handle = self._loop.call_soon(self._run, call)
        return handle

    def at_turn_end(self, callback: Callable[[], None]) -> None:
        """Call it at the end of this turn; see `BrokerEventLoop`."""
        self._at_turn_end(partial(self._run, _Call(callback, ())))

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        """`call_soon`, from any thread."""
        call = _Call(callback, args)
        call.handle = handle = self._loop.call_soon_threadsafe(self._run, call)
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call it in `delay` seconds."""
        call = _Call(callback, args)
        call.handle = handle = self._loop.call_later(delay, self._run, call)
        return handle

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        """Call it while there is something to read."""
        self._readers[_number(fd)] = callback, args
        if not self.is_paused:
            self._loop.add_reader(fd, callback, *args)

    def remove_reader(self, fd: Any) -> bool:
        """Undo `add_reader`; returns whether there was one."""
        was_there = self._readers.pop(_number(fd), None) is not None
        if was_there and not self.is_paused:
            self._loop.remove_reader(fd)
        return was_there

    def add_writer(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        """Call it while there is room to write."""
        self._writers[_number(fd)] = callback, args
        if not self.is_paused:
            self._loop.add_writer(fd, callback, *args)

    def remove_writer(self, fd: Any) -> bool:
        """Undo `add_writer`; returns whether there was one."""
        was_there = self._writers.pop(_number(fd), None) is not None
        if was_there and not self.is_paused:
            self._loop.remove_writer(fd)
        return was_there

    def _run(self, call: _Call) -> None:
        if self._closed or (call.handle is not None and call.handle.cancelled()):
            return
        if self.is_paused:
            self._held.append(call)
        else:
            call.callback(*call.arguments)


def _number(fd: Any) -> int:
    return fd if isinstance(fd, int) else int(fd.fileno())

"""The event loop that brokers run on, and the end of its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from selectors import BaseSelector

from kqueue.base.clock import monotonic_s


class BrokerEventLoop(asyncio.SelectorEventLoop):
    """A loop whose timers run by the machine's clock, also while a test has frozen
    `time.monotonic` (see `kqueue.base.clock`). It has `add_reader` on every platform.

    A turn is one poll of the sockets, and the callbacks of all that it reported.
    """

    time = staticmethod(monotonic_s)

    def __init__(self, selector: BaseSelector | None = None) -> None:
        super().__init__(selector)
        self._turn_end: list[Callable[[], None]] = []
        self._is_turn_end = False

    def at_turn_end(self, call: Callable[[], None]) -> None:
        """Call `call` once at the end of this turn; from within such a call, at that of the next.

        `call_soon` would poll once more before, and make a handle and a context for each call.
        Failures reach the exception handler.
        Thread: that of the loop.
        """
        self._turn_end.append(call)
        if self._is_turn_end:
            self.call_soon(_do_nothing)  # else the next poll would wait

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]  # asyncio's turn; all versions have it
        if self._turn_end:
            calls, self._turn_end = self._turn_end, []
            self._is_turn_end = True
            try:
                for call in calls:
                    self._call_at_turn_end(call)
            finally:
                self._is_turn_end = False

    def _call_at_turn_end(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self.call_exception_handler({"message": "a call at the end of a turn failed", "exception": error})


def turn_end_of(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], object]:
    """Return `at_turn_end` of the loop, or `call_soon` of one that has no such method."""
    at_turn_end: Callable[[Callable[[], None]], object] = getattr(loop, "at_turn_end", loop.call_soon)
    return at_turn_end


def _do_nothing() -> None:
    pass

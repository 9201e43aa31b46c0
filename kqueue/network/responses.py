"""Answers on their way to a connection: there at once as chunks, or `DeferredResponse`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from kqueue.api.request_context import RequestContext
from kqueue.broker.purgatory import DelayedOperation, Purgatory, WatchedOperation
from kqueue.schema import Chunk

Chunks: TypeAlias = list[Chunk]


class Connection(Protocol):
    """What a request's answer needs to know of where it came from."""

    address: str
    client_host: str
    listener: str
    call: RequestContext | None

    def answered(self) -> None:
        """An answer that was not there yet has come."""
        ...

    def cut_off(self, reason: str, error: BaseException | None = None, *, level: int = logging.WARNING) -> None:
        """This connection can't go on."""
        ...

    def hold(self) -> None:
        """Start no more requests of this connection before `let_go`; answers go out as before."""
        ...

    def let_go(self) -> None:
        """Go on after `hold`."""
        ...

    def silence(self) -> None:
        """Neither read nor send before `speak`, as if nothing came through; nothing is closed,
        however long it lasts.
        """
        ...

    def speak(self) -> None:
        """Go on after `silence`."""
        ...


class DeferredResponse:
    """An answer that is not there yet: `chunks` is filled when it comes. `cancel` when nobody is
    left to read it.

    `overlaps`: requests of this API may begin while others of it are unanswered (see `Session`).
    """

    __slots__ = ("_done", "_failed", "_waiter", "chunks", "overlaps")

    def __init__(
        self, done: Callable[[Any], None], failed: Callable[[Exception], None], *, overlaps: bool = False
    ) -> None:
        self.chunks: Chunks | None = None
        self.overlaps = overlaps
        self._done = done
        self._failed = failed
        self._waiter: WatchedOperation | None = None

    def hold(self, waiting: Purgatory, wait: DelayedOperation[Any]) -> None:
        self._waiter = waiting.add(wait, self._done, self._failed)

    def finish(self, chunks: Chunks) -> None:
        """The answer is there. What it took to make it, the decoded request above all, is let go
        of.
        """
        self.chunks = chunks
        self._let_go()

    def cancel(self) -> None:
        if self._waiter is not None:
            self._waiter.cancel()
            self._let_go()

    def _let_go(self) -> None:
        """Break the reference cycle with the callbacks: it would hold requests and answers until
        the next full collection.
        """
        self._done = self._failed = _settled
        self._waiter = None

    def expire(self) -> None:
        """Answer now as at the deadline, if there is one; what has none (a rebalance) has nothing
        to say before its time.
        """
        waiter = self._waiter
        if waiter is None or not waiter.pending or waiter.wait.deadline_ms is None:
            return
        waiter.cancel()
        try:
            response = waiter.wait.retry(True)
            while isinstance(response, DelayedOperation):
                response = response.retry(True)
        except Exception as error:
            self._failed(error)
        else:
            self._done(response)


def _settled(result: Any) -> None:
    raise AssertionError("it is answered, or nobody waits for it any more")

"""Responses that are not complete when the handler returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kqueue.base.native import mypyc_attr
from kqueue.broker.purgatory import DelayedOperation, Purgatory, WatchedOperation
from kqueue.network.contract import Chunks, Connection


@mypyc_attr(allow_interpreted_subclasses=True)
class DeferredResponse:
    """A response that a delayed operation completes; `chunks` is None until then.

    Args:
        done: encodes the handler's response and calls `finish`.
        failed: does so with an error.
        overlaps: whether requests of this API may begin while others of it are deferred (see
            `Session`).

    Attributes: api: the name of the API; "": of authentication without one.
    """

    __slots__ = ("_done", "_failed", "_waiter", "api", "chunks", "overlaps")

    def __init__(
        self, done: Callable[[Any], None], failed: Callable[[Exception], None], *, overlaps: bool = False
    ) -> None:
        self.chunks: Chunks | None = None
        self.overlaps = overlaps
        self.api = ""
        self._done = done
        self._failed = failed
        self._waiter: WatchedOperation | None = None

    def set_callbacks(self, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """Replace `done` and `failed`."""
        self._done = done
        self._failed = failed

    def watch(self, purgatory: Purgatory, operation: DelayedOperation[Any]) -> None:
        """Watch `operation` in the purgatory."""
        self._waiter = purgatory.add(operation, self._done, self._failed)

    def finish(self, chunks: Chunks) -> None:
        """Set the encoded response, and release the request and all else that produced it."""
        self.chunks = chunks
        self._release()

    def cancel(self) -> None:
        """Cancel the operation: its connection is closed."""
        if self._waiter is not None:
            self._waiter.cancel()
            self._release()

    def _release(self) -> None:
        """Break the reference cycle with the callbacks. It would keep requests and responses until
        the next full garbage collection.
        """
        self._done = self._failed = _already_settled
        self._waiter = None

    def expire(self) -> None:
        """Complete the operation as if its deadline had passed.

        An operation without a deadline (a rebalance) stays pending: it has no result before its
        time.
        """
        waiter = self._waiter
        if waiter is None or not waiter.pending or waiter.operation.deadline_ms is None:
            return
        waiter.cancel()
        try:
            response = waiter.operation.try_complete(True)
            while isinstance(response, DelayedOperation):
                response = response.try_complete(True)
        except Exception as error:
            self._failed(error)
        else:
            self._done(response)


StartRequest: TypeAlias = Callable[[memoryview, Connection], Chunks | DeferredResponse | None]
"""See `Dispatcher.start`."""


def _already_settled(result: Any) -> None:
    raise AssertionError("the response is complete or cancelled")

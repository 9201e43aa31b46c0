"""The input of one connection to another broker: received bytes become responses.

The first bytes of each response are received into a buffer that all connections share; what is
missing is received into the response's own memory. So of a large response only its start is
copied. A length is checked before anything is allocated for it, and takes memory only for bytes
that have arrived. Works without a socket.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable

from kqueue.base.settings import KiB, MiB
from kqueue.network.contract import BudgetWaiter
from kqueue.network.memory_budgets import RequestBudget
from kqueue.wire.frame import LENGTH_SIZE, frame_size

COUNTED_BYTES_MIN = 64 * KiB
"""A response of at least this size has memory of the system's that counts in the budget until its
last reference is gone. A smaller one is plain bytes.
"""
RECEIVE_BYTES_MAX = 1 * MiB
"""At most so much is received at once, so that other connections get their turn."""
_EMPTY = memoryview(b"")


class CountedBytes:
    """The bytes of one response that are counted in the budget."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = 0


Release = Callable[[BudgetWaiter, CountedBytes], None]


class ResponseBuffer:
    """Cuts received bytes into responses.

    Protocol: receive into `space`, call `added`, then `next_frame` until it returns None.

    Args:
        shared: receive buffer of all connections; nothing is in it between two calls of `added`.
        connection: resumed when `budget` has free memory again.
        release: called, in any thread, when a response's memory is freed, to release its bytes.
        response_bytes_max: limit on the length of a response.
    """

    __slots__ = ("_arrived", "_budget", "_budget_release", "_bytes_max", "_connection", "_counted", "_data", "_frame",
                 "_position", "_saved", "_shared")  # fmt: skip

    def __init__(
        self,
        shared: memoryview,
        budget: RequestBudget,
        connection: BudgetWaiter,
        release: Release,
        response_bytes_max: int,
    ) -> None:
        self._shared = shared
        self._budget = budget
        self._budget_release = release
        self._connection = connection
        self._counted: CountedBytes | None = None
        self._bytes_max = response_bytes_max
        self._saved = b""  # fewer bytes than a length has
        self._frame: memoryview | None = None  # one that has not arrived in full
        self._arrived = 0  # of it
        self._data = _EMPTY  # received, not yet cut
        self._position = 0

    @property
    def has_partial(self) -> bool:
        """Whether a part of a response has arrived."""
        return self._frame is not None or bool(self._saved)

    def may_read(self) -> bool:
        """Return whether there is memory to receive more; if not, the connection is resumed when
        there is.
        """
        return self._frame is None or self._budget.may_read(self._connection)

    def space(self) -> memoryview:
        """Return where to receive the next bytes; at least one byte long."""
        if self._frame is not None:
            return self._frame[self._arrived : self._arrived + RECEIVE_BYTES_MAX]
        saved = len(self._saved)
        self._shared[:saved] = self._saved
        return self._shared[saved:]

    def added(self, count: int) -> None:
        """Note that `count` bytes were received into `space`."""
        if self._frame is not None:
            self._count(count)
            self._data, self._position = _EMPTY, 0
        else:
            self._data, self._position = self._shared[: len(self._saved) + count], 0
            self._saved = b""

    def next_frame(self) -> memoryview | None:
        """Return the next whole response without its length; None: it has not arrived.

        Raises:
            MalformedMessage: a length below 0 or above the limit. The bytes after it have no
                meaning.
            OSError: the system has no memory for it.
        """
        if self._frame is None:
            self._cut()
        frame = self._frame
        if frame is None or self._arrived < len(frame):
            return None
        self._frame = self._counted = None
        return frame.toreadonly()

    def close(self) -> None:
        """Drop a response that has not arrived in full."""
        self._frame = self._counted = None
        self._data, self._position, self._saved = _EMPTY, 0, b""

    def _cut(self) -> None:
        data, position = self._data, self._position
        if len(data) - position < LENGTH_SIZE:
            self._saved = bytes(data[position:])
            self._data, self._position = _EMPTY, 0
            return
        size = frame_size(data, position, self._bytes_max)
        start = position + LENGTH_SIZE
        part = data[start : start + size]
        self._position = start + len(part)
        self._frame, self._arrived = self._allocated(size), 0
        self._frame[: len(part)] = part
        self._count(len(part))

    def _allocated(self, size: int) -> memoryview:
        self._counted = None
        if size < COUNTED_BYTES_MIN:
            return memoryview(bytearray(size))
        memory = mmap.mmap(-1, size)
        self._counted = counted = CountedBytes()
        weakref.finalize(memory, self._budget_release, self._connection, counted).atexit = False
        return memoryview(memory)

    def _count(self, count: int) -> None:
        self._arrived += count
        if self._counted is not None:
            self._counted.used += count
            self._budget.take(count)

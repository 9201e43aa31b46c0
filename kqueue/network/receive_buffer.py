"""The input of one connection: received bytes become frames. Works without a socket.

Protocol of one slice: `space`, receive into it, `added`, `next_frame` until None, `save`. A length
is checked before anything is allocated for it. Memory is used only for bytes that have arrived.
"""

from __future__ import annotations

import mmap
from typing import ClassVar, Final

from kqueue.base.errors import MalformedMessage
from kqueue.base.settings import KiB, MiB
from kqueue.network.contract import BudgetWaiter
from kqueue.network.memory_budgets import RequestBudget
from kqueue.wire.frame import LENGTH, LENGTH_SIZE, frame_size

RECEIVE_BYTES = 128 * KiB
"""Size of the one buffer into which all connections of a server receive, one after another."""
HELD_BYTES_MAX = 4 * KiB
"""The start of a request of at most this size is saved as plain bytes. A longer request gets a
buffer for all of it.
"""
_EMPTY: Final = memoryview(b"")


class BufferPool:
    """Buffers for single large requests, reused while requests are large.

    They are anonymous maps: a page that was never written takes no memory, so a false length costs
    nothing. At most `KEPT_BYTES_MAX` are kept for the next request.
    """

    KEPT_BYTES_MAX: ClassVar[int] = 16 * MiB

    def __init__(self) -> None:
        self._kept: dict[int, list[mmap.mmap]] = {}
        self.kept_bytes = 0

    def acquire(self, size: int) -> mmap.mmap:
        """Return a writable buffer of at least `size` bytes, with arbitrary content.

        Raises: OSError: the system refuses so much memory.
        """
        rounded = max(64 * KiB, 1 << (size - 1).bit_length()) if size <= 4 * MiB else -(-size // MiB) * MiB
        kept = self._kept.get(rounded)
        if kept:
            self.kept_bytes -= rounded
            return kept.pop()
        return mmap.mmap(-1, rounded)

    def release(self, buffer: mmap.mmap) -> None:
        """Return `buffer` to the pool; the caller uses it no more."""
        size = len(buffer)
        if self.kept_bytes + size <= self.KEPT_BYTES_MAX:
            self._kept.setdefault(size, []).append(buffer)
            self.kept_bytes += size

    def clear(self) -> None:
        """Keep no buffers; called while there are no connections."""
        self._kept.clear()
        self.kept_bytes = 0


class ReceiveBuffer:
    """Cuts received bytes into frames.

    Args:
        shared: the server's receive buffer.
        connection: resumed when `budget` has free memory again.
        request_bytes_max: limit on the length of a request; may be changed.
    """

    __slots__ = (
        "_arrived",
        "_budget",
        "_connection",
        "_end",
        "_large",
        "_pool",
        "_position",
        "_saved",
        "_shared",
        "_view",
        "request_bytes_max",
    )

    def __init__(
        self,
        shared: memoryview,
        pool: BufferPool,
        budget: RequestBudget,
        connection: BudgetWaiter,
        request_bytes_max: int,
    ) -> None:
        self._shared = shared
        self._pool = pool
        self._budget = budget
        self._connection = connection
        self.request_bytes_max = request_bytes_max
        self._saved = b""
        self._large: mmap.mmap | None = None
        self._view = _EMPTY  # of the large request: all of it
        self._arrived = 0  # of the large request
        self._position = self._end = 0  # in the shared buffer, during a slice

    @property
    def has_partial(self) -> bool:
        """Whether bytes of a request are saved."""
        return bool(self._saved) or self._large is not None

    @property
    def is_large(self) -> bool:
        """Whether a request with a buffer of its own, counted in the budget, is arriving."""
        return self._large is not None

    @property
    def counted_bytes(self) -> int:
        """Bytes that it holds of the budget."""
        saved = len(self._saved)
        return self._arrived + (saved if saved > HELD_BYTES_MAX else 0)

    @property
    def missing_bytes(self) -> int:
        """Bytes of a large request that have not arrived."""
        return len(self._view) - self._arrived if self._large is not None else 0

    def space(self) -> memoryview:
        """Return where to receive the next bytes; at least one byte long."""
        if self._large is not None:
            return self._view[self._arrived :]
        saved = len(self._saved)
        if not saved:
            return self._shared
        # All connections receive into one buffer, so what is left of this one is copied in front
        # first.
        self._shared[:saved] = self._saved
        return self._shared[saved:]

    def added(self, count: int) -> None:
        """Note that `count` bytes were received into `space`."""
        if self._large is not None:
            self._arrived += count
            self._budget.take(count)
        else:
            self._position, self._end = 0, len(self._saved) + count

    def restore(self) -> None:
        """Begin a slice with the saved bytes, without receiving: after a pause."""
        if self._large is None:
            self.space()
            self.added(0)
            self._save(b"")

    def next_frame(self) -> memoryview | None:
        """Return the next whole request without its length; None: it has not arrived.

        The frame may be written into, and is valid until the end of the slice.

        Raises: MalformedMessage: a length below 0 or above the limit. The bytes after it have no
            meaning.
        """
        if self._large is not None:
            if self._arrived < len(self._view):
                return None
            # An empty view: the request was handed out, and `save` gives its buffer back to the
            # pool.
            view, self._view = self._view, _EMPTY
            return view if len(view) else None
        start = self._position + LENGTH_SIZE
        if start > self._end:
            return None
        try:
            stop = start + frame_size(self._shared, self._position, self.request_bytes_max)
        except MalformedMessage as error:
            first_bytes = bytes(self._shared[self._position : start])
            raise MalformedMessage(f"{error}{_protocol_hint(first_bytes)}") from None
        if stop > self._end:
            return None
        self._position = stop
        return self._shared[start:stop]

    def put_back(self, frame: memoryview) -> None:
        """Have `next_frame` return `frame`, which it just returned, again: in this slice or a later
        one.
        """
        if self._large is not None:
            self._view = frame
        else:
            self._position -= LENGTH_SIZE + len(frame)

    def save(self) -> None:
        """End the slice: save the bytes after the last frame. Raises OSError: out of memory."""
        if self._large is not None:
            if not len(self._view):
                self._drop_large()
            return
        if self._position == self._end and not self._saved:  # mostly so
            return
        partial = self._shared[self._position : self._end]
        self._position = self._end = 0
        if len(partial) >= LENGTH_SIZE:
            (size,) = LENGTH.unpack_from(partial)
            # A request that is here whole was put back, and stays as it is: it needs no room for
            # more.
            if size > HELD_BYTES_MAX and LENGTH_SIZE + size > len(partial):
                self._save(b"")
                self._begin_large(partial[LENGTH_SIZE:], size)
                return
        self._save(bytes(partial))

    def close(self) -> None:
        """Drop all bytes, and release their memory."""
        self._save(b"")
        self._view = _EMPTY
        self._position = self._end = 0
        if self._large is not None:
            self._drop_large()

    def _save(self, data: bytes) -> None:
        """Save `data` for the next slice. More than the start of one small request is saved only
        during a pause, and counts in the budget.
        """
        counted = len(data) if len(data) > HELD_BYTES_MAX else 0
        counted_before = len(self._saved) if len(self._saved) > HELD_BYTES_MAX else 0
        self._saved = data
        # Taken before the former bytes are released: a release resumes others at once, and they
        # must not find memory free that this connection goes on using.
        if counted:
            self._budget.take(counted)
        if counted_before:
            self._budget.release_request(self._connection, counted_before)

    def _begin_large(self, start: memoryview, size: int) -> None:
        # Address space for all of it, memory only for what arrives: a length that is too large
        # costs a mapping.
        self._large = self._pool.acquire(size)
        self._view = memoryview(self._large)[:size]
        self._view[: len(start)] = start
        self._arrived = len(start)
        self._budget.take(len(start))

    def _drop_large(self) -> None:
        assert self._large is not None
        self._pool.release(self._large)
        self._large, self._view = None, _EMPTY
        arrived, self._arrived = self._arrived, 0
        self._budget.release_request(self._connection, arrived)


def _protocol_hint(first_bytes: bytes) -> str:
    """Return which other protocol these bytes begin; empty: unknown."""
    if first_bytes[:2] == b"\x16\x03":
        return ": it speaks TLS, this listener does not"
    if first_bytes in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"):
        return ": it speaks HTTP"
    return ""

"""Bytes become frames, without a socket: where the next bytes go, which requests are whole, and
what is kept of a cut one.

A turn is `room`, (receive), `add`, `next` until None, `keep`. Nothing is allocated for a length
before it was checked, and nothing but the room for what has arrived after it was.
"""

from __future__ import annotations

import mmap

from kqueue.base.errors import MalformedMessage
from kqueue.base.settings import KiB, MiB
from kqueue.network.connection_quotas import BudgetWaiter, RequestBudget
from kqueue.wire.frame import LENGTH, LENGTH_SIZE, frame_size

RECEIVE_BYTES = 128 * KiB
"""Size of the one buffer that all connections of a server receive into, one after another."""
HELD_BYTES_MAX = 4 * KiB
"""The start of a request that is at most so long waits as plain bytes; a longer one gets a buffer
for the whole of it.
"""
_EMPTY = memoryview(b"")


class BufferPool:
    """BufferPool for single large requests, used again while there is a demand.

    They are anonymous maps: a page that nothing was written to takes no memory, so a length that
    lies costs nothing. At most `KEPT_BYTES_MAX` are kept for the next request.
    """

    KEPT_BYTES_MAX = 16 * MiB

    def __init__(self) -> None:
        self._kept: dict[int, list[mmap.mmap]] = {}
        self.kept_bytes = 0

    def take(self, size: int) -> mmap.mmap:
        """A writable buffer of at least `size` bytes, whose content is anything. Raises OSError:
        the system refuses so much.
        """
        rounded = max(64 * KiB, 1 << (size - 1).bit_length()) if size <= 4 * MiB else -(-size // MiB) * MiB
        kept = self._kept.get(rounded)
        if kept:
            self.kept_bytes -= rounded
            return kept.pop()
        return mmap.mmap(-1, rounded)

    def give_back(self, buffer: mmap.mmap) -> None:
        """No one uses `buffer` any more."""
        size = len(buffer)
        if self.kept_bytes + size <= self.KEPT_BYTES_MAX:
            self._kept.setdefault(size, []).append(buffer)
            self.kept_bytes += size

    def forget(self) -> None:
        """Keep none; called when it has been quiet."""
        self._kept.clear()
        self.kept_bytes = 0


class ReceiveBuffer:
    """The input of one connection. `shared` is the server's receive buffer, `who` is resumed when
    the budget has room again.
    """

    __slots__ = (
        "_arrived",
        "_at",
        "_budget",
        "_buffers",
        "_end",
        "_held",
        "_large",
        "_limit",
        "_shared",
        "_view",
        "_who",
    )

    def __init__(
        self, shared: memoryview, buffers: BufferPool, budget: RequestBudget, who: BudgetWaiter, request_bytes_max: int
    ) -> None:
        self._shared = shared
        self._buffers = buffers
        self._budget = budget
        self._who = who
        self._limit = request_bytes_max
        self._held = b""
        self._large: mmap.mmap | None = None
        self._view = _EMPTY  # of the large request: all of it
        self._arrived = 0  # of the large request
        self._at = self._end = 0  # in the shared buffer, during a turn

    @property
    def in_request(self) -> bool:
        """Whether a part of a request has come and the rest has not."""
        return bool(self._held) or self._large is not None

    @property
    def is_large(self) -> bool:
        """Whether it is a request with a buffer of its own, counted in the budget."""
        return self._large is not None

    @property
    def counted_bytes(self) -> int:
        """Bytes that it holds of the budget."""
        held = len(self._held)
        return self._arrived + (held if held > HELD_BYTES_MAX else 0)

    @property
    def missing_bytes(self) -> int:
        """What is still to come of a large request."""
        return len(self._view) - self._arrived if self._large is not None else 0

    def room(self) -> memoryview:
        """Where the next bytes are to be received; at least one byte long."""
        if self._large is not None:
            return self._view[self._arrived :]
        held = len(self._held)
        if not held:
            return self._shared
        self._shared[:held] = self._held
        return self._shared[held:]

    def add(self, count: int) -> None:
        """`count` bytes have been received into `room`."""
        if self._large is not None:
            self._arrived += count
            self._budget.take(count)
        else:
            self._at, self._end = 0, len(self._held) + count

    def again(self) -> None:
        """Begin a turn with what was kept, after a pause, and without receiving anything."""
        if self._large is None:
            self.room()
            self.add(0)
            self._hold(b"")

    def next(self) -> memoryview | None:
        """The next whole request, without its length; it may be written into, and is gone after the
        turn.

        Raises: MalformedMessage: a length below 0 or above the limit; nothing after it can be
        understood.
        """
        if self._large is not None:
            if self._arrived < len(self._view):
                return None
            view, self._view = self._view, _EMPTY
            return view if len(view) else None
        start = self._at + LENGTH_SIZE
        if start > self._end:
            return None
        stop = start + self._size_at(self._at)
        if stop > self._end:
            return None
        self._at = stop
        return self._shared[start:stop]

    def put_back(self, request: memoryview) -> None:
        """Return the request that `next` just gave; it is the next one again, in this turn or a
        later one.
        """
        if self._large is not None:
            self._view = request
        else:
            self._at -= LENGTH_SIZE + len(request)

    def keep(self) -> None:
        """End the turn: put away what came of the next requests. Raises OSError: the system has no
        memory for it.
        """
        if self._large is not None:
            if not len(self._view):
                self._drop_large()
            return
        rest = self._shared[self._at : self._end]
        self._at = self._end = 0
        if len(rest) >= LENGTH_SIZE:
            (size,) = LENGTH.unpack_from(rest)
            if size > HELD_BYTES_MAX and LENGTH_SIZE + size > len(rest):
                self._hold(b"")
                self._begin_large(rest[LENGTH_SIZE:], size)
                return
        self._hold(bytes(rest))

    def close(self) -> None:
        """Forget everything."""
        self._hold(b"")
        self._view = _EMPTY
        self._at = self._end = 0
        if self._large is not None:
            self._drop_large()

    def _hold(self, data: bytes) -> None:
        """Keep `data` for the next turn. More than the start of one small request is there only in
        a pause, and counts.
        """
        counted = len(data) if len(data) > HELD_BYTES_MAX else 0
        before = len(self._held) if len(self._held) > HELD_BYTES_MAX else 0
        self._held = data
        if counted:
            self._budget.take(counted)
        if before:
            self._budget.give_back(self._who, before)

    def _size_at(self, position: int) -> int:
        try:
            return frame_size(self._shared, position, self._limit)
        except MalformedMessage as error:
            raise MalformedMessage(f"{error}{_guess(bytes(self._shared[position : position + LENGTH_SIZE]))}") from None

    def _begin_large(self, start: memoryview, size: int) -> None:
        self._large = self._buffers.take(size)
        self._view = memoryview(self._large)[:size]
        self._view[: len(start)] = start
        self._arrived = len(start)
        self._budget.take(len(start))

    def _drop_large(self) -> None:
        assert self._large is not None
        self._buffers.give_back(self._large)
        self._large, self._view = None, _EMPTY
        arrived, self._arrived = self._arrived, 0
        self._budget.give_back(self._who, arrived)


def _guess(found: bytes) -> str:
    """What speaks to us, where its first bytes tell."""
    if found[:2] == b"\x16\x03":
        return ": it speaks TLS, this listener does not"
    if found in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"):
        return ": it speaks HTTP"
    return ""

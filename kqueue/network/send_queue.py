"""The output of one connection: responses in order, small ones joined into one send, regions of log
files sent straight from the file.

Nothing here blocks. The loop calls back when a full socket has room again. Pages that are not in
memory are read by a job, after which sending continues. Everything runs on the thread of the loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import StorageFailed
from kqueue.base.histogram import Histogram
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.settings import KiB, MiB
from kqueue.network.contract import StreamSocket
from kqueue.network.region_sender import RegionSender, fail_short_file
from kqueue.schema import Chunk
from kqueue.storage.contract import Region

JOIN_BYTES_MAX = 256 * KiB
"""Chunks are joined into sends of at most this size. A larger chunk is sent without copying."""
READ_BYTES_MAX = 16 * KiB
"""A smaller region is read and joined to its neighbours, which costs less than a sendfile for each.
"""
MEMORY: Final = (bytes, bytearray, memoryview)
REGIONS_MAX: Final = 128
"""A connection with so many unsent regions begins no request: each may hold a descriptor."""
SLICE_BYTES_MAX: Final = 4 * MiB
"""After so many bytes other connections are served, however fast this client reads."""


class SendQueue:
    """Sends chunks in order. `flush` begins; callbacks of the loop continue.

    Args:
        failed: called once with the reason when nothing can be sent any more.
        drained: called when a call of the loop or the end of a job has emptied the queue; not when
            `flush`, `retry` or `resume` did.

    Attributes:
        waiting_regions: how many regions are not begun; each may hold a descriptor.
        queued_bytes: memory held for the client.
        sent_bytes: only grows, so that progress can be measured.
        blocked: how long responses waited for room in a full socket, or for their turn after 4 MiB;
            None: it is not measured.
    """

    __slots__ = (
        "_blocked_s",
        "_chunks",
        "_current",
        "_drained",
        "_failed",
        "_jobs",
        "_loop",
        "_reading_ahead",
        "_registered",
        "_socket",
        "_suspended",
        "blocked",
        "closed",
        "queued_bytes",
        "sent_bytes",
        "waiting_regions",
    )

    def __init__(
        self,
        sock: StreamSocket,
        loop: asyncio.AbstractEventLoop,
        jobs: Jobs,
        *,
        failed: Callable[[str], None],
        drained: Callable[[], None],
    ) -> None:
        self._socket = sock
        self._loop = loop
        self._jobs = jobs
        self._failed = failed
        self._drained = drained
        self._chunks: deque[Chunk] = deque()
        self._current: memoryview | RegionSender | None = None
        self.waiting_regions = 0
        self._reading_ahead = False
        self._registered = False
        self._suspended = False
        self.closed = False
        self.queued_bytes = 0
        self.sent_bytes = 0
        self.blocked: Histogram | None = None
        self._blocked_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether everything was sent."""
        return self._current is None and not self._chunks

    @property
    def held_regions(self) -> int:
        """Number of regions that are not sent; each may hold a descriptor."""
        return self.waiting_regions + isinstance(self._current, RegionSender)

    @property
    def waits_for_client(self) -> bool:
        """Whether the socket is full: the client does not read."""
        return self._registered

    def add(self, chunks: Sequence[Chunk]) -> None:
        """Queue one response, sent by the next `flush`. The chunks must not change afterwards."""
        self._chunks.extend(chunks)
        for chunk in chunks:
            if isinstance(chunk, MEMORY):
                self.queued_bytes += len(chunk)
            else:
                self.waiting_regions += 1

    def flush(self) -> None:
        """Send as much as the socket accepts now; callbacks of the loop send the remainder."""
        has_unsent = self._chunks or self._current is not None
        # Each of these sends when it ends (the loop's call, the read, `resume`), or never will.
        is_waiting = self._registered or self._reading_ahead or self._suspended or self.closed
        if has_unsent and not is_waiting:
            self._send_some()

    def retry(self) -> None:
        """Send although the loop did not call back: it does so only when much of the socket's
        buffer is free.
        """
        if self._registered and not self.closed:
            self._send_some()

    def suspend(self) -> None:
        """Send nothing until `resume`."""
        self._suspended = True
        self._watch_socket(False)

    def resume(self) -> None:
        """Send again after `suspend`."""
        self._suspended = False
        self.flush()

    def close(self) -> None:
        """Drop what is not sent. The owner closes the socket, after this."""
        self.closed = True
        self._chunks.clear()
        self.waiting_regions = 0
        self._current = None
        self.queued_bytes = 0
        self._watch_socket(False)

    def _send_on(self) -> None:
        """Send what can be sent now; `drained` if that was all."""
        self._send_some()
        if self.is_empty and not self.closed:
            self._drained()

    def _send_some(self) -> None:
        remaining = SLICE_BYTES_MAX
        try:
            while remaining > 0:
                if self._current is None:
                    if not self._chunks:
                        if self._registered:
                            self._watch_socket(False)
                        return
                    self._load_next()
                    continue
                sent = self._send_memory() if isinstance(self._current, memoryview) else self._send_region()
                if not sent:
                    break
                self.sent_bytes += sent
                remaining -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._failed(error.strerror or str(error))
            return
        except StorageFailed as error:
            self._failed(str(error))
            return
        # Also where the slice is used up and the socket has room: the loop calls back once it has
        # served the others. While a job reads ahead, its end continues.
        self._watch_socket(not self._reading_ahead)

    # --- one step

    def _load_next(self) -> None:
        """Make the next chunks current, small ones joined; none where all of them are empty."""
        chunks = self._chunks
        if not self.waiting_regions and 0 < self.queued_bytes <= JOIN_BYTES_MAX:
            # mostly so: all of them are in memory
            self._current = memoryview(b"".join(chunks))  # type: ignore[arg-type]
            chunks.clear()
            return
        joined: list[bytes | bytearray | memoryview] = []
        size = 0
        while chunks:
            chunk = chunks[0]
            chunk_size = len(chunk)
            if size + chunk_size > JOIN_BYTES_MAX:
                break
            if not isinstance(chunk, MEMORY):
                assert isinstance(chunk, Region)
                # Reading a page that is not in memory would hold up the loop. Such a region is left
                # to `_send_region`, which has a job read it first.
                data: bytes | bytearray | None = b""
                if chunk_size:
                    data = chunk.read_cached() if chunk_size <= READ_BYTES_MAX else None
                if data is None:
                    break
                if len(data) < chunk_size:
                    fail_short_file()
                self.waiting_regions -= 1
                self.queued_bytes += chunk_size
                chunk = data
            joined.append(chunk)
            size += chunk_size
            chunks.popleft()
        if size:
            self._current = memoryview(joined[0] if len(joined) == 1 else b"".join(joined))
        elif chunks:
            self._load_large(chunks.popleft())

    def _load_large(self, chunk: Chunk) -> None:
        if isinstance(chunk, MEMORY):
            self._current = memoryview(chunk)
        else:
            assert isinstance(chunk, Region)
            self.waiting_regions -= 1
            # TLS encrypts in this process, so its bytes have to come through memory.
            self._current = RegionSender(chunk, by_sendfile=isinstance(self._socket, socket.socket))

    def _send_memory(self) -> int:
        """Send once; returns 0 when the socket is full."""
        memory = self._current
        assert isinstance(memory, memoryview)
        sent = self._socket.send(memory)
        self.queued_bytes -= sent
        if sent == len(memory):
            self._current = None
            return sent
        # A short send means that the socket is full. 0 ends the pass without another send, which
        # would fail with EAGAIN.
        self._current = memory[sent:]
        # Counted here, as the caller counts what is returned, which is 0.
        self.sent_bytes += sent
        return 0

    def _send_region(self) -> int:
        """Send once; returns 0 when pages must be read first."""
        region = self._current
        assert isinstance(region, RegionSender)
        uncached = region.uncached_step()
        if uncached is not None:
            self._read_ahead(uncached)
            return 0
        sent = region.send(self._socket)
        if not region.remaining_bytes:
            self._current = None
        return sent

    # --- waiting

    def _watch_socket(self, watch: bool) -> None:
        if watch == self._registered:
            return
        self._registered = watch
        if self.blocked is not None:
            if watch:
                self._blocked_s = monotonic_s()
            elif not self.closed:
                self.blocked.observe(monotonic_s() - self._blocked_s)
        if watch:
            self._loop.add_writer(self._socket, self._send_on)
        else:
            self._loop.remove_writer(self._socket)

    def _read_ahead(self, uncached: Region) -> None:
        self._reading_ahead = True
        self._jobs.submit(IoJob("read ahead for a client", uncached.read, self._have_read, uncached.location))

    def _have_read(self, data: bytes | None, error: BaseException | None) -> None:
        self._reading_ahead = False
        # `resume` sends when the simulated partition ends; an error closes the connection even
        # then.
        if self.closed or (self._suspended and error is None):
            return
        if error is not None:
            self._failed(f"reading the log for it failed: {error}")
            return
        self._send_on()


def memory_bytes(chunks: Sequence[Chunk]) -> int:
    """Return the bytes of memory that these chunks hold; regions of files hold none."""
    return sum([len(chunk) for chunk in chunks if isinstance(chunk, MEMORY)])

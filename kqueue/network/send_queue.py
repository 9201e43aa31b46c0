"""The output of one connection: answers in order, small ones joined into one send, log files
straight to the socket.

Nothing here blocks. A socket that is full calls back when it has room; pages that are not in memory
are read by a job, and the pump goes on when they are. Everything runs on the thread of the loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence

from kqueue.base.errors import StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.settings import KiB, MiB
from kqueue.network.region_sender import RegionSender, cut_short
from kqueue.schema import Chunk
from kqueue.storage.contract import Region

JOIN_BYTES_MAX = 256 * KiB
"""So much is joined into one send; what is larger is sent from where it lies."""
READ_BYTES_MAX = 16 * KiB
"""A smaller region is read and joined to its neighbours: one call for all costs less than one
sendfile for each.
"""
MEMORY = (bytes, bytearray, memoryview)
REGIONS_MAX = 128
"""A connection with so many parts of log files unsent begins no request: each may hold a
descriptor.
"""
TURN_BYTES_MAX = 4 * MiB
"""After so much the other connections have their turn, however fast this client reads."""


class SendQueue:
    """Sends what `push` was given, in order; `flush` begins, and callbacks of the loop go on with
    it.

    `failed(reason)` is called once when nothing can be sent any more, `drained()` each time
    everything has been. `queued_bytes` counts what is held in memory for the client; `sent_bytes`
    only grows, so that progress can be seen.
    """

    __slots__ = (
        "_chunks",
        "_current",
        "_drained",
        "_failed",
        "_held",
        "_jobs",
        "_loop",
        "_reading_ahead",
        "_regions",
        "_registered",
        "_socket",
        "closed",
        "queued_bytes",
        "sent_bytes",
    )

    def __init__(
        self,
        sock: socket.socket,
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
        self._regions = 0
        self._reading_ahead = False
        self._registered = False
        self._held = False
        self.closed = False
        self.queued_bytes = 0
        self.sent_bytes = 0

    @property
    def idle(self) -> bool:
        """Whether everything has been sent."""
        return self._current is None and not self._chunks

    @property
    def backlogged(self) -> bool:
        """Whether so many parts of log files wait that no more requests should be answered."""
        return self._regions >= REGIONS_MAX

    @property
    def held_regions(self) -> int:
        """Parts of log files that are not sent yet; each may hold a descriptor."""
        return self._regions + isinstance(self._current, RegionSender)

    @property
    def waits_for_room(self) -> bool:
        """Whether it is the client's turn: its socket is full."""
        return self._registered

    def push(self, chunks: Sequence[Chunk]) -> None:
        """Take one answer; it goes out with the next `flush`. The chunks must not change any more."""
        self._chunks.extend(chunks)
        sizes = [len(chunk) for chunk in chunks if isinstance(chunk, MEMORY)]
        self.queued_bytes += sum(sizes)
        self._regions += len(chunks) - len(sizes)

    def flush(self) -> None:
        """Send as much as the socket takes now; the rest follows by itself."""
        if (self._chunks or self._current is not None) and not (
            self._registered or self._reading_ahead or self._held or self.closed
        ):
            self._go_on()

    def try_again(self) -> None:
        """Send even though the socket did not call back: it does that only when a good part of it
        is free.
        """
        if self._registered and not self.closed:
            self._go_on()

    def hold(self) -> None:
        """Send nothing before `let_go`."""
        self._held = True
        self._wait_for_room(False)

    def let_go(self) -> None:
        """Go on after `hold`."""
        self._held = False
        self.flush()

    def close(self) -> None:
        """Drop what is not sent; the socket itself is its owner's to close, after this."""
        self.closed = True
        self._chunks.clear()
        self._regions = 0
        self._current = None
        self.queued_bytes = 0
        self._wait_for_room(False)

    def _go_on(self) -> None:
        turn = TURN_BYTES_MAX
        try:
            while turn > 0:
                if self._current is None:
                    if not self._chunks:
                        self._wait_for_room(False)
                        self._drained()
                        return
                    self._take()
                    continue
                sent = self._send_memory() if isinstance(self._current, memoryview) else self._send_region()
                if not sent:
                    break
                self.sent_bytes += sent
                turn -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._failed(error.strerror or str(error))
            return
        except StorageFailed as error:
            self._failed(str(error))
            return
        self._wait_for_room(not self._reading_ahead)

    # --- one step

    def _take(self) -> None:
        """Make the next chunks current, small ones joined; none, if all that was left was empty."""
        joined: list[bytes | bytearray | memoryview] = []
        size = 0
        chunks = self._chunks
        while chunks and size + len(chunks[0]) <= JOIN_BYTES_MAX:
            chunk = chunks[0]
            if not isinstance(chunk, MEMORY):
                assert isinstance(chunk, Region)
                if len(chunk) > READ_BYTES_MAX or (len(chunk) and not chunk.is_cached()):
                    break
                self._regions -= 1
                chunk = self._read_small(chunk) if len(chunk) else b""
            joined.append(chunk)
            size += len(chunk)
            chunks.popleft()
        if size:
            self._current = memoryview(joined[0] if len(joined) == 1 else b"".join(joined))
        elif chunks:
            self._take_large(chunks.popleft())

    def _take_large(self, chunk: Chunk) -> None:
        if isinstance(chunk, MEMORY):
            self._current = memoryview(chunk)
        else:
            assert isinstance(chunk, Region)
            self._regions -= 1
            self._current = RegionSender(chunk)

    def _read_small(self, region: Region) -> bytes:
        data = region.read()
        if len(data) < len(region):
            cut_short()
        self.queued_bytes += len(data)
        return data

    def _send_memory(self) -> int:
        """Send once; returns 0 when the socket is full."""
        memory = self._current
        assert isinstance(memory, memoryview)
        sent = self._socket.send(memory)
        self.queued_bytes -= sent
        if sent == len(memory):
            self._current = None
            return sent
        self._current = memory[sent:]
        self.sent_bytes += sent
        return 0

    def _send_region(self) -> int:
        """Send once; returns 0 when pages must be read first."""
        region = self._current
        assert isinstance(region, RegionSender)
        cold = region.cold_step()
        if cold is not None:
            self._read_ahead(cold)
            return 0
        sent = region.send(self._socket)
        if not region.left:
            self._current = None
        return sent

    # --- waiting

    def _wait_for_room(self, wanted: bool) -> None:
        if wanted == self._registered:
            return
        self._registered = wanted
        if wanted:
            self._loop.add_writer(self._socket, self._go_on)
        else:
            self._loop.remove_writer(self._socket)

    def _read_ahead(self, cold: Region) -> None:
        self._reading_ahead = True
        self._jobs.submit(IoJob("read ahead for a client", cold.read, self._have_read, cold.location))

    def _have_read(self, data: bytes | None, error: BaseException | None) -> None:
        self._reading_ahead = False
        if self.closed or (self._held and error is None):
            return
        if error is not None:
            self._failed(f"reading the log for it failed: {error}")
            return
        self._go_on()


def memory_bytes(chunks: Sequence[Chunk]) -> int:
    """Bytes of memory that these chunks hold; what lies in files holds none."""
    return sum([len(chunk) for chunk in chunks if isinstance(chunk, MEMORY)])

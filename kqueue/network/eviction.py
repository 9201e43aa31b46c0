"""The choice of connections to close when memory is short: those that hold theirs longest.

What counts is the transfer rate, not a sign of life. A client that transfers a few bytes now and
then is closed like one that transfers none.
"""

from __future__ import annotations

import math
import select
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from kqueue.network.contract import MemoryHolding, StreamSocket

SAMPLE_MS = 1000
SAMPLES_MIN = 2
"""A rate is known after so many samples. A younger connection is not closed for being slow."""
T = TypeVar("T")


class ThroughputMeter:
    """Transfer rate over the last seconds, from samples of a total of bytes."""

    __slots__ = ("_samples", "_total", "_total_ms", "bytes_per_s")

    def __init__(self, total: int, now_ms: float) -> None:
        self._total, self._total_ms = total, now_ms
        self._samples = 0
        self.bytes_per_s = 0.0

    def sample(self, total: int, now_ms: float) -> None:
        """Add a sample; ignored within a second of the last one.

        A total that shrank is no transfer: TLS records count less once they are decrypted.
        """
        elapsed_ms = now_ms - self._total_ms
        if elapsed_ms < SAMPLE_MS:
            return
        rate = max(0, total - self._total) * 1000 / elapsed_ms
        self.bytes_per_s = (self.bytes_per_s + rate) / 2 if self._samples else rate
        self._total, self._total_ms = total, now_ms
        self._samples += 1

    def holding(self, held_bytes: int, remaining_bytes: int) -> MemoryHolding | None:
        """Return how long `held_bytes` stay held at this rate; None: too few samples."""
        if self._samples < SAMPLES_MIN:
            return None
        remaining_s = remaining_bytes / self.bytes_per_s if self.bytes_per_s > 0 else math.inf
        return MemoryHolding(held_bytes, remaining_bytes, self.bytes_per_s, remaining_s)


def sampled(meter: ThroughputMeter | None, total: int, now_ms: float) -> ThroughputMeter:
    """Return `meter` with one more sample; None: a new meter that begins at `total`."""
    if meter is None:
        return ThroughputMeter(total, now_ms)
    meter.sample(total, now_ms)
    return meter


def select_slowest(
    connections: Iterable[T], holding_of: Callable[[T], MemoryHolding | None], excess_bytes: int, remaining_max_s: float
) -> list[tuple[T, MemoryHolding]]:
    """Return the connections to close so that `excess_bytes` become free, slowest first.

    A connection that is done within `remaining_max_s` seconds is never selected.
    """
    slow = [
        (connection, holding)
        for connection in connections
        if (holding := holding_of(connection)) is not None
        and holding.remaining_s > remaining_max_s
        and holding.held_bytes > 0
    ]
    slow.sort(key=lambda entry: (entry[1].remaining_s, entry[1].held_bytes), reverse=True)
    selected = []
    for connection, holding in slow:
        if excess_bytes <= 0:
            break
        excess_bytes -= holding.held_bytes
        selected.append((connection, holding))
    return selected


def unread_bytes(sock: StreamSocket) -> int:
    """Return how many bytes wait in the socket's receive buffer; 0 where the system can't tell."""
    try:
        import fcntl
        import termios

        count = fcntl.ioctl(sock, termios.FIONREAD, b"\0\0\0\0")
    except (ImportError, OSError):
        return 0
    return int.from_bytes(count, sys.byteorder)


def peer_has_closed(sock: StreamSocket) -> bool:
    """Return whether the peer has closed its side, without reading; False where the system can't
    tell.
    """
    if not hasattr(select, "POLLRDHUP"):
        return False
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))

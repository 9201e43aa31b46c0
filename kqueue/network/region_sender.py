"""Sends a region of a log file to a socket: by sendfile where possible, else by read and send."""

from __future__ import annotations

import errno
import os
from typing import NoReturn

from kqueue.base.settings import KiB, MiB
from kqueue.network.contract import StreamSocket
from kqueue.storage.contract import Region

STEP_BYTES = MiB
"""Cached pages are checked, and missing ones read ahead, in steps of this size."""
READ_BYTES = 256 * KiB
"""Without sendfile, so much is read at a time."""
_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTSOCK})


class RegionSender:
    """Sends one region from start to end, in as many calls of `send` as the socket needs.

    Args:
        by_sendfile: False: the socket encrypts what it is given.
    """

    __slots__ = ("_by_sendfile", "_checked_end", "_data", "_descriptor", "_end", "_position", "_source")

    def __init__(self, region: Region, *, by_sendfile: bool = True) -> None:
        self._source = region.source
        self._position = region.position
        self._end = region.position + region.size
        self._checked_end = region.position
        self._descriptor = region.fileno() if by_sendfile and hasattr(os, "sendfile") else None
        self._data = memoryview(b"")
        self._by_sendfile = by_sendfile

    @property
    def remaining_bytes(self) -> int:
        """Bytes that are not sent."""
        return self._end - self._position

    def uncached_step(self) -> Region | None:
        """Return the next step if its pages are not in the page cache, where sending would block
        the loop; None: send it. Each step is reported once.
        """
        if self._position < self._checked_end:
            return None
        step = Region(self._source, self._position, min(STEP_BYTES, self.remaining_bytes))
        self._checked_end += step.size
        return None if step.is_cached() else step

    def send(self, sock: StreamSocket) -> int:
        """Send what the socket accepts of the checked step; returns the bytes sent, at least one.

        Raises:
            BlockingIOError: the socket is full.
            OSError: the socket or the disk failed, or the file is shorter than the region.
            StorageFailed: the disk failed.
        """
        sent = self._send_file(sock) if self._descriptor is not None else self._send_data(sock)
        self._position += sent
        return sent

    def _send_file(self, sock: StreamSocket) -> int:
        assert self._descriptor is not None
        try:
            sent = os.sendfile(sock.fileno(), self._descriptor, self._position, self._checked_end - self._position)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            self._descriptor = None  # not supported by this file system; reading always works
            return self._send_data(sock)
        return sent or fail_short_file()

    def _send_data(self, sock: StreamSocket) -> int:
        if not self._data:
            size = min(READ_BYTES, self.remaining_bytes)
            self._data = memoryview(self._source.read_at(self._position, size) or fail_short_file())
        try:
            sent = sock.send(self._data)
        except BlockingIOError:
            if not self._by_sendfile:  # every slow client would hold so much
                self._data = memoryview(b"")
            raise
        self._data = self._data[sent:]
        return sent


def fail_short_file() -> NoReturn:
    """Raise OSError: the file ends before the region does. The response's length was sent already,
    so its connection must be closed.
    """
    raise OSError(errno.EIO, "the log file is shorter than the length that was sent for it")

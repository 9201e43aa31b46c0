"""Parts of log files on their way to a socket: by sendfile where there is a descriptor, else read
and sent.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import NoReturn

from kqueue.base.settings import KiB, MiB
from kqueue.storage.contract import Region

STEP_BYTES = MiB
"""Pages are looked for, and read ahead, in steps of this size."""
PIECE_BYTES = 256 * KiB
"""Where there is no sendfile, so much is read at a time."""
_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTSOCK})


class RegionSender:
    """One region, sent from its start to its end in as many calls of `send` as the socket needs."""

    __slots__ = ("_descriptor", "_end", "_piece", "_position", "_source", "_warm_end")

    def __init__(self, region: Region) -> None:
        self._source = region.source
        self._position = region.position
        self._end = region.position + region.size
        self._warm_end = region.position
        self._descriptor = region.fileno() if hasattr(os, "sendfile") else None
        self._piece = memoryview(b"")

    @property
    def left(self) -> int:
        """Bytes that are still to be sent."""
        return self._end - self._position

    def cold_step(self) -> Region | None:
        """The next step, if its pages are not in memory and so sending it would stall; asked once
        for each step.
        """
        if self._position < self._warm_end:
            return None
        step = Region(self._source, self._position, min(STEP_BYTES, self.left))
        self._warm_end += step.size
        return None if step.is_cached() else step

    def send(self, sock: socket.socket) -> int:
        """Send what the socket takes of the step that `cold_step` looked at, at least one byte;
        returns how many.

        Raises: BlockingIOError: the socket is full. OSError: the socket or the disk failed, or the
        file is shorter than the region. StorageFailed: the disk failed.
        """
        sent = self._send_file(sock) if self._descriptor is not None else self._send_piece(sock)
        self._position += sent
        return sent

    def _send_file(self, sock: socket.socket) -> int:
        assert self._descriptor is not None
        try:
            sent = os.sendfile(sock.fileno(), self._descriptor, self._position, self._warm_end - self._position)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            self._descriptor = None  # this file system can't; reading always works
            return self._send_piece(sock)
        return sent or cut_short()

    def _send_piece(self, sock: socket.socket) -> int:
        if not self._piece:
            self._piece = memoryview(self._source.read_at(self._position, min(PIECE_BYTES, self.left)) or cut_short())
        sent = sock.send(self._piece)
        self._piece = self._piece[sent:]
        return sent


def cut_short() -> NoReturn:
    """The file gives fewer bytes than the client was told to expect: its connection can't go on."""
    raise OSError(errno.EIO, "the log file is shorter than what was promised of it")

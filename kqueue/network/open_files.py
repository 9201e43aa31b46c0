"""What a server does when the files of its logs are too many: it closes the connections that hold
most of them open.

An unsent part of a log file (a region) holds a descriptor until it is sent. Clients that do not
read their answers could so take the descriptors that appends and other readers need; see
`kqueue.storage.descriptor_cache`.
"""

from __future__ import annotations

import asyncio
import contextlib

from kqueue.network.connections import ConnectionRegistry
from kqueue.network.session import Session
from kqueue.storage.descriptor_cache import PROCESS, OpenFiles

REST_S = 0.05
"""Connections are looked at no more often than this."""
READING_BYTES_MIN = 64 * 1024
"""A client that took so much since the last sweep reads its answers; it is closed after those that
do not.
"""


class OpenFilesGuard:
    """Counts the connections of `hub` against the open files, and closes some when files are
    scarce; `start` and `stop` once each.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, hub: ConnectionRegistry, open_files: OpenFiles = PROCESS
    ) -> None:
        self._loop = loop
        self._hub = hub
        self._open_files = open_files
        self._due = False
        self._rest: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._open_files.claims.append(self._connections)
        self._open_files.on_scarce.append(self._scarce)

    def stop(self) -> None:
        self._open_files.claims.remove(self._connections)
        self._open_files.on_scarce.remove(self._scarce)
        if self._rest is not None:
            self._rest.cancel()

    def _connections(self) -> int:
        return len(self._hub.sessions)

    def _scarce(self) -> None:
        """From any thread, and in the middle of a request: connections are closed after it."""
        if not self._due:
            self._due = True
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._relieve)

    def _relieve(self) -> None:
        self._rest = self._loop.call_later(REST_S, self._look_again)
        open_files = self._open_files
        for session in self._holders():
            bound = open_files.bound
            if len(open_files.live) < bound // 2:
                return
            session.cut_off(
                f"{session.held_regions} parts of log files wait for it to read them, while {len(open_files.live)} files of logs are "
                f"open and {bound} may be (raise the limit on open files)"
            )

    def _look_again(self) -> None:
        self._due = False

    def _holders(self) -> list[Session]:
        """Connections that hold regions back: first those that do not read, of these first those
        with the most.
        """
        holding = [session for session in self._hub.sessions if session.held_regions]
        return sorted(
            holding, key=lambda session: (session.taken_since_sweep >= READING_BYTES_MIN, -session.held_regions)
        )

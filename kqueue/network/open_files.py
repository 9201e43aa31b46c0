"""Closes connections when too many log files are open.

An unsent region of a log file holds a descriptor until it is sent. So clients that do not read
their responses could use up the descriptors that appends and other readers need; see
`kqueue.storage.descriptor_cache`.
"""

from __future__ import annotations

import asyncio
import contextlib

from kqueue.network.connections import ConnectionRegistry
from kqueue.network.contract import ManagedConnection
from kqueue.storage.descriptor_cache import PROCESS, OpenFiles

INTERVAL_S = 0.05
"""Connections are checked at most this often."""
READING_BYTES_MIN = 64 * 1024
"""A client that received so much since the last sweep reads its responses. It is closed after those
that do not.
"""


class OpenFilesGuard:
    """Counts connections against the open files, and closes some when files are scarce.

    `start` and `stop` are called once each.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, registry: ConnectionRegistry, open_files: OpenFiles = PROCESS
    ) -> None:
        self._loop = loop
        self._registry = registry
        self._open_files = open_files
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Watch the open files of this process."""
        self._open_files.claims.append(self._connection_count)
        self._open_files.on_scarce.append(self._on_scarce)

    def stop(self) -> None:
        """Watch them no more."""
        self._open_files.claims.remove(self._connection_count)
        self._open_files.on_scarce.remove(self._on_scarce)
        if self._timer is not None:
            self._timer.cancel()

    def _connection_count(self) -> int:
        return len(self._registry.sessions)

    def _on_scarce(self) -> None:
        """Schedule the check. Called from any thread, also in the middle of a request."""
        if not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._close_some)

    def _close_some(self) -> None:
        self._timer = self._loop.call_later(INTERVAL_S, self._allow_next)
        open_files = self._open_files
        for session in self._holders():
            bound = open_files.bound
            if len(open_files.live) < bound // 2:
                return
            session.cut_off(
                f"{session.held_regions} parts of log files wait for it to read them, while "
                f"{len(open_files.live)} files of logs are "
                f"open and {bound} may be (raise the limit on open files)"
            )

    def _allow_next(self) -> None:
        self._scheduled = False

    def _holders(self) -> list[ManagedConnection]:
        """Return the connections with unsent regions: those that do not read first, of these those
        with the most regions first.
        """
        holders = [session for session in self._registry.sessions if session.held_regions]
        return sorted(holders, key=lambda one: (one.sent_since_sweep >= READING_BYTES_MIN, -one.held_regions))

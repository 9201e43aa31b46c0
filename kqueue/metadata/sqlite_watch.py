"""Notices changes of an SQLite file that other processes made.

One thread for each store that is watched asks ``PRAGMA data_version`` every 10 ms. It reads one
counter in memory that the processes share, in two microseconds: an idle watch takes half a percent
of a core. A socket or a pipe for each process would need no polling, but a process that dies
between its commit and its notification would leave the others asleep; so they would have to poll
besides. A commit of this process wakes the thread at once.

Sessions end without a change of the file: every 50 ms the thread looks at their deadlines, and at
the locks of their processes.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.metadata.sqlite_sessions import SessionRow, SessionTable

POLL_INTERVAL_S = 0.01
SESSIONS_INTERVAL_S = 0.05
ERROR_INTERVAL_S = 1.0

logger = logging.getLogger(__name__)


class FileObserver:
    """Reads a file's state for a watch, by a connection of its own.

    Args:
        db: the connection.
        lock: held while it is used, if it is the store's own connection, to a database in memory,
            which no other one sees.
    """

    def __init__(
        self, db: sqlite3.Connection, table: SessionTable, lock: AbstractContextManager[object] | None = None
    ) -> None:
        self._db = db
        self._table = table
        self._own = lock is not None
        self._lock = lock or nullcontext()
        self._last_version = 0
        self._rows: list[SessionRow] = []

    def data_version(self) -> int:
        """Return a number that differs after each change. Raises: sqlite3.Error."""
        if self._own:
            return self._db.total_changes
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        assert isinstance(version, int)
        return version

    def load(self) -> None:
        """Read what `state` depends on. Raises: sqlite3.Error."""
        with self._lock:
            (self._last_version,) = self._db.execute("SELECT last_version FROM counter").fetchone()
            self._rows = self._table.rows(self._db)

    def state(self) -> tuple[int, ...]:
        """Return what watchers are notified of: the latest commit, live sessions, the term."""
        now_ms = self._table.clock.monotonic_ms()
        live = (row for row in self._rows if self._table.is_alive(row, now_ms, now_ms))
        return (self._last_version, *(number for row in live for number in (row.epoch, row.term_epoch)))

    def close(self) -> None:
        """Close the connection, if it is not the store's."""
        if not self._own:
            self._db.close()


class ChangePoller:
    """A thread that calls `notify` after each change of `observed`, until `stop`, and closes it.

    Raises: sqlite3.Error.
    """

    def __init__(self, observed: FileObserver, notify: Callable[[], None]) -> None:
        self._observed = observed
        self._notify = notify
        self._woken = threading.Event()
        self._stopped = False
        # Read here: a change that follows the caller's `watch` is one.
        self._data_version: int | None = observed.data_version()
        observed.load()
        self._state: tuple[int, ...] | None = observed.state()
        self._thread = threading.Thread(target=self._run, name="metadata-watch", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look for changes at once."""
        self._woken.set()

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped = True
        self._woken.set()

    def _run(self) -> None:
        interval_s = POLL_INTERVAL_S
        sessions_due_s = 0.0
        try:
            while True:
                self._woken.wait(interval_s)
                self._woken.clear()
                if self._stopped:
                    return
                now_s = monotonic_s()
                try:
                    changed = self._has_changed(now_s >= sessions_due_s)
                except sqlite3.Error as error:
                    if interval_s == POLL_INTERVAL_S:
                        events.METADATA_STORE_WATCH_FAILED.log(
                            logger, "can't read the metadata store for changes, trying on: %s", error=error
                        )
                    interval_s = ERROR_INTERVAL_S
                    self._data_version = self._state = None  # whatever is found next is a change
                    continue
                interval_s = POLL_INTERVAL_S
                if now_s >= sessions_due_s:
                    sessions_due_s = now_s + SESSIONS_INTERVAL_S
                if changed:
                    self._notify()
        finally:
            self._observed.close()

    def _has_changed(self, sessions_due: bool) -> bool:
        data_version = self._observed.data_version()
        if data_version != self._data_version:
            self._observed.load()
            self._data_version = data_version
        elif not sessions_due:
            return False
        state = self._observed.state()
        changed, self._state = state != self._state, state
        return changed

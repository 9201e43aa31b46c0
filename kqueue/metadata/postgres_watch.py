"""Notices changes of a PostgreSQL store that other brokers made.

One thread for each store that is watched. PostgreSQL notifies it of each change (LISTEN); it then
looks what has changed. It looks every second besides, when the time of a session is over, and after
each new connection: a notification may be lost with its connection, and some proxies drop them.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable
from typing import Any

from psycopg import sql

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import StorageFailed
from kqueue.metadata.postgres_client import LimitedConnection, PostgresClient
from kqueue.metadata.postgres_schema import channel

POLL_INTERVAL_S = 1.0
PAUSE_MIN_S = 0.01
CALL_LIMIT_S = 5.0
STOP_PAUSE_S = 0.25
"""After which a thread that waits notices that it is to end."""

logger = logging.getLogger(__name__)
State = tuple[int, ...]
"""The version of the last commit, then epoch and term epoch of each live session."""


class ChangeListener:
    """A thread that calls `notify` after each change, and once at its begin, until `stop`.

    Args:
        client: of its own; `stop` closes it.
        poll_interval_s: between looks without a notification.
    """

    def __init__(
        self,
        client: PostgresClient,
        schema: str,
        notify: Callable[[], None],
        *,
        poll_interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        self._client = client
        self._listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel(schema)))
        name = sql.Identifier(schema)
        self._last_version = sql.SQL("SELECT last_version FROM {}.counter").format(name)
        self._live = sql.SQL("SELECT live_epoch, live_term, remaining_ms FROM {}.live_sessions()").format(name)
        self._notify = notify
        self._poll_interval_s = poll_interval_s
        self._listening: LimitedConnection | None = None
        self._is_notified = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metadata-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped.set()

    def _run(self) -> None:
        state: State | None = None
        failed = False
        try:
            while not self._stopped.is_set():
                pause_s = self._poll_interval_s
                try:
                    new, pause_s = self._client.call(monotonic_s() + CALL_LIMIT_S, self._look)
                except StorageFailed as error:
                    if self._stopped.is_set():
                        return
                    if not failed:
                        events.METADATA_STORE_WATCH_FAILED.log(
                            logger, "can't read the metadata store for changes, trying on: %s", error=error
                        )
                    failed, new = True, None  # whatever is found next is a change
                else:
                    failed = False
                    if new != state:
                        self._notify()
                state = new
                self._wait(pause_s)
        finally:
            self._client.close()

    def _look(self, connection: LimitedConnection) -> tuple[State, float]:
        """Return the state, and the time until it has to be looked at again, in seconds."""
        if connection is not self._listening:
            connection.add_notify_handler(self._notified)
            connection.execute(self._listen)
            self._listening = connection
        self._is_notified = False  # before it reads: what follows is another change
        (version,) = _row(connection, self._last_version)
        live = connection.execute(self._live).fetchall()
        state = (version, *(number for epoch, term, _ in live for number in (epoch, term)))
        remaining_s = min((remaining_ms / 1000 for *_, remaining_ms in live), default=self._poll_interval_s)
        return state, min(max(remaining_s, PAUSE_MIN_S), self._poll_interval_s)

    def _notified(self, notification: object) -> None:
        self._is_notified = True

    def _wait(self, pause_s: float) -> None:
        """Return when the server has sent something, after `stop`, or after the pause."""
        end_s = monotonic_s() + pause_s
        while not (self._is_notified or self._stopped.is_set()) and (left_s := end_s - monotonic_s()) > 0:
            connection = self._listening
            if connection is None or connection.closed:
                self._stopped.wait(left_s)
            elif select.select([connection.fileno()], [], [], min(left_s, STOP_PAUSE_S))[0]:
                return


def _row(connection: LimitedConnection, query: sql.Composed) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query).fetchone()
    if row is None:
        raise StorageFailed("the schema of the metadata store has lost its row of counters")
    return row

"""Notices a server whose data went back: an older copy, or a standby that lacked commits when it
was promoted.

Each change has a version and a random id, and the server keeps the ids of the last thousands. A
store remembers the last one that it has seen, and looks for it over each new connection: without
a new connection no other server can be at the other end.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import psycopg
from psycopg import sql

from kqueue.base.errors import StorageFailed


class SeenCommit(NamedTuple):
    """A change that a store has seen. `id`: its UUID, as text."""

    version: int
    id: str


class Lineage:
    """The last change that a store has seen. Thread: any.

    Args: shown: the server, for messages.
    """

    def __init__(self, schema: str, shown: str) -> None:
        self._query = sql.SQL(
            "SELECT last_version, (SELECT min(version) FROM {0}.history), "
            "EXISTS (SELECT FROM {0}.history WHERE version = %s::bigint AND id = %s::uuid) FROM {0}.counter"
        ).format(sql.Identifier(schema))
        self._shown = shown
        self._seen: SeenCommit | None = None
        self._lock = threading.Lock()

    def note(self, version: int, id: str | None) -> None:
        """Remember a change, if it is the latest. `id`: None: the store has no change yet.

        Raises: StorageFailed: it is older than one that was seen.
        """
        with self._lock:
            if self._seen is not None and version < self._seen.version:
                raise self._went_back(self._seen, version)
            if id is not None:
                self._seen = SeenCommit(version, id)

    def check(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Raises: StorageFailed: the server lacks the last change that was seen. psycopg.Error."""
        seen = self._seen
        if seen is None:
            return
        row = connection.execute(self._query, seen).fetchone()
        version, oldest, is_known = (0, None, False) if row is None else row
        assert isinstance(version, int)
        is_forgotten = isinstance(oldest, int) and seen.version < oldest  # later commits do not tell
        if not is_known and not (is_forgotten and version >= seen.version):
            raise self._went_back(seen, version)

    def _went_back(self, seen: SeenCommit, version: int) -> StorageFailed:
        return StorageFailed(
            f"PostgreSQL at {self._shown} went back from commit {seen.version}, and has another commit {version}: it "
            "lost data, or an older copy, or a standby that lacks commits, took its place; put back the newest data"
        )

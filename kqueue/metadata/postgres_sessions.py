"""Sessions and terms of the PostgreSQL store: rows that the server's clock ends."""

from __future__ import annotations

from typing import Protocol

from kqueue.base.errors import SessionLost
from kqueue.metadata.store import session_lost


class PostgresSessionStore(Protocol):
    """The part of its store that a session or term uses."""

    def keep_alive(self, session: PostgresSession) -> None:
        """See `Session.keep_alive`."""
        ...

    def end(self, holder: PostgresSession | PostgresTerm) -> None:
        """See `Session.end` and `Term.resign`."""
        ...


class PostgresSession:
    """Implements `Session`.

    `lost`: whether a call learned that it has ended. In an outage the server decides.
    """

    def __init__(
        self, store: PostgresSessionStore, node_id: int, incarnation: str, epoch: int, timeout_ms: int
    ) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.epoch = epoch
        self.timeout_ms = timeout_ms
        self._store = store
        self._is_lost = False

    @property
    def lost(self) -> bool:
        return self._is_lost

    def mark_lost(self) -> None:
        """Note that it is known to have ended."""
        self._is_lost = True

    def keep_alive(self) -> None:
        self._store.keep_alive(self)

    def end(self) -> None:
        self._store.end(self)


class PostgresTerm:
    """Implements `Term`."""

    def __init__(self, store: PostgresSessionStore, session: PostgresSession, epoch: int) -> None:
        self.session = session
        self.epoch = epoch
        self._store = store
        self._is_lost = False

    @property
    def lost(self) -> bool:
        return self._is_lost or self.session.lost

    def mark_lost(self) -> None:
        """Note that it is known to have ended."""
        self._is_lost = True

    def resign(self) -> None:
        self._store.end(self)


def session_of(holder: PostgresSession | PostgresTerm) -> PostgresSession:
    """Return the session itself, or that of the term."""
    return holder.session if isinstance(holder, PostgresTerm) else holder


def lost_error(holder: PostgresSession | PostgresTerm, *, only_term: bool = False) -> SessionLost:
    """Mark the session, or the term only, as lost; return the error of a call by it."""
    session = session_of(holder)
    if only_term and isinstance(holder, PostgresTerm):
        holder.mark_lost()
        return session_lost(session.node_id, session.epoch, holder.epoch)
    session.mark_lost()
    return session_lost(session.node_id, session.epoch)


def check_not_lost(holder: PostgresSession | PostgresTerm) -> None:
    """Raises: SessionLost: it is known to have ended."""
    if holder.lost:
        raise lost_error(holder, only_term=not session_of(holder).lost)

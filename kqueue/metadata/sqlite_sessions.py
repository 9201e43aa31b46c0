"""The sessions of brokers in an SQLite store, and the controller's term.

    sessions(node_id, epoch, incarnation, timeout_ms, deadline_ms, boot, locked, term_epoch)

A session is alive by its row alone, so that no process has to notice its end:

- now < deadline_ms <= now + timeout_ms, by the machine's monotonic clock, which all its processes
  share and which stops while the machine sleeps, as they do;
- `boot` is the id of this boot, where the system has one: an earlier boot's clock says nothing;
- its process holds byte `epoch` of the lock file, if `locked`: the kernel releases it when the
  process dies (see `session_locks`).

`term_epoch` is that of the term which the session holds; 0: none. Rows of ended sessions stay until
their node registers again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kqueue.base.clock import Clock
from kqueue.metadata.session_locks import SessionLocks
from kqueue.metadata.store import ControllerInfo, Session, SessionInfo, Term, node_id_in_use, session_lost

TABLE = (
    "CREATE TABLE sessions (node_id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, incarnation TEXT NOT NULL, "
    "timeout_ms INTEGER NOT NULL, deadline_ms REAL NOT NULL, boot TEXT NOT NULL, locked INTEGER NOT NULL, "
    "term_epoch INTEGER NOT NULL)"
)
LOCK_FILE_SUFFIX = "-sessions"


class SessionRow(NamedTuple):
    """A row of the table."""

    node_id: int
    epoch: int
    incarnation: str
    timeout_ms: int
    deadline_ms: float
    boot: str
    locked: int
    term_epoch: int


class SessionStore(Protocol):
    """The part of its store that a session or term uses."""

    def keep_alive(self, session: SqliteSession) -> None:
        """See `Session.keep_alive`."""
        ...

    def end(self, holder: SqliteSession | SqliteTerm) -> None:
        """See `Session.end` and `Term.resign`."""
        ...


class SqliteSession:
    """Implements `Session`.

    `lost` is what this process knows: its own deadline passed, or a call was refused.
    """

    def __init__(self, store: SessionStore, clock: Clock, row: SessionRow) -> None:
        self.node_id = row.node_id
        self.incarnation = row.incarnation
        self.epoch = row.epoch
        self.timeout_ms = row.timeout_ms
        self.deadline_ms = row.deadline_ms
        self._store = store
        self._clock = clock
        self._is_lost = False

    @property
    def lost(self) -> bool:
        return self._is_lost or self._clock.monotonic_ms() >= self.deadline_ms

    @property
    def is_marked_lost(self) -> bool:
        """Whether `mark_lost` was called."""
        return self._is_lost

    @property
    def row(self) -> SessionRow:
        """The session's row for another process that acts by it, without boot, lock and term."""
        return SessionRow(self.node_id, self.epoch, self.incarnation, self.timeout_ms, self.deadline_ms, "", 0, 0)

    def mark_lost(self) -> None:
        """Note that it is known to have ended."""
        self._is_lost = True

    def keep_alive(self) -> None:
        self._store.keep_alive(self)

    def end(self) -> None:
        self._store.end(self)


class SqliteTerm:
    """Implements `Term`."""

    def __init__(self, store: SessionStore, session: SqliteSession, epoch: int) -> None:
        self.session = session
        self.epoch = epoch
        self._store = store
        self._is_lost = False

    @property
    def lost(self) -> bool:
        return self._is_lost or self.session.lost

    @property
    def is_marked_lost(self) -> bool:
        """Whether `mark_lost` was called."""
        return self._is_lost

    def mark_lost(self) -> None:
        """Note that it is known to have ended."""
        self._is_lost = True

    def resign(self) -> None:
        self._store.end(self)


class SessionTable:
    """The rows, through any connection to the file. All changes within a write transaction."""

    def __init__(self, clock: Clock, locks: SessionLocks) -> None:
        self.clock = clock
        self.locks = locks
        self.boot = boot_id()
        self.own_epochs: set[int] = set()
        """Epochs of live sessions of this object: `SessionLocks` does not see its own locks."""

    def rows(self, db: sqlite3.Connection) -> list[SessionRow]:
        """Return all rows, of dead sessions too."""
        return [SessionRow(*row) for row in db.execute("SELECT * FROM sessions ORDER BY node_id")]

    def is_alive(self, row: SessionRow, before_ms: float, after_ms: float) -> bool:
        """Whether a row's session is alive.

        Args: before_ms, after_ms: the clock before and after the row was read: it may have been
            kept alive between the two.
        """
        if row.boot != self.boot or not before_ms < row.deadline_ms <= after_ms + row.timeout_ms:
            return False
        return not row.locked or row.epoch in self.own_epochs or self.locks.is_held(row.epoch)

    def live(self, db: sqlite3.Connection) -> Iterator[SessionRow]:
        """Yield the rows of live sessions, by node id."""
        before_ms = self.clock.monotonic_ms()
        rows = self.rows(db)
        after_ms = self.clock.monotonic_ms()
        return (row for row in rows if self.is_alive(row, before_ms, after_ms))

    def infos(self, db: sqlite3.Connection) -> dict[int, SessionInfo]:
        """Return the live sessions."""
        return {row.node_id: SessionInfo(row.epoch, row.incarnation) for row in self.live(db)}

    def controller(self, db: sqlite3.Connection) -> ControllerInfo | None:
        """Return who holds the term."""
        return next((ControllerInfo(row.node_id, row.term_epoch) for row in self.live(db) if row.term_epoch), None)

    def check(self, db: sqlite3.Connection, holder: Session | Term) -> None:
        """Check that a session or term of this object is alive. Raises: SessionLost."""
        assert isinstance(holder, SqliteSession | SqliteTerm), f"{holder!r}: of another store"
        session = holder.session if isinstance(holder, SqliteTerm) else holder
        row = next((row for row in self.live(db) if row.epoch == session.epoch), None)
        if row is None:
            session.mark_lost()
            raise session_lost(session.node_id, session.epoch)
        if isinstance(holder, SqliteTerm) and row.term_epoch != holder.epoch:
            holder.mark_lost()
            raise session_lost(session.node_id, session.epoch, holder.epoch)

    def begin(self, db: sqlite3.Connection, node_id: int, incarnation: str, timeout_ms: int) -> SessionRow:
        """Insert the row of a new session. Raises: NodeIdInUse."""
        holder = self.infos(db).get(node_id)
        if holder is not None and holder.incarnation != incarnation:
            raise node_id_in_use(node_id, holder)
        db.execute("UPDATE counter SET broker_epoch = broker_epoch + 1")
        (epoch,) = db.execute("SELECT broker_epoch FROM counter").fetchone()
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        # The lock is held before the row can be read: a row without its lock is of a dead process.
        locked = self.locks.acquire(epoch)
        row = SessionRow(node_id, epoch, incarnation, timeout_ms, deadline_ms, self.boot, int(locked), 0)
        db.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self.own_epochs.add(epoch)
        return row

    def extend(self, db: sqlite3.Connection, session: SqliteSession) -> float:
        """Begin the timeout again; return the new deadline. Raises: SessionLost."""
        self.check(db, session)
        deadline_ms = self.clock.monotonic_ms() + session.timeout_ms
        db.execute("UPDATE sessions SET deadline_ms = ? WHERE node_id = ?", (deadline_ms, session.node_id))
        return deadline_ms

    def elect(self, db: sqlite3.Connection, session: SqliteSession) -> int | None:
        """Give the session the term; return its epoch, None: another one holds it."""
        self.check(db, session)
        holder = self.controller(db)  # terms of dead sessions stay in their rows
        if holder is not None and holder.node_id != session.node_id:
            return None
        db.execute("UPDATE counter SET term_epoch = term_epoch + 1")
        (epoch,) = db.execute("SELECT term_epoch FROM counter").fetchone()
        db.execute("UPDATE sessions SET term_epoch = ? WHERE node_id = ?", (epoch, session.node_id))
        assert isinstance(epoch, int)
        return epoch

    def end(self, db: sqlite3.Connection, holder: SqliteSession | SqliteTerm) -> None:
        """End a session or term; nothing if it has ended."""
        if isinstance(holder, SqliteTerm):
            db.execute("UPDATE sessions SET term_epoch = 0 WHERE term_epoch = ?", (holder.epoch,))
        else:
            db.execute("DELETE FROM sessions WHERE epoch = ?", (holder.epoch,))

    def forget(self, epoch: int) -> None:
        """Release the lock of a session of this object that has ended."""
        self.own_epochs.discard(epoch)
        self.locks.release(epoch)


def boot_id() -> str:
    """Return the id of the machine's boot; empty where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""

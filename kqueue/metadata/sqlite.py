"""A metadata store in one SQLite file, for one machine; several processes may have it open.

Format 2 (`PRAGMA user_version`), in a file marked by `PRAGMA application_id`:

    entries(key TEXT PRIMARY KEY, value BLOB, version INTEGER)
    deletions(key TEXT PRIMARY KEY, version INTEGER)     when each key was deleted
    counter(last_version, broker_epoch, term_epoch, history_start INTEGER)
    sessions(...)                                        see `sqlite_sessions`

`counter` has one row: the latest version of any key, the latest epochs, and the version since which
`deletions` is complete. Opening a file of format 1, which has `entries` and `counter(last_version)`
only, upgrades it in one transaction.

Write-ahead logging with synchronous=FULL: one fsync makes a commit durable, and a crash at any
point leaves it complete or absent. What keeps a session alive is not synced: sessions end with the
machine.

SQLite's write lock is kept by a process that is stopped. So a store that has a session makes its
commits, elections and signs of life in a process of its own (`sqlite_committer`), which holds the
lock for milliseconds whatever its broker does, and which others kill if it is stopped itself. Reads
take no lock that a commit waits for; a reader that is stopped only keeps the write-ahead log from
being emptied, so it grows meanwhile. A store without a session (a single broker, a command on a
folder) commits itself, as does one on another clock than the system's (tests).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kqueue.base import events
from kqueue.base.clock import Clock, SystemClock, monotonic_s, sleep
from kqueue.base.errors import Conflict, DiskFull, KqueueError, StorageFailed
from kqueue.metadata.committer_requests import Answer, Caller
from kqueue.metadata.session_locks import SessionLocks
from kqueue.metadata.sqlite_sessions import LOCK_FILE_SUFFIX, TABLE, SessionRow, SessionTable, SqliteSession, SqliteTerm
from kqueue.metadata.store import (
    Changes,
    ControllerInfo,
    Entry,
    Session,
    SessionInfo,
    Snapshot,
    Term,
    check_commit,
    check_guards,
    check_registration,
)
from kqueue.metadata.watchers import Watchers

if TYPE_CHECKING:
    from kqueue.metadata.sqlite_committer import CommitterProcess
    from kqueue.metadata.sqlite_watch import ChangePoller, FileObserver

FILE_NAME = "kqueue.db"
FORMAT = 2
DELETIONS_MAX = 10_000
"""The number of deleted keys that are remembered for `changes`."""
APPLICATION_ID = 0x6B717565  # "kque"
BUSY_TIMEOUT_S = 10.0
BUSY_RETRY_S = 0.0005
IN_MEMORY = ":memory:"
"""SQLite's name for a database without a file."""
SIDE_FILE_SUFFIXES = ("-wal", "-shm", "-journal")
on_busy: Callable[[], None] | None = None
"""Called while a transaction waits for the lock of another; a committer sets it."""


class SqliteStore:
    """Implements `ClusterStore` over the file at `path`, which is created if it is missing.

    Each broker opens one of its own. A `path` of ``:memory:`` keeps everything in memory, for
    tests.

    Args:
        clock: what sessions expire by: the same one for all who open the file.
        deletions_max: how many deleted keys `changes` remembers; older ones make it complete.
        start_committer: called with the path and the open file of the locks by the first
            `register`; None: the default where `clock` is None, else the store commits itself.
        locks: of a committer: those of its broker.
    Raises: StorageFailed: not a file of kqueue's, of a newer format, or it can't be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        deletions_max: int = DELETIONS_MAX,
        start_committer: Callable[[str, int | None], CommitterProcess] | None = None,
        locks: SessionLocks | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._deletions_max = deletions_max
        in_memory = self.path == IN_MEMORY
        self._locks = locks or SessionLocks(None if in_memory else self.path + LOCK_FILE_SUFFIX)
        self._committer: CommitterProcess | None = None
        self._committer_starter = start_committer
        has_committer = clock is None or start_committer is not None
        self._may_have_committer = locks is None and has_committer and not in_memory and os.name == "posix"
        self._table = SessionTable(clock or SystemClock(), self._locks)
        self._sessions: dict[int, SqliteSession] = {}
        """Sessions of this object that are not known to have ended, by epoch."""
        self._unsynced: sqlite3.Connection | None = None
        """A second connection, while there may be sessions; `_unsynced_lock` is held to use it."""
        self._unsynced_lock = self._lock if self.path == IN_MEMORY else threading.RLock()
        self._watchers = Watchers()
        self._poller: ChangePoller | None = None
        if not in_memory:
            self._create_file()
        with self._failing("open"):
            self._db = self._connect()
        try:
            with self._failing("open"):
                self._prepare()
        except StorageFailed:
            self._db.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)

    def _create_file(self) -> None:
        """Create a missing file with mode 0600; SQLite gives its side files the same mode.

        Raises: StorageFailed: it can't be created, or is a symbolic link.
        """
        for path in (self.path, *(self.path + suffix for suffix in SIDE_FILE_SUFFIXES)):
            if os.path.islink(path):  # noqa: PTH114
                raise StorageFailed(f"can't open the metadata store: {path} is a symbolic link, which is not followed")
        try:
            # An existing file is not opened: closing it would release the POSIX locks of another
            # connection of this process.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise StorageFailed(f"could not open the metadata store {self.path}: {error.strerror}") from error

    def read(self, prefix: str) -> Snapshot:
        entries: dict[str, Entry] = {}
        with self._lock, self._failing("read"):
            for key, value, version in self._db.execute(
                "SELECT key, value, version FROM entries WHERE key >= ? ORDER BY key", (prefix,)
            ):
                if not key.startswith(prefix):
                    break
                entries[key] = Entry(value, version)
        return entries

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        deletes = list(deletes)
        check_commit(guards, puts, deletes)
        if self._committer is None:
            return self._commit(guards, puts, deletes, by)
        assert by is None or isinstance(by, SqliteSession | SqliteTerm), f"{by!r}: of another store"
        values = {key: bytes(value) for key, value in puts.items()}
        versions: Mapping[str, int] = self._ask("commit", by, dict(guards), values, deletes)
        return versions

    def _commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Sequence[str],
        by: Session | Term | None,
    ) -> Mapping[str, int]:
        with self._changing("commit to"):
            if by is not None:
                self._table.check(self._db, by)
            violation = check_guards(guards, self._versions(guards))
            if violation is not None:
                raise Conflict(violation)
            self._db.execute("UPDATE counter SET last_version = last_version + 1")
            (version,) = self._db.execute("SELECT last_version FROM counter").fetchone()
            if deletes:
                self._delete(deletes, version)
            self._db.executemany("DELETE FROM deletions WHERE key = ?", [(key,) for key in puts])
            rows = [(key, bytes(value), version) for key, value in puts.items()]
            self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)
        return dict.fromkeys(puts, version)

    def close(self) -> None:
        with self._lock, self._failing("close"):
            poller, self._poller = self._poller, None
            if poller is not None:
                poller.stop()
            self._watchers.clear()
            sessions, self._sessions = list(self._sessions.values()), {}
            try:
                if self._committer is not None:
                    for session in sessions:
                        with suppress(KqueueError):
                            self._ask("end", session)
                    self._committer.close()
                elif sessions:
                    with suppress(sqlite3.Error), _transaction(self._db):  # else they end with their locks or timeouts
                        for session in sessions:
                            self._table.end(self._db, session)
            finally:
                for session in sessions:
                    session.mark_lost()
                self._locks.close()
                self._db.close()
            with self._unsynced_lock:
                unsynced, self._unsynced = self._unsynced, None
                if unsynced is not None:
                    unsynced.close()

    # --- sessions and terms

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> SqliteSession:
        check_registration(node_id, incarnation, timeout_ms)
        self._start_committer()
        if self._committer is None:
            row = self._begin(node_id, incarnation, timeout_ms)
        else:
            try:
                row = self._ask("register", None, node_id, incarnation, timeout_ms)
            except StorageFailed:
                self._locks.release_others(self._table.own_epochs)  # as in `_begin`
                raise
        with self._lock:
            self._table.own_epochs.add(row.epoch)
            for session in [session for session in self._sessions.values() if session.node_id == node_id]:
                self._forget(session)
            session = self._sessions[row.epoch] = SqliteSession(self, self._table.clock, row)
        return session

    def keep_alive(self, session: SqliteSession) -> None:
        """See `Session.keep_alive`."""
        if self._committer is not None:
            session.deadline_ms = self._ask("keep_alive", session)
            return
        with self._failing("write to"), self._unsynced_lock:
            if self._unsynced is None:
                raise StorageFailed("the metadata store is closed")
            with _transaction(self._unsynced):
                deadline_ms = self._table.extend(self._unsynced, session)
            session.deadline_ms = deadline_ms

    def end(self, holder: SqliteSession | SqliteTerm) -> None:
        """See `Session.end` and `Term.resign`."""
        if self._committer is not None:
            self._ask("end", holder)
        else:
            with self._changing("write to"):
                self._table.end(self._db, holder)
        holder.mark_lost()
        if isinstance(holder, SqliteSession):
            self._forget(holder)

    def sessions(self) -> Mapping[int, SessionInfo]:
        with self._failing("read"), self._lock:
            return self._table.infos(self._db)

    def campaign(self, session: Session) -> SqliteTerm | None:
        assert isinstance(session, SqliteSession), f"{session!r}: of another store"
        epoch = self._elect(session) if self._committer is None else self._ask("campaign", session)
        return None if epoch is None else SqliteTerm(self, session, epoch)

    def _elect(self, session: SqliteSession) -> int | None:
        with self._changing("campaign in"):
            return self._table.elect(self._db, session)

    def controller(self) -> ControllerInfo | None:
        with self._failing("read"), self._lock:
            return self._table.controller(self._db)

    def _begin(self, node_id: int, incarnation: str, timeout_ms: int) -> SessionRow:
        row = None
        try:
            with self._changing("register with"):
                row = self._table.begin(self._db, node_id, incarnation, timeout_ms)
                if self._unsynced is None:
                    self._unsynced = self._connect_unsynced()
        except BaseException:
            if row is not None:  # if it was committed nonetheless, it is dead without its lock
                self._table.forget(row.epoch)
            raise
        return row

    def _connect_unsynced(self) -> sqlite3.Connection:
        """Return the connection that keeps sessions alive: it waits neither for the disk nor for
        long reads of others. After a power cut no session is alive.
        """
        if self.path == IN_MEMORY:
            return self._db
        db = self._connect()
        db.execute("PRAGMA synchronous = NORMAL")
        return db

    def _forget(self, session: SqliteSession) -> None:
        session.mark_lost()
        self._sessions.pop(session.epoch, None)
        self._table.forget(session.epoch)

    # --- the committer

    def _start_committer(self) -> None:
        """Let a committer do what follows, if this store may have one and has none."""
        with self._lock:
            if not self._may_have_committer:
                return
            import logging  # on use, as a committer needs it not, and a single broker no committer

            from kqueue.metadata import sqlite_committer

            try:
                start = self._committer_starter or sqlite_committer.CommitterProcess
                self._committer = start(self.path, self._locks.fileno())
            except sqlite_committer.CommitterUnavailable as error:
                events.METADATA_STORE_HELD_UP.log(
                    logging.getLogger(__name__),
                    "a process that hangs in a commit to the metadata store %s holds up all others: %s",
                    path=self.path,
                    error=error,
                )
            self._may_have_committer = False

    def _ask(self, name: str, by: SqliteSession | SqliteTerm | None, *arguments: object) -> Any:
        """Let the committer do something by a session or term. Raises: what it raises."""
        assert self._committer is not None
        own_epochs = frozenset(self._table.own_epochs)
        if by is None:
            caller = Caller(own_epochs)
        elif isinstance(by, SqliteTerm):
            caller = Caller(own_epochs, by.session.row, by.epoch)
        else:
            caller = Caller(own_epochs, by.row)
        answer = self._committer.call(name, caller, arguments)
        assert isinstance(answer, Answer)
        if by is not None and answer.lost_term:
            by.mark_lost()
        if by is not None and answer.lost_session:
            (by.session if isinstance(by, SqliteTerm) else by).mark_lost()
        if answer.error is not None:
            raise answer.error
        poller = self._poller
        if poller is not None and name != "keep_alive":
            poller.wake()
        return answer.result

    # --- changes

    def changes(self, after: int) -> Changes:
        with self._failing("read"), self._lock, _transaction(self._db, "DEFERRED"):
            version, start = self._db.execute("SELECT last_version, history_start FROM counter").fetchone()
            complete = not max(start, 1) <= after <= version
            since = 0 if complete else after
            rows = self._db.execute("SELECT key, value, version FROM entries WHERE version > ?", (since,))
            entries: dict[str, Entry | None] = {key: Entry(value, number) for key, value, number in rows}
            if not complete:
                deleted = self._db.execute("SELECT key FROM deletions WHERE version > ?", (since,))
                entries.update((key, None) for (key,) in deleted)
        return Changes(version, entries, complete)

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        with self._failing("watch"), self._lock:
            self._db.execute("SELECT 1")  # fails where it is closed
            stop = self._watchers.add(notify)
            if self._poller is None:
                from kqueue.metadata.sqlite_watch import ChangePoller  # on use: a committer watches nothing

                try:
                    self._poller = ChangePoller(self._observer(), self._watchers.notify)
                except sqlite3.Error:
                    stop()
                    raise

        def stop_watch() -> None:
            stop()
            with self._lock:
                if not len(self._watchers) and self._poller is not None:
                    self._poller.stop()
                    self._poller = None

        return stop_watch

    def _observer(self) -> FileObserver:
        from kqueue.metadata.sqlite_watch import FileObserver

        if self.path == IN_MEMORY:
            return FileObserver(self._db, self._table, self._lock)
        return FileObserver(self._connect(), self._table)

    def _delete(self, keys: Sequence[str], version: int) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO deletions SELECT key, ? FROM entries WHERE key = ?",
            [(version, key) for key in keys],
        )
        self._db.executemany("DELETE FROM entries WHERE key = ?", [(key,) for key in keys])
        (count,) = self._db.execute("SELECT count(*) FROM deletions").fetchone()
        if count > self._deletions_max:
            # Half of them at once: not at each commit.
            (start,) = self._db.execute(
                "SELECT version FROM deletions ORDER BY version DESC LIMIT 1 OFFSET ?", (self._deletions_max // 2,)
            ).fetchone()
            self._db.execute("DELETE FROM deletions WHERE version <= ?", (start,))
            self._db.execute("UPDATE counter SET history_start = ?", (start,))

    # --- the file

    def _prepare(self) -> None:
        _insist(self._db, "PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with _transaction(self._db, "DEFERRED"):  # takes no lock that a commit waits for
            is_ready = self._marks() == (APPLICATION_ID, FORMAT)
        if is_ready:
            return
        with _transaction(self._db):
            application, _ = self._marks()
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application == 0 and tables == 0:
                self._create()
            elif application != APPLICATION_ID:
                raise StorageFailed(f"{self.path}: an SQLite file, but no metadata store of kqueue")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 1:
                self._upgrade()
            elif version != FORMAT:
                raise StorageFailed(f"{self.path}: expected format {FORMAT}, found {version}; a newer kqueue wrote it")

    def _marks(self) -> tuple[int, int]:
        """Return the file's application id and format."""
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        return application, version

    def _create(self) -> None:
        self._db.execute(
            "CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"
        )
        self._db.execute("CREATE TABLE counter (last_version INTEGER NOT NULL)")
        self._db.execute("INSERT INTO counter VALUES (0)")
        self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._upgrade()

    def _upgrade(self) -> None:
        """Make format 1 this format."""
        for column in ("broker_epoch", "term_epoch", "history_start"):
            self._db.execute(f"ALTER TABLE counter ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
        self._db.execute("UPDATE counter SET history_start = last_version")  # what was deleted before is not known
        self._db.execute("CREATE INDEX entries_by_version ON entries (version)")
        self._db.execute("CREATE TABLE deletions (key TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID")
        self._db.execute("CREATE INDEX deletions_by_version ON deletions (version)")
        self._db.execute(TABLE)
        self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def _versions(self, keys: Iterable[str]) -> dict[str, int]:
        rows = (self._db.execute("SELECT version FROM entries WHERE key = ?", (key,)).fetchone() for key in keys)
        return {key: row[0] for key, row in zip(keys, rows, strict=True) if row is not None}

    @contextmanager
    def _changing(self, what: str) -> Iterator[None]:
        """Run a transaction that watchers are notified of."""
        with self._failing(what), self._lock:
            with _transaction(self._db):
                yield
            if self._poller is not None:
                self._poller.wake()

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            kind = DiskFull if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL else StorageFailed
            raise kind(f"could not {what} the metadata store {self.path}: {error}") from error


@contextmanager
def _transaction(db: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commit or roll back. IMMEDIATE locks out writers first: guards hold until the writes."""
    if kind == "IMMEDIATE":
        _insist(db, "BEGIN IMMEDIATE")
    else:
        db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _insist(db: sqlite3.Connection, statement: str) -> None:
    """Run a statement that may find the file locked, again until it does not.

    SQLite's own busy handler sleeps for up to 100 ms between attempts: among writers that do not
    pause, a broker would lose its session before it kept it alive. It does not wait at all where
    several processes begin to write ahead in a new file.
    """
    db.execute("PRAGMA busy_timeout = 0")
    deadline_s = monotonic_s() + BUSY_TIMEOUT_S
    try:
        while True:
            try:
                db.execute(statement).close()
            except sqlite3.OperationalError as error:
                primary_code = error.sqlite_errorcode & 0xFF  # also busy: another one recovers the file
                if primary_code != sqlite3.SQLITE_BUSY or monotonic_s() >= deadline_s:
                    raise
            else:
                return
            if on_busy is not None:
                on_busy()
            sleep(BUSY_RETRY_S)
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")

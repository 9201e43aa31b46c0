"""A metadata store in one SQLite file, for one machine; several processes may have it open.

Format 1 (`PRAGMA user_version`), in a file marked by `PRAGMA application_id`:

    entries(key TEXT PRIMARY KEY, value BLOB, version INTEGER)
    counter(last_version INTEGER)        one row: the latest version of any key

Write-ahead logging with synchronous=FULL: one fsync makes a commit durable, and a crash at any
point leaves it complete or absent.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kqueue.base.errors import Conflict, DiskFull, StorageFailed
from kqueue.metadata.store import Entry, Snapshot, check_commit, check_guards

FILE_NAME = "kqueue.db"
FORMAT = 1
APPLICATION_ID = 0x6B717565  # "kque"
BUSY_TIMEOUT_S = 10.0
IN_MEMORY = ":memory:"
"""SQLite's name for a database without a file."""
SIDE_FILE_SUFFIXES = ("-wal", "-shm", "-journal")


class SqliteStore:
    """Implements `MetadataStore` over the file at `path`, which is created if it is missing.

    A `path` of ``:memory:`` keeps the entries in memory, for tests.

    Raises: StorageFailed: not a file of kqueue's, of a newer format, or it can't be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._lock = threading.Lock()
        if self.path != IN_MEMORY:
            self._create_file()
        with self._failing("open"):
            self._db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            with self._failing("open"):
                self._prepare()
        except StorageFailed:
            self._db.close()
            raise

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
        self, guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]
    ) -> Mapping[str, int]:
        deletes = list(deletes)
        check_commit(guards, puts, deletes)
        with self._lock, self._failing("commit to"), self._transaction():
            violation = check_guards(guards, self._versions(guards))
            if violation is not None:
                raise Conflict(violation)
            self._db.execute("UPDATE counter SET last_version = last_version + 1")
            (version,) = self._db.execute("SELECT last_version FROM counter").fetchone()
            self._db.executemany("DELETE FROM entries WHERE key = ?", [(key,) for key in deletes])
            rows = [(key, bytes(value), version) for key, value in puts.items()]
            self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)
        return dict.fromkeys(puts, version)

    def close(self) -> None:
        with self._lock, self._failing("close"):
            self._db.close()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            (application,) = self._db.execute("PRAGMA application_id").fetchone()
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application == 0 and tables == 0:
                self._create()
            elif application != APPLICATION_ID:
                raise StorageFailed(f"{self.path}: an SQLite file, but no metadata store of kqueue")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version != FORMAT:
                raise StorageFailed(f"{self.path}: expected format {FORMAT}, found {version}; a newer kqueue wrote it")

    def _create(self) -> None:
        self._db.execute(
            "CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"
        )
        self._db.execute("CREATE TABLE counter (last_version INTEGER NOT NULL)")
        self._db.execute("INSERT INTO counter VALUES (0)")
        self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def _versions(self, keys: Iterable[str]) -> dict[str, int]:
        rows = (self._db.execute("SELECT version FROM entries WHERE key = ?", (key,)).fetchone() for key in keys)
        return {key: row[0] for key, row in zip(keys, rows, strict=True) if row is not None}

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit or roll back. IMMEDIATE takes the write lock first, so guards hold until the
        writes.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            kind = DiskFull if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL else StorageFailed
            raise kind(f"could not {what} the metadata store {self.path}: {error}") from error

"""The program of a committer process; see `sqlite_committer`.

It holds no state between requests: each names the session or term that it is made by.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
from collections.abc import Mapping
from typing import Any

from kqueue.metadata import sqlite
from kqueue.metadata.committer_requests import Answer, Caller
from kqueue.metadata.lock_holders import LockHolders
from kqueue.metadata.session_locks import SessionLocks
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.sqlite_sessions import SessionRow, SqliteSession, SqliteTerm

_IN, _OUT = 0, 1
_LENGTH = struct.Struct(">I")


class CommitterStore(SqliteStore):
    """The store of a committer, which makes the commits itself."""

    def __init__(self, path: str, lock_fd: int | None) -> None:
        super().__init__(path, locks=SessionLocks(None) if lock_fd is None else SessionLocks(path, lock_fd))
        self._unsynced = self._connect_unsynced()

    def serve(self, name: str, caller: Caller, arguments: tuple[Any, ...]) -> Answer:
        """Do one request."""
        self._table.own_epochs = set(caller.own_epochs)
        session = None if caller.session is None else SqliteSession(self, self._table.clock, caller.session)
        holder: SqliteSession | SqliteTerm | None = session
        if session is not None and caller.term_epoch is not None:
            holder = SqliteTerm(self, session, caller.term_epoch)
        try:
            return Answer(getattr(self, f"_serve_{name}")(holder, *arguments))
        except Exception as error:
            lost_session = session is not None and session.is_marked_lost
            lost_term = isinstance(holder, SqliteTerm) and holder.is_marked_lost
            return Answer(None, error, lost_session, lost_term)

    def _serve_commit(
        self, holder: SqliteSession | SqliteTerm | None, guards: Any, puts: Any, deletes: list[str]
    ) -> Mapping[str, int]:
        return self._commit(guards, puts, deletes, holder)

    def _serve_register(self, _: object, node_id: int, incarnation: str, timeout_ms: int) -> SessionRow:
        return self._begin(node_id, incarnation, timeout_ms)

    def _serve_keep_alive(self, session: SqliteSession) -> float:
        self.keep_alive(session)
        return session.deadline_ms

    def _serve_end(self, holder: SqliteSession | SqliteTerm) -> None:
        self.end(holder)

    def _serve_campaign(self, session: SqliteSession) -> int | None:
        return self._elect(session)


def main(path: str, lock_fd: str | None = None) -> None:
    """Serve requests until the broker closes the pipe, or dies."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a stop of the service: the broker still commits
        signal.signal(number, signal.SIG_IGN)
    broker = os.getppid()
    try:
        store = CommitterStore(path, None if lock_fd is None else int(lock_fd))
    except Exception as error:
        _write((False, error))
        return
    holders = LockHolders(path)

    def wait() -> None:
        if os.getppid() != broker:  # it has died, and its session ends with this process
            os._exit(0)
        holders.look()

    sqlite.on_busy = wait
    with contextlib.suppress(BrokenPipeError):  # the broker has died
        _write((True, None))
        while (request := _read()) is not None:
            name, (caller, arguments) = pickle.loads(request)
            _write((True, store.serve(name, caller, arguments)))


def _read() -> bytes | None:
    """Return the next request; None: the broker has closed the pipe."""
    length = _read_exactly(_LENGTH.size)
    return None if length is None else _read_exactly(_LENGTH.unpack(length)[0])


def _read_exactly(count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        read = os.read(_IN, count - len(data))
        if not read:
            return None
        data += read
    return bytes(data)


def _write(answer: object) -> None:
    data = pickle.dumps(answer)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(_OUT, rest) :]

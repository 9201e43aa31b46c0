"""A metadata store in PostgreSQL, for brokers on several machines. Needs the extra `postgres`.

`postgres_schema` says what is stored, and by which rules changes are made.

Durability. A commit is on the disk of the server when it returns, and on that of its synchronous
standbys, if it has any (`synchronous_commit` of the server; `off` is read as `on`). A standby that
is promoted has all of them then. Without a synchronous standby it may lack the last commits, as an
older copy does; see `postgres_lineage`.

An answer that was lost. Each change has an id and is sent again over a new connection, to whichever
server of the address can be written to, until it is answered; it happens once. If no server answers
in time, StorageFailed reaches the caller. The next call of this object then rules the change out,
or finds it in the entries: it does not happen later.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import Conflict, SettingError, StorageFailed
from kqueue.base.extras import install_hint
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
    node_id_in_use,
)
from kqueue.metadata.watchers import Watchers

try:
    import psycopg  # noqa: F401
except ImportError as error:
    raise SettingError(
        f"the metadata store 'postgresql' needs the package psycopg ({error}); get it with: {install_hint('postgres')}"
    ) from error

from psycopg import sql

from kqueue.metadata.postgres_address import parse_postgres_address
from kqueue.metadata.postgres_client import PostgresClient, PostgresUnavailable
from kqueue.metadata.postgres_lineage import Lineage
from kqueue.metadata.postgres_schema import prepare_schema
from kqueue.metadata.postgres_sessions import (
    PostgresSession,
    PostgresTerm,
    check_not_lost,
    lost_error,
    session_of,
)
from kqueue.metadata.postgres_watch import POLL_INTERVAL_S, ChangeListener

TIMEOUT_S = 10.0
"""Limit of a call while no server answers."""
CLOSE_TIMEOUT_S = 2.0
SESSION_TIMEOUT_MS_MAX = 24 * 3600 * 1000
VERSION_MAX = 2**63 - 1
_QUERIES = {
    "read": 'SELECT key, value, version FROM {}.entries WHERE starts_with(key, %s) ORDER BY key COLLATE "C"',
    "change": "SELECT * FROM {}.change(%s::uuid, %s::bigint, %s::bigint, %s::text[], %s::bigint[], %s::text[], "
    "%b::bytea[], %s::text[])",
    "register": "SELECT * FROM {}.register(%s::uuid, %s::integer, %s::text, %s::bigint)",
    "campaign": "SELECT * FROM {}.campaign(%s::uuid, %s::bigint)",
    "void": "SELECT {}.void(%s::uuid)",
    "keep_alive": "SELECT {}.keep_alive(%s::bigint)",
    "end_sessions": "SELECT {}.end_sessions(%s::bigint[])",
    "end_term": "SELECT {}.end_term(%s::bigint)",
    "live_sessions": "SELECT live_node, live_epoch, live_incarnation, live_term FROM {}.live_sessions()",
    # One statement, and so one snapshot.
    "changes": """
        WITH known AS (
            SELECT last_version, NOT (%s::bigint BETWEEN greatest(history_start, 1) AND last_version) AS complete
            FROM {0}.counter
        ), since AS (SELECT CASE WHEN complete THEN 0 ELSE %s::bigint END AS version FROM known)
        SELECT (SELECT id::text FROM {0}.history WHERE version = last_version), NULL::bytea, last_version, complete
            FROM known
        UNION ALL SELECT key, value, version, NULL FROM {0}.entries WHERE version > (SELECT version FROM since)
        UNION ALL SELECT key, NULL, version, NULL FROM {0}.deletions
            WHERE version > (SELECT version FROM since) AND NOT (SELECT complete FROM known)""",
}


class PostgresStore:
    """Implements `ClusterStore`. The schema and its tables are created if they are missing.

    Args:
        address: ``postgresql://[USER@]HOST[:PORT][,HOST...]/DATABASE[?schema=NAME&sslmode=...]``;
            see `postgres_address`.
        password: None: libpq looks for one, in PGPASSWORD and the password file.
        timeout_s: limit of each call while no server answers, in seconds; StorageFailed then.
        poll_interval_s: how often a watch looks for changes without a notification.
    Raises: ValueError: no address. StorageFailed: no server answers in time, or the schema is of a
        newer kqueue.
    """

    def __init__(
        self,
        address: str,
        *,
        password: str | None = None,
        timeout_s: float = TIMEOUT_S,
        poll_interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        parsed = parse_postgres_address(address)
        self._schema = parsed.schema
        self._queries = {name: sql.SQL(text).format(sql.Identifier(parsed.schema)) for name, text in _QUERIES.items()}
        self._lineage = Lineage(parsed.schema, parsed.shown)
        self._timeout_s = timeout_s
        self._poll_interval_s = poll_interval_s
        self._make_client = partial(PostgresClient, parsed, password, timeout_s, check=self._lineage.check)
        self._client = self._make_client()
        self._pulse = self._make_client()
        """The connection that keeps sessions alive: it does not wait behind other calls."""
        self._lock = threading.RLock()
        self._closed = False
        self._unsettled: str | None = None
        """The id of a change that was given up; it may still happen."""
        self._sessions: list[PostgresSession] = []
        self._watchers = Watchers()
        self._listener: ChangeListener | None = None
        try:
            deadline = monotonic_s() + timeout_s
            self._client.call(deadline, lambda connection: prepare_schema(connection, parsed.schema))
        except BaseException:
            self._client.close()
            raise

    # --- MetadataStore

    def read(self, prefix: str) -> Snapshot:
        with self._calling() as deadline:
            rows = self._client.run(deadline, self._queries["read"], (prefix,))
            return {key: Entry(value, version) for key, value, version in rows}

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
        session, term = None, None
        if by is not None:
            holder = _own(by)
            check_not_lost(holder)
            session, term = session_of(holder).epoch, holder.epoch if isinstance(holder, PostgresTerm) else None
        with self._calling() as deadline:
            outcome, number, key, found = self._change(
                deadline,
                "change",
                (
                    *(session, term, list(guards), list(guards.values())),
                    *(list(puts), [bytes(value) for value in puts.values()], deletes),
                ),
            )
        if outcome == "conflict":
            violation = check_guards({key: guards[key]}, {} if found is None else {key: found})
            raise Conflict(violation or f"{key}: changed meanwhile")
        if outcome != "done":
            assert by is not None, outcome
            raise lost_error(_own(by), only_term=outcome == "term lost")
        return dict.fromkeys(puts, number)

    def close(self) -> None:
        self._closed = True
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
        with self._lock:
            self._watchers.clear()
            sessions, self._sessions = self._sessions, []
            if sessions:
                epochs = [session.epoch for session in sessions]
                with contextlib.suppress(StorageFailed):  # else they end by their timeouts
                    self._client.run(monotonic_s() + CLOSE_TIMEOUT_S, self._queries["end_sessions"], (epochs,))
            for session in sessions:
                session.mark_lost()
            self._client.close()
        self._pulse.close()

    # --- ClusterStore

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> PostgresSession:
        check_registration(node_id, incarnation, timeout_ms)
        granted_ms = min(timeout_ms, SESSION_TIMEOUT_MS_MAX)
        with self._calling() as deadline:
            outcome, number, holder = self._change(deadline, "register", (node_id, incarnation, granted_ms))
            if outcome == "in use":
                error = node_id_in_use(node_id, SessionInfo(number, holder))
                error.may_have_ended = True
                raise error
            for session in self._sessions:
                if session.node_id == node_id:
                    session.mark_lost()
            session = PostgresSession(self, node_id, incarnation, number, granted_ms)
            self._sessions = [*(one for one in self._sessions if not one.lost), session]
            return session

    def sessions(self) -> Mapping[int, SessionInfo]:
        return {node_id: SessionInfo(epoch, name) for node_id, epoch, name, _ in self._live_sessions()}

    def campaign(self, session: Session) -> PostgresTerm | None:
        own = _own(session)
        assert isinstance(own, PostgresSession), f"{session!r}: no session"
        check_not_lost(own)
        with self._calling() as deadline:
            outcome, number = self._change(deadline, "campaign", (own.epoch,))
        if outcome == "session lost":
            raise lost_error(own)
        return None if outcome == "held" else PostgresTerm(self, own, number)

    def controller(self) -> ControllerInfo | None:
        return next((ControllerInfo(node_id, term) for node_id, _, _, term in self._live_sessions() if term), None)

    def changes(self, after: int) -> Changes:
        after = after if 0 <= after <= VERSION_MAX else 0
        with self._calling() as deadline:
            rows = self._client.run(deadline, self._queries["changes"], (after, after))
            id, _, last_version, complete = rows[0]
            self._lineage.note(last_version, id)
        entries = {key: None if value is None else Entry(value, version) for key, value, version, _ in rows[1:]}
        return Changes(last_version, entries, complete)

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            self._check_open()
            stop = self._watchers.add(notify)
            if self._listener is None:
                self._listener = ChangeListener(
                    self._make_client(), self._schema, self._watchers.notify, poll_interval_s=self._poll_interval_s
                )

        def stop_watch() -> None:
            stop()
            with self._lock:
                if not len(self._watchers) and self._listener is not None:
                    self._listener.stop()
                    self._listener = None

        return stop_watch

    # --- sessions

    def keep_alive(self, session: PostgresSession) -> None:
        """See `Session.keep_alive`."""
        self._check_open()
        check_not_lost(session)
        deadline = monotonic_s() + min(self._timeout_s, session.timeout_ms / 3000)
        if self._pulse.run(deadline, self._queries["keep_alive"], (session.epoch,)) != [(True,)]:
            raise lost_error(session)

    def end(self, holder: PostgresSession | PostgresTerm) -> None:
        """See `Session.end` and `Term.resign`."""
        if not holder.lost:
            with self._calling() as deadline:
                if isinstance(holder, PostgresTerm):
                    self._client.run(deadline, self._queries["end_term"], (holder.epoch,))
                else:
                    self._client.run(deadline, self._queries["end_sessions"], ([holder.epoch],))
        holder.mark_lost()

    def _live_sessions(self) -> list[tuple[int, int, str, int]]:
        """Return node id, epoch, incarnation and term epoch of each live session, by node id."""
        with self._calling() as deadline:
            return self._client.run(deadline, self._queries["live_sessions"])

    # --- steps of the calls

    def _change(self, deadline: float, name: str, arguments: tuple[object, ...]) -> tuple[Any, ...]:
        """Make a change once, and return the row of its outcome. Under the lock."""
        request = str(uuid.uuid4())
        try:
            (row,) = self._client.run(deadline, self._queries[name], (request, *arguments))
        except PostgresUnavailable:
            self._unsettled = request
            raise
        if name == "change" and row[0] == "done":
            self._lineage.note(row[1], request)
        if row[0] == "void":
            raise StorageFailed("a change of the metadata was ruled out while it was made")
        result: tuple[Any, ...] = row
        return result

    @contextmanager
    def _calling(self) -> Iterator[float]:
        """Run a call under the lock, within the time limit, after the change of an earlier one was
        settled. Yields: its end.
        """
        deadline = monotonic_s() + self._timeout_s
        if not self._lock.acquire(timeout=self._timeout_s):
            raise PostgresUnavailable("PostgreSQL: an earlier call still waits")
        try:
            self._check_open()
            if self._unsettled is not None:
                self._client.run(deadline, self._queries["void"], (self._unsettled,))
                self._unsettled = None
            yield deadline
        finally:
            self._lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageFailed("the metadata store is closed")


def _own(holder: Session | Term) -> PostgresSession | PostgresTerm:
    assert isinstance(holder, PostgresSession | PostgresTerm), f"{holder!r}: of another store"
    return holder

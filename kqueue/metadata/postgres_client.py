"""A connection to PostgreSQL that is made again when it breaks, with a limit of time for each call.

Every statement runs alone, in a transaction of its own (autocommit): a client that is stopped
between two statements holds no lock. A call is tried again until its deadline, so what it runs must
have the same effect once and several times.

Statements are never cancelled, and backends never terminated: PostgreSQL would end the wait for its
synchronous standby by it, and show a commit that a failover can still lose. A statement that
outlives its client ends by `statement_timeout`; if it waits for the standby, with that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from kqueue.base.clock import monotonic_s, sleep
from kqueue.base.errors import DiskFull, StorageFailed
from kqueue.metadata.postgres_address import PostgresAddress

RETRY_PAUSE_S = 0.05
_T = TypeVar("_T")
_TRANSIENT = (
    psycopg.OperationalError,  # connections, shutdowns, timeouts, deadlocks, failed serialization
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,  # the server became a standby
)
_PREPARE = sql.SQL(
    """SELECT set_config('statement_timeout', {limit}, false), set_config('lock_timeout', {limit}, false),
    set_config('idle_in_transaction_session_timeout', {limit}, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), false)"""
)


class PostgresUnavailable(StorageFailed):
    """No server answered in time: it is unknown whether the statement happened."""


class LimitedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose statements raise OperationalError after `deadline`, by `monotonic_s`. Its
    protocol is then in the middle of an answer: close it.
    """

    deadline = float("inf")

    def wait(self, gen: Generator[Any, Any, _T], interval: float = 0.1, timeout: float | None = None) -> _T:
        """See `psycopg.Connection.wait`. Raises: also OperationalError: after the deadline."""
        own = {} if timeout is None else {"timeout": timeout}  # psycopg 3.2 has none
        return super().wait(_until(lambda: self.deadline, gen), interval, **own)


def _until(deadline: Callable[[], float], steps: Generator[Any, Any, _T]) -> Generator[Any, Any, _T]:
    """Yield what `steps` does, and raise at the deadline."""
    try:
        step = next(steps)
        while True:
            answer = yield step
            if not answer and monotonic_s() >= deadline():  # nothing came since the last interval
                raise psycopg.OperationalError("the server did not answer in time")
            step = steps.send(answer)
    except StopIteration as end:
        result: _T = end.value
        return result


def connect(address: PostgresAddress, password: str | None, limit_s: float) -> LimitedConnection:
    """Connect to the first server that can be written to, of those of the address.

    Args: limit_s: of each statement, in seconds; by the server, also without its client.
    Raises: psycopg.Error.
    """
    parameters = address.parameters if password is None else {**address.parameters, "password": password}
    connection = LimitedConnection.connect(make_conninfo(**parameters), autocommit=True, prepare_threshold=None)
    try:
        connection.deadline = monotonic_s() + limit_s
        connection.execute(_PREPARE.format(limit=sql.Literal(str(max(1, round(limit_s * 1000))))))
    except BaseException:
        connection.close()
        raise
    return connection


class PostgresClient:
    """Runs statements, one at a time, over a connection that it makes when needed. Thread: any.

    Args:
        password: None: libpq looks for one.
        limit_s: of a statement, in seconds.
        connect: makes a connection.
        check: called with each new one; what it raises, the call raises.
    """

    def __init__(
        self,
        address: PostgresAddress,
        password: str | None,
        limit_s: float,
        *,
        connect: Callable[[PostgresAddress, str | None, float], LimitedConnection] = connect,
        check: Callable[[LimitedConnection], None] = lambda connection: None,
    ) -> None:
        self._address = address
        self._password = password
        self._limit_s = limit_s
        self._connect = connect
        self._check = check
        self._connection: LimitedConnection | None = None
        self._lock = threading.Lock()
        self._closed = False

    def run(self, deadline: float, query: sql.Composed, parameters: tuple[object, ...] = ()) -> list[Any]:
        """Return the rows of a statement, which is tried again until `deadline`, by `monotonic_s`.

        Raises: PostgresUnavailable: no server answered. StorageFailed: the server refuses it.
        """
        return self.call(deadline, lambda connection: connection.execute(query, parameters, binary=True).fetchall())

    def call(self, deadline: float, action: Callable[[LimitedConnection], _T]) -> _T:
        """Call `action` with a connection, again until it succeeds. Raises: as `run`."""
        if not self._lock.acquire(timeout=max(0, deadline - monotonic_s())):
            raise PostgresUnavailable(f"PostgreSQL at {self._address.shown}: an earlier call still waits")
        try:
            while True:
                if self._closed:
                    raise StorageFailed("the metadata store is closed")
                try:
                    if self._connection is None:
                        self._connection = self._connect(self._address, self._password, self._limit_s)
                        self._connection.deadline = deadline
                        self._check(self._connection)
                    self._connection.deadline = deadline
                    return action(self._connection)
                except psycopg.Error as error:
                    self._drop()
                    failure = self._failure(error)
                    if not isinstance(failure, PostgresUnavailable) or monotonic_s() >= deadline:
                        raise failure from error
                except BaseException:  # in the middle of an answer
                    self._drop()
                    raise
                sleep(RETRY_PAUSE_S)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection; a call that waits fails."""
        self._closed = True
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _failure(self, error: psycopg.Error) -> StorageFailed:
        text = " ".join(str(error).split())
        if isinstance(error, errors.DiskFull):
            return DiskFull(f"the disk of PostgreSQL at {self._address.shown} is full: {text}")
        if isinstance(error, _TRANSIENT):
            return PostgresUnavailable(
                f"can't use PostgreSQL at {self._address.shown} within {self._limit_s:g} s: {text}; check that it "
                "runs, is the primary, and lets this user in"
            )
        return StorageFailed(f"PostgreSQL at {self._address.shown} refused a statement: {text}")

"""A connection that answers from a list, for tests of the PostgreSQL store without a server."""

from __future__ import annotations

import socket
from typing import Any

from psycopg import sql

from kqueue.base.errors import StorageFailed
from kqueue.metadata.postgres_address import PostgresAddress


class ScriptedServer:
    """Answers each statement with the next of `answers`: its rows, or an error that it raises;
    StorageFailed if none is left.

    Attributes:
        statements: what was asked, as text with its parameters.
        connections: how many were made.
    """

    def __init__(self, *answers: list[Any] | BaseException) -> None:
        self.answers = list(answers)
        self.statements: list[tuple[str, tuple[object, ...]]] = []
        self.connections: list[ScriptedConnection] = []

    def connect(self, address: PostgresAddress, password: str | None, limit_s: float) -> Any:
        """Return a connection, as `postgres_client.connect` does."""
        self.connections.append(ScriptedConnection(self))
        return self.connections[-1]


class ScriptedConnection:
    """One connection of a `ScriptedServer`."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._rows: list[Any] = []
        self._sockets: tuple[socket.socket, ...] = ()
        self.closed = False
        self.deadline = 0.0

    def execute(
        self, query: sql.Composable | str, parameters: tuple[object, ...] = (), **_: object
    ) -> ScriptedConnection:
        self._server.statements.append((query if isinstance(query, str) else query.as_string(), parameters))
        if not self._server.answers:
            raise StorageFailed("the script has ended")
        answer = self._server.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        self._rows = answer
        return self

    def fetchall(self) -> list[Any]:
        return self._rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def add_notify_handler(self, handler: object) -> None:
        """Nothing is notified."""

    def fileno(self) -> int:
        self._sockets = self._sockets or socket.socketpair()
        return self._sockets[0].fileno()

    def close(self) -> None:
        self.closed = True
        for one in self._sockets:
            one.close()

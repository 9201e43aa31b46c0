"""Connections to PostgreSQL that break, and statements that take too long."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import DiskFull, StorageFailed
from kqueue.metadata.postgres_address import parse_postgres_address
from kqueue.metadata.postgres_client import PostgresClient, PostgresUnavailable
from kqueue.tests.metadata.postgres_model import ScriptedServer
from kqueue.tests.tables import for_each

ADDRESS = parse_postgres_address("postgresql://h/d")
QUERY = sql.SQL("SELECT 1")


def client(server: ScriptedServer) -> PostgresClient:
    return PostgresClient(ADDRESS, None, 10, connect=server.connect)


@for_each(
    "error",
    [
        psycopg.OperationalError("server closed the connection unexpectedly"),
        psycopg.InterfaceError("the connection is closed"),
        errors.AdminShutdown(),
        errors.SerializationFailure(),
        errors.ReadOnlySqlTransaction(),
    ],
)
def test_a_statement_is_sent_again_over_a_new_connection(error: BaseException) -> None:
    server = ScriptedServer(error, [(1,)])
    assert client(server).run(monotonic_s() + 10, QUERY) == [(1,)]
    assert [connection.closed for connection in server.connections] == [True, False]


def test_an_error_of_the_statement_is_not_tried_again() -> None:
    server = ScriptedServer(errors.InsufficientPrivilege("permission denied for schema kqueue"))
    with pytest.raises(StorageFailed, match="h:5432/d refused a statement: permission denied") as caught:
        client(server).run(monotonic_s() + 10, QUERY)
    assert not isinstance(caught.value, PostgresUnavailable)
    assert server.connections[0].closed


def test_a_full_disk_is_named() -> None:
    with pytest.raises(DiskFull, match="disk of PostgreSQL at h:5432/d is full"):
        client(ScriptedServer(errors.DiskFull("no space left"))).run(monotonic_s() + 10, QUERY)


def test_after_the_deadline_the_error_names_the_server_and_what_to_check() -> None:
    server = ScriptedServer(psycopg.OperationalError("connection refused\nIs it running?"))
    with pytest.raises(PostgresUnavailable, match=r"h:5432/d within 10 s: connection refused Is it running\?; check"):
        client(server).run(monotonic_s(), QUERY)


def test_a_closed_client_makes_no_connection() -> None:
    server = ScriptedServer()
    one = client(server)
    one.close()
    with pytest.raises(StorageFailed, match="closed"):
        one.run(monotonic_s() + 10, QUERY)
    assert server.connections == []


def test_a_connection_is_not_used_on_after_an_interruption() -> None:
    server = ScriptedServer(KeyboardInterrupt(), [(1,)])
    one = client(server)
    with pytest.raises(KeyboardInterrupt):
        one.run(monotonic_s() + 10, QUERY)
    assert one.run(monotonic_s() + 10, QUERY) == [(1,)]
    assert len(server.connections) == 2


def _answer(listener: socket.socket) -> None:
    """Let a client in as PostgreSQL does, and answer nothing after that."""
    with listener.accept()[0] as connection:
        connection.recv(8)
        connection.sendall(b"N")
        connection.recv(1024)
        connection.sendall(b"R\0\0\0\x08\0\0\0\0" + b"S\0\0\0\x19client_encoding\0UTF8\0" + b"Z\0\0\0\x05I")
        while connection.recv(1024):
            pass


def test_a_server_that_accepts_and_does_not_answer_is_given_up_at_the_deadline() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=_answer, args=(listener,))
        thread.start()
        port: Any = listener.getsockname()[1]
        text = f"postgresql://u@127.0.0.1:{port}/d?sslmode=prefer&gssencmode=disable&target_session_attrs=primary"
        address = parse_postgres_address(text)
        address.parameters["target_session_attrs"] = "any"  # it would ask the server
        with (
            closing(PostgresClient(address, None, 0.3)) as one,
            pytest.raises(PostgresUnavailable, match="did not answer in time"),
        ):
            one.run(monotonic_s() + 0.3, QUERY)
        thread.join(5)
        assert not thread.is_alive()

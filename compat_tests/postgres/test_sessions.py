"""Sessions on PostgreSQL: a late commit of one that has ended, and what ends one."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import psycopg
import pytest

from compat_tests.postgres.server import Server
from compat_tests.waits import eventually
from kqueue.base.errors import NodeIdInUse, SessionLost, StorageFailed
from kqueue.metadata.postgres import PostgresStore
from kqueue.metadata.postgres_address import parse_postgres_address

SESSION_MS = 600


def lock_counter(server: Server, address: str) -> psycopg.Connection[tuple[object, ...]]:
    """Return a connection whose transaction holds up every change of the store."""
    schema = parse_postgres_address(address).schema
    connection = psycopg.connect(server.address)
    connection.execute(f"SELECT 1 FROM {schema}.counter FOR UPDATE".encode())
    return connection


def test_a_commit_that_waits_until_its_session_has_ended_is_refused(shared_server: Server, address: str) -> None:
    with closing(PostgresStore(address)) as one, closing(PostgresStore(address)) as two:
        session = one.register(1, "one", SESSION_MS)
        raised: list[BaseException] = []

        def commit() -> None:
            try:
                one.commit({}, {"/late": b""}, [], by=session)
            except SessionLost as error:
                raised.append(error)

        with closing(lock_counter(shared_server, address)) as blocker:
            thread = threading.Thread(target=commit)
            thread.start()
            time.sleep(SESSION_MS / 1000 + 0.2)
            blocker.rollback()
        thread.join(10)
        assert len(raised) == 1
        assert session.lost
        assert dict(two.sessions()) == {}
        assert dict(two.read("/")) == {}


def test_a_statement_that_outlives_its_client_does_not_commit_for_a_session_that_ended(
    shared_server: Server, address: str
) -> None:
    """The client gives up, and its connection is closed, while the server waits for the lock."""
    with closing(PostgresStore(address, timeout_s=0.5)) as one, closing(PostgresStore(address)) as two:
        session = one.register(1, "one", SESSION_MS)
        with closing(lock_counter(shared_server, address)) as blocker:
            with pytest.raises(StorageFailed, match="can't use PostgreSQL"):
                one.commit({}, {"/late": b""}, [], by=session)
            time.sleep(SESSION_MS / 1000)
            blocker.rollback()
        eventually(lambda: not two.sessions(), "the session ends")
        assert dict(one.read("/")) == {}
        time.sleep(0.7)  # longer than the statement may still run
        assert dict(two.read("/")) == {}


def test_a_commit_that_was_given_up_is_ruled_out_by_the_next_call(shared_server: Server, address: str) -> None:
    """The statement is sent again by hand, with the id that the store gave up."""
    with closing(PostgresStore(address, timeout_s=0.5)) as store:
        with closing(lock_counter(shared_server, address)) as blocker:
            with pytest.raises(StorageFailed):
                store.commit({}, {"/a": b""}, [])
            blocker.rollback()
        given_up = store._unsettled
        assert given_up is not None
        before = dict(store.read("/"))
        schema = parse_postgres_address(address).schema
        arguments = f"'{given_up}', NULL, NULL, '{{}}', '{{}}', '{{/a}}', ARRAY[''::bytea], '{{}}'"
        ((outcome,),) = shared_server.run(f"SELECT outcome FROM {schema}.change({arguments})")
        assert outcome == ("done" if before else "void")
        assert dict(store.read("/")) == before
        assert store.commit({}, {"/b": b""}, [])


def test_a_node_id_in_use_names_a_process_that_may_have_ended(address: str) -> None:
    with closing(PostgresStore(address)) as one, closing(PostgresStore(address)) as two:
        one.register(1, "first", 60_000)
        with pytest.raises(NodeIdInUse, match="first") as caught:
            two.register(1, "second", 60_000)
        assert caught.value.may_have_ended


def test_a_session_whose_deadline_the_servers_clock_puts_far_away_has_ended(
    shared_server: Server, address: str
) -> None:
    """As after a clock that was set back by an hour."""
    with closing(PostgresStore(address)) as store:
        session = store.register(1, "one", 10_000)
        schema = parse_postgres_address(address).schema
        shared_server.run(f"UPDATE {schema}.sessions SET deadline = deadline + interval '1 hour'")
        with pytest.raises(SessionLost):
            session.keep_alive()
        assert dict(store.sessions()) == {}


def test_a_broker_that_stops_within_a_transaction_holds_up_the_others_for_no_longer_than_a_call(
    shared_server: Server, address: str
) -> None:
    """No statement of the store leaves one open; the server would end it."""
    with closing(PostgresStore(address)) as store:
        store.commit({}, {"/a": b""}, [])
        query = "SELECT state FROM pg_stat_activity WHERE application_name = 'kqueue'"
        assert "idle in transaction" not in {state for (state,) in shared_server.run(query)}

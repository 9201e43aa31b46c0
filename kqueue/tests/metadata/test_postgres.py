"""The PostgreSQL store over scripted answers; `compat_tests/postgres` holds it to its contract over
a server.
"""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from kqueue.base.errors import Conflict, StorageFailed
from kqueue.metadata import postgres
from kqueue.metadata.postgres import PostgresStore
from kqueue.metadata.postgres_client import PostgresClient, PostgresUnavailable
from kqueue.metadata.postgres_schema import MIGRATIONS
from kqueue.tests.metadata.postgres_model import ScriptedServer

READY: tuple[list[object], ...] = ([(True,)], [(len(MIGRATIONS),)])


def open_store(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer, timeout_s: float = 10) -> PostgresStore:
    """A store whose every connection is the server's."""

    def client(address: object, password: str | None, limit_s: float, *, check: object) -> PostgresClient:
        return PostgresClient(address, password, limit_s, connect=server.connect)  # type: ignore[arg-type]

    monkeypatch.setattr(postgres, "PostgresClient", client)
    return PostgresStore("postgresql://h/d", timeout_s=timeout_s)


def test_without_psycopg_the_error_names_the_command() -> None:
    code = "import sys; sys.modules['psycopg'] = None\nimport kqueue.metadata.postgres"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs the package psycopg" in done.stderr
    assert "pip install '.[postgres]'" in done.stderr


def test_a_commit_whose_answer_was_lost_is_sent_again_with_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer(*READY, psycopg.OperationalError("gone"), [("done", 5, None, None)])
    store = open_store(monkeypatch, server)
    assert store.commit({}, {"/a": b""}, []) == {"/a": 5}
    first, second = (parameters for text, parameters in server.statements if "change(" in text)
    assert first == second


def test_a_commit_that_was_given_up_is_ruled_out_before_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer(*READY)
    store = open_store(monkeypatch, server, timeout_s=0)
    server.answers = [psycopg.OperationalError("gone")]
    with pytest.raises(PostgresUnavailable):
        store.commit({}, {"/a": b""}, [])
    ((_, (given_up, *_)),) = [one for one in server.statements if "change(" in one[0]]
    server.answers = [[(None,)], []]
    assert dict(store.read("/")) == {}
    assert ('SELECT "kqueue".void(%s::uuid)', (given_up,)) in server.statements
    server.answers = [[]]
    store.read("/")
    assert server.answers == [], "it was ruled out twice"


def test_a_conflict_says_what_was_expected_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer(*READY, [("conflict", None, "/a", 4)])
    store = open_store(monkeypatch, server)
    with pytest.raises(Conflict, match="/a: expected version 3, found version 4"):
        store.commit({"/b": 1, "/a": 3}, {}, ["/a"])


def test_a_session_is_granted_a_day_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer(*READY, [("done", 1, None)])
    store = open_store(monkeypatch, server)
    assert store.register(1, "one", 2**40).timeout_ms == 24 * 3600 * 1000


def test_a_version_that_is_none_of_the_stores_is_asked_for_as_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer(*READY, [(None, None, 3, True), ("/a", b"", 3, None)])
    store = open_store(monkeypatch, server)
    changes = store.changes(2**70)
    assert (changes.version, changes.complete, dict(changes.entries)) == (3, True, {"/a": (b"", 3)})
    assert server.statements[-1][1] == (0, 0)


def test_close_ends_what_waits_and_a_closed_store_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer(*READY)
    store = open_store(monkeypatch, server)
    store.close()
    store.close()
    assert all(connection.closed for connection in server.connections)
    with pytest.raises(StorageFailed, match="closed"):
        store.watch(lambda: None)

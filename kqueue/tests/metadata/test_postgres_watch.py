"""The thread that watches a PostgreSQL store, over scripted answers."""

from __future__ import annotations

import logging
import threading

import psycopg
import pytest

from kqueue.metadata.postgres_address import parse_postgres_address
from kqueue.metadata.postgres_client import PostgresClient
from kqueue.metadata.postgres_watch import ChangeListener
from kqueue.tests.metadata.postgres_model import ScriptedServer

ADDRESS = parse_postgres_address("postgresql://h/d")


class Watch:
    """A listener over a server's answers; `calls` counts those of notify."""

    def __init__(self, server: ScriptedServer) -> None:
        self.calls = threading.Semaphore(0)
        client = PostgresClient(ADDRESS, None, 10, connect=server.connect)
        self.listener = ChangeListener(client, "kqueue", self.calls.release, poll_interval_s=0.01)

    def end(self) -> None:
        self.listener.stop()
        self.listener._thread.join(10)
        assert not self.listener._thread.is_alive()


def test_a_watch_is_called_for_what_it_finds_by_polling_and_listens_again_after_a_break() -> None:
    same = [[(1,)], [(7, 0, 5000)]]
    server = ScriptedServer(
        [], *same, *same,
        [(2,)], [(7, 0, 5000)],
        [(2,)], [(7, 3, 5000)],
        psycopg.OperationalError("gone"), [], [(2,)], [],
    )  # fmt: skip
    watch = Watch(server)
    for what in ("the first look", "a commit", "a term", "the end of a session"):
        assert watch.calls.acquire(timeout=10), what
    watch.end()
    assert not watch.calls.acquire(blocking=False), "a call without a change"
    assert [text for text, _ in server.statements].count('LISTEN "kqueue_kqueue"') == 2
    assert len(server.connections) == 2


def test_a_server_that_can_not_be_read_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    failures = [psycopg.errors.InsufficientPrivilege("permission denied")] * 3
    server = ScriptedServer(*failures, [], [(1,)], [])
    with caplog.at_level(logging.WARNING):
        watch = Watch(server)
        assert watch.calls.acquire(timeout=10)
        watch.end()
    assert len([message for message in caplog.messages if "permission denied" in message]) == 1
    assert "can't read the metadata store for changes, trying on: PostgreSQL at h:5432/d" in caplog.messages[0]

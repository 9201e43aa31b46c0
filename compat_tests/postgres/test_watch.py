"""Watches on PostgreSQL: by notifications, and without them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from compat_tests.postgres.proxy import Proxy
from compat_tests.postgres.server import Server
from compat_tests.waits import eventually
from kqueue.metadata.postgres import PostgresStore


class Calls:
    """Counts the calls of `notify`."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __call__(self) -> None:
        self.event.set()

    def settle(self) -> None:
        """Return once no call has come for a while."""
        self.event.clear()
        while self.event.wait(0.3):
            self.event.clear()


@contextmanager
def watched(address: str, poll_interval_s: float) -> Iterator[tuple[PostgresStore, Calls]]:
    with closing(PostgresStore(address, poll_interval_s=poll_interval_s)) as store:
        calls = Calls()
        store.watch(calls)
        assert calls.event.wait(10), "no call after the first look"
        calls.settle()
        yield store, calls


def test_a_watch_is_woken_by_notifications_alone(address: str) -> None:
    with watched(address, poll_interval_s=60) as (_, calls), closing(PostgresStore(address)) as other:
        other.commit({}, {"/a": b""}, [])
        assert calls.event.wait(5)


def test_a_watch_without_notifications_polls(shared_server: Server, address: str) -> None:
    with watched(address, poll_interval_s=0.1) as (store, calls), closing(PostgresStore(address)) as other:
        listener = store._listener
        assert listener is not None
        listener._client.call(time.monotonic() + 5, lambda connection: connection.execute("UNLISTEN *"))
        calls.settle()
        for number in range(3):
            other.commit({}, {"/a": b"%d" % number}, [])
            assert calls.event.wait(5)
            calls.settle()


def test_a_watch_sees_what_changed_while_its_connection_was_cut(shared_server: Server) -> None:
    with Proxy(shared_server.port) as proxy:
        schema = "?schema=cut_watch"
        with (
            closing(PostgresStore(f"{shared_server.address}{schema}")) as other,
            watched(f"{proxy.address}{schema}", poll_interval_s=60) as (store, calls),
        ):
            for number in range(5):
                proxy.cut()
                other.commit({}, {"/a": b"%d" % number}, [])
                assert calls.event.wait(10)
                eventually(lambda: store.read("/a")["/a"].value == b"%d" % number, "the entry")  # noqa: B023
                calls.settle()
            other.commit({}, {"/b": b""}, [])
            assert calls.event.wait(5), "the new connection is not notified"


def test_a_watch_is_called_when_a_session_runs_out(address: str) -> None:
    with watched(address, poll_interval_s=60) as (_, calls), closing(PostgresStore(address)) as other:
        other.register(1, "one", 800)
        calls.settle()
        assert calls.event.wait(5)
        assert dict(other.sessions()) == {}

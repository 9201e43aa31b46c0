"""Sessions and terms of the ZooKeeper store: how they end."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from kqueue.base.errors import SessionLost, StorageFailed
from kqueue.tests.metadata.zookeeper_model import ModelServer, open_store, server

__all__ = ["server"]


def test_a_broker_that_hangs_loses_its_session_though_kazoo_keeps_it_alive(server: ModelServer) -> None:
    with closing(open_store()) as store, closing(open_store()) as other:
        session = store.register(1, "one", 1000)
        begin = time.monotonic()
        while time.monotonic() < begin + 2:
            session.keep_alive()
            time.sleep(0.02)
        assert set(other.sessions()) == {1}
        kept_until = time.monotonic()
        while other.sessions():
            assert time.monotonic() < kept_until + 20
            time.sleep(0.01)
        assert time.monotonic() >= kept_until + 0.5
        assert session.lost
        with pytest.raises(SessionLost):
            session.keep_alive()


@pytest.mark.parametrize(("timeout_ms", "asked_ms"), [(9000, 7000), (8000, 6000), (1000, 750)])
def test_zookeeper_gets_a_shorter_timeout_because_it_ends_sessions_late(
    server: ModelServer, timeout_ms: int, asked_ms: int
) -> None:
    with closing(open_store()) as store:
        assert store.register(1, "one", timeout_ms).timeout_ms == asked_ms


def test_an_outage_of_zookeeper_does_not_end_a_session(server: ModelServer) -> None:
    with closing(open_store(timeout_s=1)) as store:
        session = store.register(1, "one", 1500)
        server.stop()
        begin = time.monotonic()
        while time.monotonic() < begin + 2:
            with pytest.raises(StorageFailed, match="does not answer"):
                session.keep_alive()
            assert not session.lost
        server.start()
        session.keep_alive()
        store.commit({}, {"/a": b""}, [], by=session)


def test_a_call_that_waits_for_zookeeper_does_not_end_the_session_behind_it(server: ModelServer) -> None:
    """The calls of a broker follow one another: its next `keep_alive` is late by that much."""
    with closing(open_store(timeout_s=2)) as store:
        session = store.register(1, "one", 900)
        server.stop()
        for _ in range(2):
            with pytest.raises(StorageFailed, match="does not answer"):
                store.read("/")
            assert not session.lost
            begin = time.monotonic()
            with pytest.raises(StorageFailed, match="does not answer"):
                session.keep_alive()
            assert time.monotonic() < begin + 1.5, "a sign of life waits for a third of the timeout at most"
        server.start()
        session.keep_alive()
        assert set(store.sessions()) == {1}
        until = time.monotonic() + 20
        while not session.lost:
            assert time.monotonic() < until, "calls beside it do not keep it alive"
            store.read("/")
            time.sleep(0.02)


def test_an_end_that_zookeeper_may_not_have_heard_of_is_reported(server: ModelServer) -> None:
    with closing(open_store(timeout_s=1)) as store:
        session = store.register(1, "one", 60_000)
        term = store.campaign(session)
        server.stop()
        with pytest.raises(StorageFailed, match="does not answer"):
            term.resign()
        assert not term.lost
        with pytest.raises(StorageFailed, match="does not answer"):
            session.end()
        assert session.lost
        assert term.lost
        server.start()
        assert set(store.sessions()) == {1}, "it ends by its timeout"


def test_an_end_whose_answer_is_lost_is_an_end(server: ModelServer) -> None:
    with closing(open_store()) as store:
        session = store.register(1, "one", 60_000)
        store.campaign(session)
        begin = server.transactions
        server.fault = lambda number, request: (setattr(server, "fault", lambda *_: None), "after")[1]
        session.end()
        assert server.transactions == begin + 3, "both nodes are found gone, one after the other"
        assert (dict(store.sessions()), store.controller()) == ({}, None)

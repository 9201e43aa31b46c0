"""Sessions and terms of the ZooKeeper store: how they end."""

from __future__ import annotations

from contextlib import closing

import pytest

from kqueue.base.errors import SessionLost, StorageFailed
from kqueue.metadata import zookeeper, zookeeper_session
from kqueue.metadata.zookeeper_session import ZookeeperSession
from kqueue.tests.metadata.zookeeper_model import ModelServer, open_store, server
from kqueue.tests.waits import eventually

__all__ = ["server"]


class ManualTime:
    """The clock of a session from now on: it moves only by `advance`."""

    def __init__(self, session: ZookeeperSession) -> None:
        self._now_s = session._clock()
        session._clock = lambda: self._now_s

    def advance(self, seconds: float) -> None:
        self._now_s += seconds


def test_a_broker_that_hangs_loses_its_session_though_kazoo_keeps_it_alive(server: ModelServer) -> None:
    with closing(open_store()) as store, closing(open_store()) as other:
        session = store.register(1, "one", 1000)
        time = ManualTime(session)
        for _ in range(20):
            session.keep_alive()
            time.advance(0.1)
        assert set(other.sessions()) == {1}
        time.advance(0.6)
        assert not session.lost
        time.advance(0.1)
        eventually(lambda: not other.sessions())
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
    with closing(open_store(timeout_s=0.15)) as store:
        session = store.register(1, "one", 1500)
        time = ManualTime(session)
        server.stop()
        for _ in range(3):
            time.advance(1)
            with pytest.raises(StorageFailed, match="does not answer"):
                session.keep_alive()
            assert not session.lost
        server.start()
        session.keep_alive()
        store.commit({}, {"/a": b""}, [], by=session)


def test_a_call_that_waits_for_zookeeper_does_not_end_the_session_behind_it(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of a broker follow one another: its next `keep_alive` is late by that much."""
    with closing(open_store(timeout_s=20)) as store:
        session = store.register(1, "one", 9000)
        now_s = [1000.0]
        monkeypatch.setattr(zookeeper, "monotonic_s", lambda: now_s[0])
        session._kept_alive_at = session._clock()
        limits_s: list[float] = []

        def wait(deadline: float, requests: object) -> list[object]:
            limits_s.append(deadline - now_s[0])
            now_s[0] = deadline
            raise StorageFailed("it does not answer")

        monkeypatch.setattr(zookeeper_session, "monotonic_s", lambda: now_s[0])
        with monkeypatch.context() as outage:
            outage.setattr(store._client, "gather", wait)
            outage.setattr(session.client, "gather", wait)
            for _ in range(2):
                with pytest.raises(StorageFailed, match="does not answer"):
                    store.read("/")
                assert not session.lost
                with pytest.raises(StorageFailed, match="does not answer"):
                    session.keep_alive()
        assert limits_s == pytest.approx([20, session.timeout_ms / 3000] * 2), "a third of the timeout at most"
        session.keep_alive()
        assert set(store.sessions()) == {1}
        for _ in range(10):
            store.read("/")
            now_s[0] += 1
        assert session.lost, "calls beside it do not keep it alive"


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

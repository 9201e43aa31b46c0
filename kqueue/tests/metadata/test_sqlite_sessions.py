"""Sessions in an SQLite store, by a manual clock that its brokers share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kqueue.base.clock import SystemClock
from kqueue.base.errors import NodeIdInUse, SessionLost, StorageFailed
from kqueue.metadata.session_locks import SessionLocks
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.sqlite_sessions import boot_id
from kqueue.metadata.store import SessionInfo
from kqueue.testing.manual_clock import ManualClock


def test_a_session_lives_by_its_deadline_to_the_millisecond(tmp_path: Path) -> None:
    clock = ManualClock()
    path = tmp_path / "kqueue.db"
    with closing(SqliteStore(path, clock=clock)) as one, closing(SqliteStore(path, clock=clock)) as two:
        session = one.register(1, "one", 1000)
        term = one.campaign(session)
        assert term is not None
        clock.advance(999)
        session.keep_alive()
        clock.advance(999)
        assert two.sessions() == {1: SessionInfo(1, "one")}
        one.commit({}, {"/a": b""}, [], by=term)
        clock.advance(1)
        assert two.sessions() == {}
        assert two.controller() is None
        assert (session.lost, term.lost) == (True, True)
        with pytest.raises(SessionLost):
            session.keep_alive()
        with pytest.raises(SessionLost):
            one.commit({}, {"/a": b""}, [], by=term)
        assert two.register(1, "two", 1000).epoch == 2


def test_a_row_of_an_earlier_boot_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock began again, so that the deadline of the row may lie ahead."""
    monkeypatch.setattr(SessionLocks, "is_held", lambda self, number: True)
    path = tmp_path / "kqueue.db"
    clock = ManualClock()
    with closing(SqliteStore(path, clock=clock)) as store:
        clock.advance(1_000_000)
        store.register(1, "before", 60_000)
        with closing(SqliteStore(path, clock=clock)) as same_boot, pytest.raises(NodeIdInUse):
            same_boot.register(1, "after", 60_000)
        with closing(SqliteStore(path, clock=ManualClock())) as restarted:
            assert restarted.sessions() == {}  # no session has that much time left
        monkeypatch.setattr("kqueue.metadata.sqlite_sessions.boot_id", lambda: "another")
        with closing(SqliteStore(path, clock=clock)) as after:
            assert after.sessions() == {}
            assert after.register(1, "after", 60_000).epoch == 2


def test_without_locks_the_timeout_ends_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionLocks, "acquire", lambda self, number: False)
    path = tmp_path / "kqueue.db"
    clock = ManualClock()
    with closing(SqliteStore(path, clock=clock)) as one, closing(SqliteStore(path, clock=clock)) as two:
        one.register(1, "one", 1000)
        assert two.sessions().keys() == {1}
        clock.advance(1000)
        assert two.sessions().keys() == set()


def test_the_machines_boot_has_an_id() -> None:
    assert len(boot_id()) == (36 if sys.platform == "linux" else 0)


def test_a_registration_that_fails_leaves_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kqueue.db"
    clock = SystemClock()  # given, so that the stores commit themselves
    with closing(SqliteStore(path, clock=clock)) as one, closing(SqliteStore(path, clock=clock)) as two:
        monkeypatch.setattr(one, "_connect_unsynced", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one.register(1, "one", 60_000)
        monkeypatch.undo()
        assert two.sessions() == {}
        session = two.register(1, "two", 60_000)
        assert session.epoch == 1  # nobody saw the epoch of the first one
        assert one.sessions() == {1: SessionInfo(1, "two")}
        one.close()
        assert two.sessions().keys() == {1}
        two.commit({}, {"/a": b""}, [], by=session)


def test_a_registration_with_an_unknown_outcome_leaves_no_live_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happened, but its process does not know: without its lock, it is not in anyone's way."""
    path = tmp_path / "kqueue.db"
    clock = SystemClock()
    with closing(SqliteStore(path, clock=clock)) as one, closing(SqliteStore(path, clock=clock)) as two:
        changing = one._changing

        @contextmanager
        def fail_after(what: str) -> Iterator[None]:
            with changing(what):
                yield
            raise StorageFailed("could not tell")

        monkeypatch.setattr(one, "_changing", fail_after)
        with pytest.raises(StorageFailed, match="could not tell"):
            one.register(1, "one", 60_000)
        monkeypatch.undo()
        assert one.sessions() == two.sessions() == {}
        assert two.register(1, "two", 60_000).epoch == 2

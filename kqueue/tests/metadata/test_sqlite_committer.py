"""When a committer process starts, ends and is replaced. `test_sqlite_stopped` stops it."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.metadata import sqlite_committer
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.sqlite_committer import CommitterProcess

LONG_MS = 600_000_000

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are no committers elsewhere")


def test_a_committer_that_was_killed_is_replaced(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "kqueue.db")) as store:
        session = store.register(1, "one", LONG_MS)
        assert store._committer is not None
        first = store._committer.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        assert store.commit({}, {"/a": b"1"}, [], by=session) == {"/a": 1}
        assert store._committer.pid != first
        assert store.sessions().keys() == {1}, "its lock is the broker's too"
        session.keep_alive()


def test_a_committer_ends_with_its_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kqueue.db")
    session = store.register(1, "one", LONG_MS)
    assert store._committer is not None
    pid = store._committer.pid
    store.close()
    assert not Path(f"/proc/{pid}").exists()
    for call in (session.keep_alive, lambda: store.commit({}, {}, [])):
        with pytest.raises(StorageFailed):
            call()


def test_a_store_without_a_session_has_no_committer(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "kqueue.db")) as store:
        store.commit({}, {"/a": b"1"}, [])
        assert store._committer is None


def test_without_an_interpreter_a_store_commits_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with closing(SqliteStore(tmp_path / "kqueue.db")) as store:
        session = store.register(1, "one", LONG_MS)
        assert store.commit({}, {"/a": b"1"}, [], by=session) == {"/a": 1}
        session.keep_alive()
    assert [record.message for record in caplog.records if "holds up all others" in record.message]


def test_an_error_at_the_start_of_a_committer_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE other (a)")
    with pytest.raises(StorageFailed, match="no metadata store of kqueue"):
        CommitterProcess(str(path), None)


def test_a_committer_that_does_not_answer_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_committer, "CALL_TIMEOUT_S", 0.0)
    monkeypatch.setattr(sqlite_committer, "POLL_S", 0.01)
    last = "from kqueue.metadata.committer_main import main"
    sleeps = (
        "import time; from kqueue.metadata import sqlite; sqlite.SqliteStore._commit = lambda *_: time.sleep(600)\n"
    )
    begin = sqlite_committer._BEGIN.replace(last, sleeps + last)
    store = SqliteStore(
        tmp_path / "kqueue.db", start_committer=lambda path, lock_fd: CommitterProcess(path, lock_fd, begin)
    )
    with closing(store):
        monkeypatch.setattr(sqlite_committer, "CALL_TIMEOUT_S", 60.0)
        session = store.register(1, "one", LONG_MS)
        assert store._committer is not None
        pid = store._committer.pid
        monkeypatch.setattr(sqlite_committer, "CALL_TIMEOUT_S", 0.05)
        with pytest.raises(StorageFailed, match="it is unknown whether"):
            store.commit({}, {"/a": b"1"}, [], by=session)
        assert not Path(f"/proc/{pid}").exists(), "what it has not done does not happen later"
        monkeypatch.setattr(sqlite_committer, "CALL_TIMEOUT_S", 60.0)
        session.keep_alive()  # by the next one

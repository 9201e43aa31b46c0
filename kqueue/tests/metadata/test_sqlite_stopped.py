"""A broker, its committer or both are stopped before each statement of what they do to a store.

`cluster_tests/test_stopped_commits.py` does the same at each system call.
"""

from __future__ import annotations

import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.metadata import lock_holders, sqlite_committer
from kqueue.metadata.lock_holders import LockHolders, StuckWatch
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.sqlite_committer import CommitterProcess
from kqueue.tests.metadata.shared_clock import SharedClock
from kqueue.tests.metadata.stopped_committer import open_on_shared_clock, stop_file
from kqueue.tests.metadata.store_process import StoreProcess, store_process

SESSION_MS = 9_000
LONG_MS = 600_000_000
CALLS: dict[str, list[object]] = {
    "commit": ["commit", {}, {"/a": "new", "/b": "new"}],
    "keep_alive": ["keep_alive"],
    "campaign": ["campaign"],
    "register": ["register", 1, "one", SESSION_MS],
}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds holders of locks by /proc")


def stop_or_answer(other: StoreProcess, path: Path) -> bool:
    """Wait until the stop has happened, or the call was answered; return whether it was stopped."""
    deadline_s = time.monotonic() + 60
    while stop_file(path).exists():
        assert time.monotonic() < deadline_s
        assert other.process.stdout is not None
        if select.select([other.process.stdout], [], [], 0.002)[0]:
            return False
    return True


@pytest.mark.parametrize(
    ("whom", "call"),
    [*(("both", call) for call in CALLS), ("broker", "commit"), ("committer", "commit")],
)
def test_others_commit_and_elect_wherever_a_broker_is_stopped(tmp_path: Path, whom: str, call: str) -> None:
    path, clock = tmp_path / "kqueue.db", SharedClock(tmp_path / "clock")
    patience_s = 0.1 if whom == "committer" else LONG_MS  # of a broker that runs
    with closing(open_on_shared_clock(path, clock)) as store, store_process(path, clock, patience_s) as other:
        own = store.register(2, "two", LONG_MS)
        statements = 0
        while True:
            other.call("register", 1, "one", SESSION_MS)
            assert isinstance(other.call("campaign"), int)
            other.call("commit", {}, {"/a": "old", "/b": "old"})
            committer = other.call("committer")
            stop_file(path).write_text(f"{statements + 1} {whom}")
            other.send(*CALLS[call])
            if not stop_or_answer(other, path):
                break
            statements += 1
            if whom != "committer":
                other.wait_until_stopped()
            store.commit({}, {"/c": b"%d" % statements}, [])
            own.keep_alive()
            clock.advance(SESSION_MS)
            assert store.sessions().keys() == {2}, "the session of the stopped broker has ended, the other has not"
            term = store.campaign(own)
            assert term is not None
            with suppress(ProcessLookupError):  # it was killed
                os.kill(committer, signal.SIGCONT)
            if whom != "committer":
                other.resume()
            answer = other.answer()
            values = {key: entry.value for key, entry in store.read("/").items()}
            assert values["/a"] == values["/b"], "a commit happens whole or not at all"
            store.commit({}, {"/d": b""}, [], by=term)
            if isinstance(answer, dict):
                assert values["/a"] == b"new"
            elif call != "register":  # of which the answer may be a new epoch
                assert answer is None or answer[1] in ("SessionLost", "StorageFailed")
                assert answer is None or answer[1] == "StorageFailed" or values["/a"] == b"old"
            if whom != "committer" and call != "register":
                assert other.call("commit", {}, {"/a": "late"})[1] == "SessionLost"
            term.resign()
        stop_file(path).unlink()
        assert other.answer() is None or statements
        assert statements >= 4


def test_a_process_that_is_no_committer_is_not_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holders, "STOPPED_S", 0.0)
    monkeypatch.setattr(lock_holders, "LOOK_INTERVAL_S", 0.0)
    path = tmp_path / "kqueue.db"
    SqliteStore(path).close()
    program = (
        "import os, signal, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE'); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)]) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        holders = LockHolders(str(path))
        assert holders._holder() == process.pid
        for _ in range(3):
            holders.look()
        time.sleep(0.01)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(60) == 0
        assert holders._holder() is None


def test_a_stopped_process_is_stuck_and_a_running_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holders, "STOPPED_S", 0.0)
    watch = StuckWatch()
    assert not watch.is_stuck(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert watch.is_stuck(process.pid)
        process.kill()
    assert not watch.is_stuck(process.pid), "it has ended"


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

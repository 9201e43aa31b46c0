"""Several processes share one SQLite store, and are killed and stopped."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from kqueue.base.errors import NodeIdInUse
from kqueue.metadata import sqlite_watch
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.store import ControllerInfo
from kqueue.tests.metadata.shared_clock import SharedClock
from kqueue.tests.metadata.stopped_committer import open_on_shared_clock
from kqueue.tests.metadata.store_process import store_process
from kqueue.tests.waits import eventually

LONG_MS = 600_000


def test_a_killed_process_loses_its_session_at_once(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    with closing(SqliteStore(path)) as store, store_process(path) as other:
        assert other.call("register", 1, "first", LONG_MS) == 1
        assert other.call("campaign") == 1
        assert other.call("commit", {"/a": None}, {"/a": "1"}) == {"/a": 1}
        assert store.controller() == ControllerInfo(1, 1)
        with pytest.raises(NodeIdInUse, match="first"):
            store.register(1, "second", LONG_MS)
        woken = threading.Event()
        stop = store.watch(woken.set)
        other.process.kill()  # SIGKILL
        assert woken.wait(60)
        assert store.sessions() == {}
        assert store.controller() is None
        session = store.register(1, "second", LONG_MS)  # the timeout of the first one is far away
        assert session.epoch == 2
        assert store.campaign(session) is not None
        stop()


def test_a_stopped_process_loses_its_session_by_the_timeout_and_does_not_get_it_back(tmp_path: Path) -> None:
    """Its commit is refused although its guards hold: nobody changed the key meanwhile."""
    path, clock = tmp_path / "kqueue.db", SharedClock(tmp_path / "clock")
    with closing(open_on_shared_clock(path, clock)) as store, store_process(path, clock) as other:
        other.call("register", 1, "first", 500)
        assert other.call("campaign") == 1
        version = other.call("commit", {}, {"/a": "1"})["/a"]
        other.call("keep_alive")
        other.process.send_signal(signal.SIGSTOP)
        other.wait_until_stopped()
        other.send("commit", {"/a": version}, {"/a": "2"})
        clock.advance(499)
        assert store.sessions().keys() == {1}
        clock.advance(1)
        assert store.sessions() == {}
        session = store.register(2, "second", LONG_MS)
        term = store.campaign(session)
        assert term is not None
        assert term.epoch == 2
        other.resume()
        assert other.answer()[:2] == ["error", "SessionLost"]
        assert other.call("lost") is True
        for call in (["keep_alive"], ["campaign"], ["commit", {}, {"/a": "3"}]):
            assert other.call(*call)[:2] == ["error", "SessionLost"]
        assert store.read("/")["/a"] == (b"1", version)
        assert store.sessions().keys() == {2}
        assert other.call("register", 1, "first", LONG_MS) == 3


def test_processes_in_competition_lose_no_update(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    with closing(SqliteStore(path)) as store, store_process(path) as one, store_process(path) as two:
        store.commit({}, {"/n": b"0"}, [])
        for process in (one, two):
            process.send("count", 150)
        conflicts = sum(process.answer() for process in (one, two))
        entry = store.read("/n")["/n"]
        assert entry.value == b"300"
        assert entry.version == 301
        assert conflicts >= 0


@pytest.mark.long
def test_a_session_is_kept_alive_among_writers_that_do_not_pause(tmp_path: Path) -> None:
    """Attempts that wait longer and longer for the lock take seconds, many of them."""
    path = tmp_path / "kqueue.db"
    with closing(SqliteStore(path)) as store, store_process(path) as one, store_process(path) as two:
        session = store.register(1, "one", LONG_MS)
        processes = (one, two)
        for process in processes:
            process.send("put_forever")
            process.answer()
        passed = []
        for _ in range(40):
            before = store.changes(0).version
            session.keep_alive()
            passed.append(store.changes(0).version - before)
            time.sleep(0.01)
        assert sorted(passed)[-4] < 200  # commits of others meanwhile: a few


def test_a_commit_of_another_process_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    with closing(SqliteStore(path)) as store, store_process(path) as other:
        woken = threading.Event()
        stop = store.watch(woken.set)
        for number in range(20):
            woken.clear()
            assert f"/{number}" in other.call("commit", {}, {f"/{number}": "x"})
            assert woken.wait(60)
        stop()
        assert sorted(store.changes(1).entries) == sorted(f"/{number}" for number in range(1, 20))


def test_last_commit_of_a_killed_process_is_whole_or_absent(tmp_path: Path) -> None:
    """Its last commit, whose outcome nobody was told, happened in whole or not at all."""
    path = tmp_path / "kqueue.db"
    with closing(SqliteStore(path)) as store:
        for _ in range(3):
            with store_process(path) as other:
                other.send("put_forever")
                for _ in range(10):
                    returned = other.answer()
                other.process.kill()
                assert other.process.stdout is not None
                rest = other.process.stdout.read()  # `communicate` would miss what its buffer holds
                returned = max([returned, *map(int, rest.split())])
                values = {key: int(entry.value) for key, entry in store.read("/").items()}
                assert values in ({"/a": returned, "/b": returned}, {"/a": returned + 1, "/b": returned + 1})


def test_an_idle_watch_waits_before_each_look_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[object] = []

    class Woken(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout is not None:  # else it is the start of the thread
                steps.append(timeout)
            return super().wait(timeout)

    data_version = sqlite_watch.FileObserver.data_version

    def look(self: sqlite_watch.FileObserver) -> int:
        steps.append("look")
        return data_version(self)

    with closing(SqliteStore(tmp_path / "kqueue.db")) as store:
        session = store.register(1, "one", LONG_MS)
        calls: list[None] = []
        monkeypatch.setattr(sqlite_watch.FileObserver, "data_version", look)
        with monkeypatch.context() as patch:
            patch.setattr(threading, "Event", Woken)
            stop = store.watch(lambda: calls.append(None))
        eventually(lambda: steps.count("look") > 10)
        session.keep_alive()  # is no change
        looks = steps.count("look")
        eventually(lambda: steps.count("look") > looks + 10)
        stop()
    assert not calls
    assert set(steps) == {sqlite_watch.POLL_INTERVAL_S, "look"}
    assert not [pair for pair in pairwise(steps[1:]) if pair == ("look", "look")]

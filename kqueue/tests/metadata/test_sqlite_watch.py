"""The changes of other processes, as a store notices them; see also test_sqlite_processes."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from kqueue.metadata import sqlite_watch
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.sqlite_watch import FileObserver
from kqueue.tests.waits import eventually


def watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "metadata-watch"]


def test_watches_share_a_thread_that_ends_with_the_last_one(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "kqueue.db")) as store:
        assert not watching()
        woken = [threading.Event(), threading.Event()]
        stops = [store.watch(event.set) for event in woken]
        assert len(watching()) == 1
        store.commit({}, {"/a": b""}, [])
        assert all(event.wait(60) for event in woken)
        for stop in stops:
            stop()
        for thread in watching():
            thread.join(60)
        assert not watching()
        woken[0].clear()
        store.watch(woken[0].set)
        store.commit({}, {"/a": b""}, [])
        assert woken[0].wait(60)
    for thread in watching():
        thread.join(60)
    assert not watching()


def test_a_commit_of_the_same_store_does_not_wait_for_the_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_watch, "POLL_INTERVAL_S", 600.0)
    with closing(SqliteStore(tmp_path / "kqueue.db")) as store:
        woken = threading.Event()
        store.watch(woken.set)
        store.commit({}, {"/a": b""}, [])
        assert woken.wait(60)


def test_a_store_in_memory_is_watched_too() -> None:
    with closing(SqliteStore(":memory:")) as store:
        woken = threading.Event()
        stop = store.watch(woken.set)
        store.commit({}, {"/a": b""}, [])
        assert woken.wait(60)
        woken.clear()
        store.register(1, "one", 50)
        assert woken.wait(60)
        woken.clear()
        assert woken.wait(60)  # it expired
        stop()


def test_a_store_that_cannot_be_read_is_tried_again_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_watch, "ERROR_INTERVAL_S", 0.02)
    read = FileObserver.data_version
    failures: list[None] = []

    def fail(self: FileObserver) -> int:
        failures.append(None)
        raise sqlite3.OperationalError("disk I/O error")

    with closing(SqliteStore(tmp_path / "kqueue.db")) as store, caplog.at_level(logging.WARNING):
        woken = threading.Event()
        store.watch(woken.set)
        monkeypatch.setattr(FileObserver, "data_version", fail)
        eventually(lambda: len(failures) >= 4)
        assert not woken.is_set()
        monkeypatch.setattr(FileObserver, "data_version", read)
        assert woken.wait(60)  # something may have changed meanwhile
    assert [record.getMessage() for record in caplog.records] == [
        "can't read the metadata store for changes, trying on: disk I/O error"
    ]

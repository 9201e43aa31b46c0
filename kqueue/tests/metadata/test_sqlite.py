"""The promise of the SQLite store alone: its file; the contract itself is in test_store."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from kqueue.base.errors import Conflict, StorageFailed
from kqueue.metadata.sqlite import FORMAT, SqliteStore
from kqueue.metadata.store import Entry


def test_survives_closing(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    with closing(SqliteStore(path)) as store:
        version = store.commit({}, {"/a": b"1"}, [])["/a"]
        store.commit({}, {"/b": b"1"}, [])
        store.commit({}, {}, ["/b"])
    with closing(SqliteStore(path)) as store:
        assert store.read("/")["/a"] == (b"1", version)
        assert store.commit({"/b": None}, {"/b": b"again"}, [])["/b"] > version + 1  # versions go on where they were


def test_commit_survives_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    code = (
        "import os, sys\nfrom kqueue.metadata.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\nfor i in range(5): store.commit({}, {f'/{i}': b'x'}, [])\n"
        "store._db.execute('BEGIN IMMEDIATE'); store._db.execute('DELETE FROM entries')\nos._exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, os.fspath(path)], check=False).returncode == 7
    with closing(SqliteStore(path)) as store:
        assert sorted(store.read("/")) == [f"/{i}" for i in range(5)]


def test_each_commit_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    """A copy of the files taken right after a commit, as a power cut would leave them, holds it."""
    live, cut = tmp_path / "live", tmp_path / "cut"
    live.mkdir()
    with closing(SqliteStore(live / "kqueue.db")) as store:
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: the log is fsynced at each commit
        for number in range(3):
            store.commit({}, {f"/{number}": b"x"}, [])
            shutil.copytree(live, cut)
            with closing(SqliteStore(cut / "kqueue.db")) as copy:
                assert len(copy.read("/")) == number + 1
            shutil.rmtree(cut)


def test_two_open_stores_see_each_others_commits(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    with closing(SqliteStore(path)) as one, closing(SqliteStore(path)) as two:
        version = one.commit({"/a": None}, {"/a": b"1"}, [])["/a"]
        with pytest.raises(Conflict):
            two.commit({"/a": None}, {"/a": b"2"}, [])
        assert two.commit({"/a": version}, {"/a": b"2"}, [])["/a"] == version + 1
        assert one.read("/a")["/a"].value == b"2"


OPEN_AT_ONCE = """
import sys, time
from kqueue.metadata.sqlite import SqliteStore

folder, begin_s, rounds = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
for number in range(rounds):
    time.sleep(max(begin_s + number * 0.05 - time.time(), 0))
    SqliteStore(f"{folder}/{number}.db").close()
"""


@pytest.mark.long
def test_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    arguments = [str(tmp_path), str(time.time() + 2), "20"]
    processes = [subprocess.Popen([sys.executable, "-c", OPEN_AT_ONCE, *arguments]) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]


def test_refuses_a_newer_format_and_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(StorageFailed, match=rf"expected format {FORMAT}, found {FORMAT + 1}"):
        SqliteStore(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (FORMAT + 1,)


def create_format_1(path: Path) -> None:
    """Write a file as format 1 had it, after three commits, the last of which deleted /gone."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(
            "CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"
        )
        db.execute("CREATE TABLE counter (last_version INTEGER NOT NULL)")
        db.execute("INSERT INTO counter VALUES (3)")
        db.execute("INSERT INTO entries VALUES ('/a', x'31', 1), ('/b', x'32', 2)")
        db.execute("PRAGMA application_id = 0x6B717565")
        db.execute("PRAGMA user_version = 1")


def test_a_file_of_format_1_is_upgraded_and_keeps_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    create_format_1(path)
    for _ in range(2):
        with closing(SqliteStore(path)) as store:
            assert store.read("/") == {"/a": (b"1", 1), "/b": (b"2", 2)}
            assert store.changes(2).complete  # what the third commit deleted is not known
            assert store.changes(3) == (3, {}, False)
    with closing(SqliteStore(path)) as store:
        assert store.register(0, "one", 1000).epoch == 1
        assert store.commit({"/a": 1}, {"/a": b"new"}, ["/b"]) == {"/a": 4}
        assert store.changes(3) == (4, {"/a": (b"new", 4), "/b": None}, False)


def test_an_upgrade_that_fails_leaves_format_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kqueue.db"
    create_format_1(path)
    with monkeypatch.context() as patch:
        patch.setattr("kqueue.metadata.sqlite.TABLE", "CREATE TABLE entries (a)")  # fails as the last but one step
        with pytest.raises(StorageFailed, match="already exists"):
            SqliteStore(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT * FROM counter").fetchall() == [(3,)]
        assert [row[0] for row in db.execute("SELECT name FROM sqlite_master ORDER BY name")] == ["counter", "entries"]
    with closing(SqliteStore(path)) as store:
        assert sorted(store.read("/")) == ["/a", "/b"]


def test_a_single_broker_creates_no_lock_file_and_no_thread(tmp_path: Path) -> None:
    threads = threading.active_count()
    with closing(SqliteStore(tmp_path / "kqueue.db")) as store:
        store.commit({}, {"/a": b""}, [])
        assert {path.name for path in tmp_path.iterdir()} <= {"kqueue.db", "kqueue.db-wal", "kqueue.db-shm"}
        assert threading.active_count() == threads


def test_deletions_are_remembered_up_to_a_limit(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "kqueue.db", deletions_max=4)) as store:
        store.commit({}, {f"/{number}": b"" for number in range(12)}, [])
        for number in range(5):
            store.commit({}, {}, [f"/{number}"])
        assert store._db.execute("SELECT count(*) FROM deletions").fetchone() == (2,)
        assert store.changes(3).complete
        assert store.changes(4) == (6, {"/3": None, "/4": None}, False)
        store.commit({}, {}, [f"/{number}" for number in range(5, 12)])
        assert store.changes(6) == (7, {}, True)
        assert store.changes(7) == (7, {}, False)


def test_refuses_another_programs_database(tmp_path: Path) -> None:
    path = tmp_path / "kqueue.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StorageFailed, match="no metadata store of kqueue"):
        SqliteStore(path)


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + bytes(200)])
def test_refuses_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kqueue.db"
    path.write_bytes(content)
    with pytest.raises(StorageFailed, match=r"kqueue\.db"):
        SqliteStore(path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="nowhere"):
        SqliteStore(tmp_path / "nowhere" / "kqueue.db")


def test_a_failing_disk_is_told_as_storage_failed_and_nothing_is_half_done(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "kqueue.db")) as store:
        store.commit({}, {"/a": b"1"}, [])
        store._db.execute("PRAGMA max_page_count = 8")
        with pytest.raises(StorageFailed, match="full"):
            store.commit({}, {"/b": bytes(100_000)}, ["/a"])
        assert store.read("/") == {"/a": (b"1", 1)}


def test_a_store_in_memory_creates_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(SqliteStore(":memory:")) as store:
        versions = store.commit({}, {"/a": b"1"}, [])
        assert store.read("/") == {"/a": Entry(b"1", versions["/a"])}
    assert list(tmp_path.iterdir()) == []

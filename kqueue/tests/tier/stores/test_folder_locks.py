"""Locks on keys of a folder: between threads, and between processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kqueue.tier.errors import TierError, TierUnavailable
from kqueue.tier.stores import folder_locks
from kqueue.tier.stores.folder_locks import FolderLocks


def test_lock_excludes_other_threads_of_other_objects_too(tmp_path: Path) -> None:
    locks, others = FolderLocks(str(tmp_path / "locks")), FolderLocks(str(tmp_path / "locks"))
    held = []
    with locks.held("a"):

        def hold() -> None:
            with others.held("a"):
                held.append("other")

        thread = threading.Thread(target=hold)
        thread.start()
        thread.join(0.05)
        held.append("first")
    thread.join(30)
    assert held == ["first", "other"]


def test_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from kqueue.tier.stores.folder_locks import FolderLocks\n"
        "with FolderLocks(sys.argv[1]).held('a'):\n"
        "    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60, check=False).returncode == 9
    with FolderLocks(str(tmp_path)).held("a"):
        pass


def test_number_of_lock_files_is_bounded(tmp_path: Path) -> None:
    locks = FolderLocks(str(tmp_path))
    for number in range(1000):
        with locks.held(f"topics/{number}"):
            pass
    assert len(list(tmp_path.iterdir())) <= folder_locks.STRIPES


def test_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TierUnavailable, match="can't open the lock"), FolderLocks(str(tmp_path / "file")).held("a"):
        pass


def test_lock_that_the_file_system_lacks_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", flock)
    with (
        pytest.raises(TierUnavailable, match="can't lock .*Operation not supported"),
        FolderLocks(str(tmp_path)).held("a"),
    ):
        pass


def test_platform_without_flock_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_locks, "fcntl", None)
    with pytest.raises(TierError, match="no flock: use an object store"):
        FolderLocks("/tmp/tier")

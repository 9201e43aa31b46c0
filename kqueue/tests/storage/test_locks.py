from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.base.errors import FolderInUse, FolderLost, StorageFailed
from kqueue.storage import LocalStorage
from kqueue.storage import locks as module
from kqueue.storage.locks import LocalLock

fcntl = pytest.importorskip("fcntl")

TRY = """
import sys
from kqueue.base.errors import FolderInUse
from kqueue.storage import LocalStorage
try:
    LocalStorage(sys.argv[1]).lock(".lock").release()
    print("free")
except FolderInUse as error:
    print(error)
"""
TRY_AS_KAFKA = """
import fcntl, sys
with open(sys.argv[1] + "/.lock", "a") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("free")
    except OSError:
        print("locked")
"""
HOLD_AS_KAFKA = """
import fcntl, sys
file = open(sys.argv[1] + "/.lock", "a")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def other_process(folder: Path, script: str = TRY) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[LocalLock]:
    lock = LocalStorage(tmp_path).lock(".lock")
    yield lock
    lock.release()


def hold_as_kafka(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD_AS_KAFKA, str(folder)], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    with process:
        process.communicate("", timeout=60)


def test_a_second_attempt_in_the_process_leaves_the_first_lock_whole(lock: LocalLock, tmp_path: Path) -> None:
    for spelling in (tmp_path, tmp_path / "." / "x" / "..", link_to(tmp_path)):
        with pytest.raises(FolderInUse, match="this process"):
            LocalLock(f"{spelling}/.lock")
    assert other_process(tmp_path, TRY_AS_KAFKA) == "locked"
    assert other_process(tmp_path).endswith("is locked by another process")


def link_to(folder: Path) -> Path:
    (folder / "x").mkdir()
    link = folder.parent / f"{folder.name}-link"
    link.symlink_to(folder)
    return link


def test_closing_another_descriptor_of_the_file_leaves_kqueue_excluded_and_the_check_locks_again(
    lock: LocalLock, tmp_path: Path
) -> None:
    (tmp_path / ".lock").read_bytes()  # e.g. a copy of the folder that the user's program makes
    assert other_process(tmp_path).endswith("is locked by another process")
    assert other_process(tmp_path, TRY_AS_KAFKA) == "free"
    assert lock.check() is None
    assert other_process(tmp_path, TRY_AS_KAFKA) == "locked"


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_file_that_was_removed_or_replaced_is_locked_again(
    lock: LocalLock, tmp_path: Path, replaced: bool
) -> None:
    (tmp_path / ".lock").unlink()
    if replaced:
        (tmp_path / ".lock").write_bytes(b"")
    assert other_process(tmp_path).endswith("is locked by another process")
    assert (
        lock.check()
        == f"{tmp_path}/.lock was {'replaced' if replaced else 'removed'} while it was locked; it is locked again"
    )
    assert lock.check() is None
    assert other_process(tmp_path, TRY_AS_KAFKA) == "locked"
    with pytest.raises(FolderInUse):
        LocalLock(f"{tmp_path}/.lock")


@pytest.mark.parametrize("removed", [False, True])
def test_a_lock_that_another_process_took_meanwhile_is_lost(lock: LocalLock, tmp_path: Path, removed: bool) -> None:
    if removed:
        (tmp_path / ".lock").unlink()
    else:
        (tmp_path / ".lock").read_bytes()
    other = hold_as_kafka(tmp_path)
    try:
        with pytest.raises(FolderLost, match=r"\.lock was .* another process"):
            lock.check()
    finally:
        end(other)


def test_a_folder_that_was_replaced_is_lost_and_no_lock_file_is_made_there(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    lock = LocalStorage(folder).lock(".lock")
    folder.rename(tmp_path / "moved")
    with pytest.raises(FolderLost, match="removed or renamed"):
        lock.check()
    folder.mkdir()
    with pytest.raises(FolderLost, match="replaced by another folder"):
        lock.check()
    assert not list(folder.iterdir())
    lock.release()


def test_a_forked_process_neither_keeps_nor_gives_up_the_lock(lock: LocalLock, tmp_path: Path) -> None:
    to_child, to_parent = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lock.release()  # as the broker's own stop would
            held_elsewhere = b"no"
            try:
                LocalLock(f"{tmp_path}/.lock")
            except FolderInUse as error:
                held_elsewhere = str(error).encode()
            os.write(to_parent[1], held_elsewhere)
            os.read(to_child[0], 1)
        finally:
            os._exit(0)
    try:
        assert os.read(to_parent[0], 1000).endswith(b"is locked by another process")
        assert other_process(tmp_path).endswith("is locked by another process")
        assert other_process(tmp_path, TRY_AS_KAFKA) == "locked"
        lock.release()
        assert other_process(tmp_path) == "free"  # although the child lives
    finally:
        os.write(to_child[1], b"x")
        os.waitpid(child, 0)
        for fd in (*to_child, *to_parent):
            os.close(fd)


def test_lock_falls_back_to_file_and_table_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(fd: int, operation: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    lock = LocalStorage(tmp_path).lock(".lock")
    with pytest.raises(FolderInUse, match="this process"):
        LocalStorage(tmp_path).lock(".lock")
    assert other_process(tmp_path).endswith("is locked by another process")
    (tmp_path / ".lock").unlink()
    with pytest.raises(FolderInUse, match="this process"):
        LocalStorage(tmp_path).lock(".lock")
    assert lock.check() is not None
    lock.release()
    assert other_process(tmp_path) == "free"


def test_without_fcntl_the_table_excludes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fcntl", None)
    lock = LocalStorage(tmp_path).lock(".lock")
    with pytest.raises(FolderInUse, match="this process"):
        LocalStorage(tmp_path).lock(".lock")
    assert lock.check() is None
    lock.release()
    LocalStorage(tmp_path).lock(".lock").release()


def test_a_hard_link_to_a_held_lock_file_is_not_opened(lock: LocalLock, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    os.link(tmp_path / ".lock", tmp_path / "other" / ".lock")
    with pytest.raises(FolderInUse, match="this process"):
        LocalStorage(tmp_path / "other").lock(".lock")
    assert other_process(tmp_path, TRY_AS_KAFKA) == "locked"


def test_a_lock_file_that_is_a_symbolic_link_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / ".lock").symlink_to(tmp_path / "target")
    with pytest.raises(StorageFailed, match="expected a regular file, found l"):
        LocalStorage(folder).lock(".lock")
    assert not (tmp_path / "target").exists()


def test_a_disk_that_fails_does_not_count_as_a_lost_lock(
    lock: LocalLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", fail)
        with pytest.raises(StorageFailed, match="can't check the lock") as caught:
            lock.check()
    assert not isinstance(caught.value, FolderLost)
    assert lock.check() is None
    lock.release()
    assert lock.check() is None

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.storage import LocalStorage
from kqueue.storage import local as module
from kqueue.storage.local import Descriptors


def open_descriptors(root: Path) -> int:
    """How many descriptors of this process point below `root`, maps' included."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            count += str(link.readlink()).startswith(str(root))
        except FileNotFoundError:
            continue
    return count


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")


@needs_proc
def test_opening_a_file_costs_no_descriptor_before_it_is_used(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    files = [storage.open(f"{number}", create=True) for number in range(50)]
    assert open_descriptors(tmp_path) == 0
    files[7].append(b"x")
    assert open_descriptors(tmp_path) == 1


@needs_proc
def test_thousands_of_files_share_few_descriptors_and_lose_nothing(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, Descriptors(16))
    files = [storage.open(f"{number}", create=True) for number in range(1000)]
    for _ in range(2):
        for number, file in enumerate(files):
            file.append(b"%d." % number)
            file.sync()
    assert open_descriptors(tmp_path) <= 16
    for number, file in enumerate(files):
        assert file.read_at(0, 99) == b"%d.%d." % (number, number)
        assert bytes(file.map()) == b"%d.%d." % (number, number)
    assert open_descriptors(tmp_path) <= 2 * 16


@needs_proc
def test_files_in_use_stay_open_and_idle_ones_go(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, Descriptors(4))
    busy = storage.open("busy", create=True)
    busy.append(b"x")
    busy.sync()
    descriptor = busy.region(0, 1).fileno()
    for number in range(40):
        busy.read_at(0, 1)
        storage.open(f"{number}", create=True).read_at(0, 1)
        assert busy.region(0, 1).fileno() == descriptor


@needs_proc
def test_unsynced_files_keep_their_descriptor_up_to_twice_the_bound(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, Descriptors(4))
    files = [storage.open(f"{number}", create=True) for number in range(7)]
    for file in files:
        file.append(b"x")
    assert open_descriptors(tmp_path) == 7
    others = [storage.open(f"more{number}", create=True) for number in range(20)]
    for file in others:
        file.append(b"y")
    assert open_descriptors(tmp_path) <= 8
    assert all(file.read_at(0, 1) == b"x" for file in files)


@needs_proc
def test_a_region_keeps_its_own_descriptor_until_it_is_let_go(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    file = storage.open("a", create=True)
    file.append(b"0123456789")
    region = file.region(2, 3)
    file.close()
    (tmp_path / "a").unlink()
    (tmp_path / "a").write_bytes(b"somebody else's")
    descriptor = region.fileno()
    assert descriptor is not None
    assert os.pread(descriptor, 3, 2) == b"234" == region.read()
    assert open_descriptors(tmp_path) == 1
    del region
    assert open_descriptors(tmp_path) == 0


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, data[:3], position))
    file.append(b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_short_read_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: real(fd, min(size, 3), position))
    assert file.read_at(1, 20) == b"123456789"


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "ftruncate", "pread"])
def test_a_disk_that_fails_is_named_with_file_and_reason(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, call):
        pytest.skip(f"no os.{call} here")
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"0123")

    def fail(*args: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    uses = {
        "pwrite": lambda: file.append(b"x"),
        "fdatasync": file.sync,
        "ftruncate": lambda: file.truncate(1),
        "pread": lambda: file.read_at(0, 1),
    }
    with pytest.raises(StorageFailed, match=r"a: EIO, Input/output error"):
        uses[call]()


def test_without_fdatasync_it_is_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"x")
    synced: list[int] = []
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(module, "_FULL_SYNC", None)
    monkeypatch.setattr(os, "fsync", synced.append)
    file.sync()
    assert len(synced) == 1


def test_where_nobody_can_tell_pages_count_as_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"x" * 10_000)
    assert file.region(0, 10_000).is_cached()
    assert file.region(5, 0).is_cached()
    if hasattr(os, "RWF_NOWAIT"):

        def not_cached(*args: object) -> int:
            raise BlockingIOError(errno.EAGAIN, "would wait")

        monkeypatch.setattr(os, "preadv", not_cached)
        assert not file.region(0, 10_000).is_cached()

        def unsupported(*args: object) -> int:
            raise OSError(errno.EOPNOTSUPP, "no such flag")

        monkeypatch.setattr(os, "preadv", unsupported)
        assert file.region(0, 10_000).is_cached()
    monkeypatch.setattr(module, "_NOWAIT", None)
    assert file.region(0, 10_000).is_cached()


def test_another_process_holding_the_lock_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    script = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        storage = LocalStorage(tmp_path)
        with pytest.raises(FolderInUse, match="another process"):
            storage.lock(".lock")
        other.communicate("")
    storage.lock(".lock").release()


def test_two_storages_of_one_folder_share_the_lock(tmp_path: Path) -> None:
    lock = LocalStorage(tmp_path).lock(".lock")
    with pytest.raises(FolderInUse, match="this process"):
        LocalStorage(tmp_path).lock(".lock")
    lock.release()
    LocalStorage(tmp_path).lock(".lock").release()


def test_a_read_only_file_can_be_read_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"0123")
    real = os.open

    def read_only(path: str, flags: int, *mode: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", read_only)
    storage = LocalStorage(tmp_path)
    file = storage.open("a")
    assert file.read_at(0, 9) == b"0123"
    with pytest.raises(StorageFailed, match="can't write to"):
        file.append(b"x")
    with pytest.raises(StorageFailed, match=r"can't create .*EROFS"):
        storage.open("b", create=True)


def test_a_folder_that_can_not_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed, match="can't make data folder"):
        LocalStorage(tmp_path / "file" / "data")


def test_a_file_that_vanished_is_file_not_found(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    file = storage.open("a", create=True)
    (tmp_path / "a").unlink()
    with pytest.raises(FileNotFoundError):
        file.read_at(0, 1)
    with pytest.raises(FileNotFoundError):
        file.sync()


def test_the_folder_is_made_and_its_place_is_its_path(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "x" / "y")
    assert (tmp_path / "x" / "y").is_dir()
    assert storage.place == str(tmp_path / "x" / "y")
    assert storage.free_bytes() is None or storage.free_bytes() > 0  # type: ignore[operator]


def test_descriptors_are_a_part_of_what_the_process_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    for allowed, limit in ((1024, 128), (64, 32), (10**6, 512), (resource.RLIM_INFINITY, 512)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, allowed=allowed: (allowed, allowed))
        assert Descriptors().limit == limit


def test_an_atomic_write_is_not_cut_short(tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000
    LocalStorage(tmp_path).write_atomic("big", data)
    assert (tmp_path / "big").read_bytes() == data

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.storage import LocalStorage, descriptor_cache
from kqueue.storage import local as module
from kqueue.storage.descriptor_cache import DescriptorCache, OpenFiles
from kqueue.tests.processes import started
from kqueue.tests.storage.open_descriptors import needs_proc, open_descriptors


@needs_proc
def test_opening_a_file_costs_no_descriptor_before_it_is_used(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    files = [storage.open(f"{number}", create=True) for number in range(50)]
    assert open_descriptors(tmp_path) == 0
    files[7].append(b"x")
    assert open_descriptors(tmp_path) == 1


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files whose next fdatasync fails, once, as the kernel reports such an error."""
    names: set[str] = set()
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        name = Path(f"/proc/self/fd/{fd}").readlink().name
        if name in names:
            names.discard(name)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    return names


@needs_proc
def test_an_error_of_write_back_reaches_its_own_file_and_no_other(tmp_path: Path, failing: set[str]) -> None:
    storage = LocalStorage(tmp_path, DescriptorCache(4, OpenFiles(bound=8)))
    files = [storage.open(f"{number}", create=True) for number in range(40)]
    failing.add("7")
    for file in files:
        file.append(b"x")
    assert not failing, "it was synced to make room"
    for number, file in enumerate(files):
        if number == 7:
            for change in (file.sync, lambda file=file: file.append(b"y"), lambda file=file: file.truncate(0)):
                with pytest.raises(StorageFailed, match=r"can't sync .*/7: EIO"):
                    change()
        else:
            file.sync()
    again = storage.open("7")
    again.sync()
    assert again.append(b"z") == 1


@needs_proc
def test_a_failed_sync_is_raised_by_each_later_sync_and_append_of_the_file(tmp_path: Path, failing: set[str]) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"x")
    failing.add("a")
    for _ in range(3):
        with pytest.raises(StorageFailed, match="EIO"):
            file.sync()
        with pytest.raises(StorageFailed, match="EIO"):
            file.append(b"y")
        file.close()
    assert file.read_at(0, 9) == b"x"


@needs_proc
def test_two_syncs_at_once_both_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports an error of write-back to one of two that sync by one descriptor."""
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"x")
    started, go_on = threading.Event(), threading.Event()
    errors = [errno.EIO]

    def fdatasync(fd: int) -> None:
        started.set()
        go_on.wait(60)
        if errors:
            raise OSError(errors.pop(), "failed")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(file.sync)
        assert started.wait(60)
        second = pool.submit(file.sync)
        go_on.set()
        assert isinstance(first.exception(60), StorageFailed)
        assert isinstance(second.exception(60), StorageFailed)


@needs_proc
def test_an_error_of_close_reaches_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    real = os.close

    def close(fd: int) -> None:
        real(fd)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "close", close)
    file.append(b"x")
    monkeypatch.undo()
    file.close()
    with pytest.raises(StorageFailed, match="EDQUOT"):
        file.sync()


@needs_proc
def test_a_file_and_all_its_regions_share_one_descriptor(tmp_path: Path) -> None:
    open_files = OpenFiles(bound=100)
    storage = LocalStorage(tmp_path, DescriptorCache(4, open_files))
    file = storage.open("a", create=True)
    file.append(b"0123")
    file.sync()
    regions = [file.region(0, 4)]
    for number in range(40):  # evicts it
        storage.open(f"{number}", create=True).read_at(0, 1)
        regions.append(file.region(0, 4))
    file.sync()
    assert len({region.fileno() for region in regions}) == 1
    file.close()
    del regions[:]
    live = len(open_files.live)
    assert live == open_descriptors(tmp_path) <= 4
    file.region(0, 4)
    file.close()
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        file.region(0, 4)


@needs_proc
def test_a_closed_file_is_not_read_through_the_descriptor_of_an_old_region(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    file = storage.open("a", create=True)
    file.append(b"old")
    region = file.region(0, 3)
    file.close()
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "new").rename(tmp_path / "a")
    assert file.read_at(0, 3) == b"new"
    assert region.read() == b"old"


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
def test_a_disk_that_fails_is_named_with_file_and_reason(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_pages_count_as_cached_where_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(descriptor_cache, "_NOWAIT", None)
    assert file.region(0, 10_000).is_cached()


def test_region_that_is_in_the_page_cache_is_read_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    assert file.region(2, 5).read_cached() == b"23456"
    if hasattr(os, "RWF_NOWAIT"):
        assert file.region(8, 5).read_cached() is None, "the file ends before the region"
        monkeypatch.setattr(os, "pread", None)
        assert file.region(2, 5).read_cached() == b"23456"


def test_region_that_is_not_wholly_in_the_page_cache_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    if hasattr(os, "RWF_NOWAIT"):
        monkeypatch.setattr(os, "preadv", lambda *args: 4)
        assert file.region(0, 10).read_cached() is None

        def not_cached(*args: object) -> int:
            raise BlockingIOError(errno.EAGAIN, "would wait")

        monkeypatch.setattr(os, "preadv", not_cached)
        assert file.region(0, 10).read_cached() is None


def test_region_is_read_where_it_is_unknown_what_is_in_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalStorage(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    if hasattr(os, "RWF_NOWAIT"):

        def unsupported(*args: object) -> int:
            raise OSError(errno.EOPNOTSUPP, "no such flag")

        monkeypatch.setattr(os, "preadv", unsupported)
        assert file.region(2, 5).read_cached() == b"23456"
    monkeypatch.setattr(descriptor_cache, "_NOWAIT", None)
    assert file.region(2, 5).read_cached() == b"23456"


def test_another_process_holding_the_lock_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    script = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with started(
        [sys.executable, "-c", script, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
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
    assert storage.location == str(tmp_path / "x" / "y")
    assert storage.free_bytes() is None or storage.free_bytes() > 0  # type: ignore[operator]


def test_an_atomic_write_is_not_cut_short(tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000
    LocalStorage(tmp_path).write_atomic("big", data)
    assert (tmp_path / "big").read_bytes() == data

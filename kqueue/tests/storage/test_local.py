from __future__ import annotations

import builtins
import errno
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from kqueue.base.errors import FolderInUse, StorageFailed, TooManyOpenFiles
from kqueue.storage import LocalStorage, Region, descriptor_cache
from kqueue.storage import local as module
from kqueue.storage.descriptor_cache import DescriptorCache, OpenFiles


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
    storage = LocalStorage(tmp_path, DescriptorCache(16))
    files = [storage.open(f"{number}", create=True) for number in range(1000)]
    for _ in range(2):
        for number, file in enumerate(files):
            file.append(b"%d." % number)
            file.sync()
    assert open_descriptors(tmp_path) <= 16
    for number, file in enumerate(files):
        assert file.read_at(0, 99) == b"%d.%d." % (number, number)
    assert open_descriptors(tmp_path) <= 2 * 16


@needs_proc
def test_files_in_use_stay_open_and_idle_ones_go(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, DescriptorCache(4))
    busy = storage.open("busy", create=True)
    busy.append(b"x")
    busy.sync()
    descriptor = busy.region(0, 1).fileno()
    for number in range(40):
        busy.read_at(0, 1)
        storage.open(f"{number}", create=True).read_at(0, 1)
        assert busy.region(0, 1).fileno() == descriptor


@needs_proc
def test_unsynced_files_keep_their_descriptor_and_the_oldest_are_synced_in_jobs(tmp_path: Path) -> None:
    cache = DescriptorCache(4, OpenFiles(bound=100))
    jobs: list[Callable[[], None]] = []
    cache.sync_with(jobs.append)
    storage = LocalStorage(tmp_path, cache)
    files = [storage.open(f"{number}", create=True) for number in range(51)]
    for file in files:
        file.append(b"x")
    assert open_descriptors(tmp_path) == 51
    assert len(jobs) == 1
    assert all(file.unsynced for file in files), "nothing is synced on the spot"
    jobs.pop()()
    assert [file.unsynced for file in files] == [False] * 32 + [True] * 19
    storage.open("another", create=True).append(b"y")
    assert open_descriptors(tmp_path) < 30
    assert all(file.read_at(0, 1) == b"x" for file in files)


def test_without_jobs_the_oldest_are_synced_at_once(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, DescriptorCache(4, OpenFiles(bound=8)))
    files = [storage.open(f"{number}", create=True) for number in range(20)]
    for file in files:
        file.append(b"x")
    assert sum(file.unsynced for file in files) <= 4


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
    begun, go_on = threading.Event(), threading.Event()
    errors = [errno.EIO]

    def fdatasync(fd: int) -> None:
        begun.set()
        go_on.wait(60)
        if errors:
            raise OSError(errors.pop(), "failed")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(file.sync)
        assert begun.wait(60)
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


def test_regions_leave_a_quarter_of_the_descriptors_to_writers(tmp_path: Path) -> None:
    open_files = OpenFiles(bound=40)
    storage = LocalStorage(tmp_path, DescriptorCache(4, open_files))
    scarce: list[int] = []
    open_files.on_scarce.append(lambda: scarce.append(len(open_files.live)))
    for number in range(60):
        (tmp_path / f"{number}").write_bytes(b"x")
    regions: list[Region] = []
    regions += [storage.open(f"{number}").region(0, 1) for number in range(30)]
    with pytest.raises(TooManyOpenFiles, match="30 files of logs are open, 30 may be"):
        storage.open("30").region(0, 1)
    assert scarce[0] == 20
    assert storage.open("50").read_at(0, 1) == b"x"
    file = storage.open("59")
    file.append(b"y")
    file.sync()
    for number in range(40, 60):  # what holds no region is closed for it
        assert storage.open(f"{number}").read_at(0, 1) == b"x"
    del regions[5:]
    assert storage.open("58").region(0, 1).read() == b"x"


def test_at_the_bound_nothing_is_opened_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    cache = DescriptorCache(4, OpenFiles(bound=8, clock=lambda: now[0]))
    cache.sync_with(lambda run: None)  # jobs that are not run yet
    storage = LocalStorage(tmp_path, cache)
    files = [storage.open(f"{number}", create=True) for number in range(12)]
    for file in files[:8]:
        file.append(b"x")
    for file in files[8:]:
        for use in (lambda file=file: file.append(b"x"), file.sync, lambda file=file: file.read_at(0, 1)):
            with pytest.raises(TooManyOpenFiles, match=r"can't open .*: 8 files of logs are open, 8 may be"):
                use()
    assert len(caplog.records) == 1
    assert "Raise the limit on open files" in caplog.text
    now[0] += 10
    with pytest.raises(TooManyOpenFiles):
        files[8].append(b"x")
    assert len(caplog.records) == 2
    files[0].sync()
    assert files[8].append(b"x") == 0
    assert [(tmp_path / f"{number}").stat().st_size for number in range(8, 12)] == [1, 0, 0, 0]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_where_the_system_refuses_it_is_no_fault_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    storage = LocalStorage(tmp_path, DescriptorCache(4, OpenFiles(bound=100)))
    file = storage.open("a", create=True)
    (tmp_path / "folder").mkdir()

    def refuse(*args: object, **named: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        for module_, name in ((os, "open"), (os, "scandir"), (builtins, "open"), (io, "open")):
            patch.setattr(module_, name, refuse)
        uses: list[Callable[[], object]] = [
            lambda: file.append(b"x"),
            lambda: file.read_at(0, 1),
            lambda: file.truncate(0),
            lambda: file.region(0, 0),
            file.sync,
            lambda: storage.open("b", create=True),
            lambda: storage.read("a"),
            lambda: storage.list("folder"),
            lambda: storage.sync_folder("folder"),
            lambda: storage.write_atomic("c", b""),
            lambda: storage.lock(".lock"),
        ]
        raised = []
        for use in uses:
            try:
                use()
            except TooManyOpenFiles as error:
                raised.append(str(error))
    assert len(raised) == len(uses)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]
    assert file.append(b"x") == 0
    file.sync()


@needs_proc
def test_where_the_system_refuses_idle_files_are_closed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path, DescriptorCache(40, OpenFiles(bound=100)))
    for number in range(30):
        storage.open(f"{number}", create=True)
    kept = [storage.open(f"{number}") for number in range(30)]
    for file in kept:
        file.read_at(0, 1)
    real = os.open

    def open_(path: str, flags: int, *mode: int) -> int:
        if open_descriptors(tmp_path) >= 30:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", open_)
    storage.sync_folder("")
    assert storage.open("new", create=True).append(b"x") == 0


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
    monkeypatch.setattr(descriptor_cache, "_NOWAIT", None)
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


def test_descriptors_are_a_part_of_what_the_process_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    open_files = OpenFiles()
    connections = [0]
    open_files.claims.append(connections.pop)
    cases = ((1024, 128, 896), (64, 32, 32), (10**6, 512, 65_536), (resource.RLIM_INFINITY, 512, 65_536))
    for allowed, limit, bound in cases:
        monkeypatch.setattr(resource, "getrlimit", lambda kind, allowed=allowed: (allowed, allowed))
        assert DescriptorCache(open_files=open_files).limit == limit
        connections.append(0)
        assert open_files.bound == bound
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 1024))
    for count, bound in ((100, 796), (768, 128), (1000, 128)):
        connections.append(count)
        assert open_files.bound == bound


def test_an_atomic_write_is_not_cut_short(tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000
    LocalStorage(tmp_path).write_atomic("big", data)
    assert (tmp_path / "big").read_bytes() == data

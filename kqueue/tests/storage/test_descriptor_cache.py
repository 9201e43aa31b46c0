from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from kqueue.base.errors import TooManyOpenFiles
from kqueue.storage import LocalStorage, Region
from kqueue.storage.descriptor_cache import DescriptorCache, OpenFiles
from kqueue.tests.storage.open_descriptors import needs_proc, open_descriptors


@pytest.mark.long
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
def test_refused_open_is_no_fault_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
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
def test_refused_open_closes_idle_files_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

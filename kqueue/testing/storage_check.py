"""What every `Storage` must do, as checks that a backend's own tests can run."""

from __future__ import annotations

import pickle
from collections.abc import Callable

from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.storage.contract import Entry, Storage


def check_storage(make: Callable[[], Storage]) -> None:
    """Run all `STORAGE_CHECKS`, each on a new, empty storage that `make` gives. Raises AssertionError: what the storage does wrong."""
    for check in STORAGE_CHECKS:
        check(make())


def appends_go_to_the_end(storage: Storage) -> None:
    file = storage.open("a.log", create=True)
    assert file.size == 0, "a new file is empty"
    assert file.append(b"abc") == 0
    assert file.append(bytearray(b"de")) == 3, "append says where the bytes begin"
    assert file.append(memoryview(b"xfgx")[1:3]) == 5
    assert file.append(b"") == 7
    assert file.size == 7
    assert storage.read("a.log") == b"abcdefg"


def reads_end_with_the_file(storage: Storage) -> None:
    file = storage.open("a.log", create=True)
    file.append(b"0123456789")
    assert file.read_at(2, 3) == b"234"
    assert file.read_at(8, 10) == b"89", "a read past the end is short"
    assert file.read_at(10, 1) == b""
    assert file.read_at(50, 5) == b""
    assert file.read_at(0, 0) == b""


def big_appends_arrive_whole(storage: Storage) -> None:
    data = bytes(range(256)) * 8192
    file = storage.open("a.log", create=True)
    file.append(b"x")
    assert file.append(data) == 1
    assert file.read_at(1, len(data)) == data


def files_stay_after_closing(storage: Storage) -> None:
    file = storage.open("a.log", create=True)
    file.append(b"abc")
    file.close()
    file.close()
    assert file.size == 3
    assert file.append(b"d") == 3, "a closed file opens again by itself"
    file.close()
    again = storage.open("a.log")
    assert again.size == 4
    assert again.read_at(0, 9) == b"abcd"
    assert again.append(b"e") == 4
    assert storage.open("a.log", create=True).size == 5, "create leaves a file that is there"
    assert storage.open("a.log", size=5).append(b"f") == 5


def truncation_cuts_the_end(storage: Storage) -> None:
    file = storage.open("a.log", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size == 4
    assert file.append(b"ab") == 4
    file.sync()
    assert storage.read("a.log") == b"0123ab"
    file.truncate(0)
    assert storage.read("a.log") == b""


def maps_show_the_whole_file(storage: Storage) -> None:
    file = storage.open("a.index", create=True)
    assert bytes(file.map()) == b""
    file.append(b"0123")
    view = file.map()
    assert bytes(view) == b"0123"
    assert view.readonly
    file.append(b"45")
    assert bytes(file.map()) == b"012345", "a map after an append shows what was appended"
    file.truncate(1)
    assert bytes(file.map()) == b"0"
    file.close()
    assert bytes(file.map()) == b"0"


def regions_outlive_their_file(storage: Storage) -> None:
    file = storage.open("a.log", create=True)
    file.append(b"0123456789")
    region = file.region(3, 4)
    assert len(region) == 4
    assert region.is_region
    assert region.is_cached(), "what was just written is in memory"
    file.append(b"more")
    file.close()
    storage.remove("a.log")
    assert region.read() == b"3456", "a region stays readable when its file is closed and its name is gone"
    number = region.fileno()
    assert number is None or number > 2


def missing_files_are_reported(storage: Storage) -> None:
    _raises(FileNotFoundError, lambda: storage.open("none"))
    _raises(FileNotFoundError, lambda: storage.open("no/folder/a", create=True))
    _raises(FileNotFoundError, lambda: storage.read("none"))
    _raises(FileNotFoundError, lambda: storage.remove("none"))
    _raises(FileNotFoundError, lambda: storage.rename("none", "some"))
    _raises(FileNotFoundError, lambda: storage.list("none"))
    _raises(FileNotFoundError, lambda: storage.sync_folder("none"))
    assert not storage.exists("none")


def folders_hold_names(storage: Storage) -> None:
    storage.make_folder("b/c")
    storage.make_folder("b/c")
    storage.open("b/file", create=True).append(b"xyz")
    storage.open("b/c/deep", create=True)
    assert storage.list("") == [Entry("b", 0, True)]
    assert storage.list("b") == [Entry("c", 0, True), Entry("file", 3, False)], "a listing is sorted and has sizes"
    assert storage.exists("b")
    assert storage.exists("b/c/deep")
    _raises(StorageFailed, lambda: storage.remove("b/c"))
    storage.remove("b/c/deep")
    storage.remove("b/c")
    assert [entry.name for entry in storage.list("b")] == ["file"]
    storage.sync_folder("b")
    storage.sync_folder("")


def renaming_replaces(storage: Storage) -> None:
    storage.make_folder("f")
    storage.open("f/a", create=True).append(b"new")
    storage.open("f/b", create=True).append(b"old")
    storage.rename("f/a", "f/b")
    assert storage.read("f/b") == b"new"
    assert [entry.name for entry in storage.list("f")] == ["b"]
    storage.rename("f", "g")
    assert storage.read("g/b") == b"new", "a folder takes its files along"
    assert not storage.exists("f")
    storage.make_folder("f")
    assert storage.list("f") == []


def atomic_writes_replace(storage: Storage) -> None:
    storage.make_folder("f")
    storage.write_atomic("f/checkpoint", b"one")
    storage.write_atomic("f/checkpoint", b"two!")
    assert storage.read("f/checkpoint") == b"two!"
    assert [entry.name for entry in storage.list("f")] == ["checkpoint"], "nothing temporary is left"


def locks_exclude(storage: Storage) -> None:
    lock = storage.lock(".lock")
    _raises(FolderInUse, lambda: storage.lock(".lock"))
    lock.release()
    lock.release()
    storage.lock(".lock").release()


def paths_stay_inside(storage: Storage) -> None:
    for path in ("../a", "a/../../b", "/etc/passwd", "a//b", "a/", ".", "a/./b", "a\\b", "a\0b"):
        for use in (storage.open, storage.remove, storage.list, storage.make_folder, storage.exists, storage.read, storage.sync_folder):
            _raises(ValueError, lambda use=use, path=path: use(path))  # type: ignore[misc]


def free_bytes_are_a_number(storage: Storage) -> None:
    free = storage.free_bytes()
    assert free is None or free >= 0
    total = storage.total_bytes()
    assert total is None or free is None or total >= free
    assert storage.place


def an_opener_finds_the_same_files(storage: Storage) -> None:
    if storage.opener is None:
        return
    storage.open("shared", create=True).append(b"seen")
    other: Storage = pickle.loads(pickle.dumps(storage.opener))()
    assert other.read("shared") == b"seen", "what the opener opens, as another process does, shows other bytes"
    other.open("answer", create=True).append(b"seen too")
    assert storage.read("answer") == b"seen too", "what is written where the opener was used is not seen here"


def _raises(kind: type[BaseException], run: Callable[[], object]) -> None:
    try:
        run()
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}")


STORAGE_CHECKS: tuple[Callable[[Storage], None], ...] = (
    appends_go_to_the_end,
    reads_end_with_the_file,
    big_appends_arrive_whole,
    files_stay_after_closing,
    truncation_cuts_the_end,
    maps_show_the_whole_file,
    regions_outlive_their_file,
    missing_files_are_reported,
    folders_hold_names,
    renaming_replaces,
    atomic_writes_replace,
    locks_exclude,
    paths_stay_inside,
    free_bytes_are_a_number,
    an_opener_finds_the_same_files,
)

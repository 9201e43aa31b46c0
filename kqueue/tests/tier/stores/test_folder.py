"""Objects as files: temporary files of crashes, power cuts at every step, links."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.storage import LocalStorage
from kqueue.storage.local import LocalFile
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.tier_store_checks import check_tier_store
from kqueue.tests.tables import for_each
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierDenied, TierError, TierUnavailable
from kqueue.tier.stores.folder import TEMPORARY, FolderTierStore

KEY = "topics/a/m.json"


class OneLock:
    """One lock for all keys, of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def held(self, key: str) -> threading.Lock:
        return self._lock


def faulty(storage: FaultyStorage) -> FolderTierStore:
    return FolderTierStore(storage, OneLock())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FolderTierStore]:
    with contextlib.closing(FolderTierStore.of_path(str(tmp_path / "tier"))) as opened:
        yield opened


def test_folder_store_keeps_the_contract() -> None:
    check_tier_store(
        lambda url: FolderTierStore.of_path(url.removeprefix("file://")),
        "file://{folder}/tier",
        objects=30,
        big_bytes=1 << 20,
        isolated=False,
    )


def test_object_is_a_file_of_this_user(store: FolderTierStore, tmp_path: Path) -> None:
    store.put(KEY, [b"abc"], 3)
    path = tmp_path / "tier" / KEY
    assert path.read_bytes() == b"abc"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_time_of_a_put_is_that_of_the_file(store: FolderTierStore, tmp_path: Path) -> None:
    store.put(KEY, [b"abc"], 3)
    os.utime(tmp_path / "tier" / KEY, (1_600_000_000, 1_600_000_000))
    (entry,) = store.list("")
    assert abs(entry.modified_ms - 1_600_000_000_000) < 1000


COUNTING = """
import sys
from kqueue.tier.errors import ObjectChanged
from kqueue.tier.stores.folder import FolderTierStore
store = FolderTierStore.of_path(sys.argv[1])
for _ in range(30):
    while True:
        body, version = store.get("n", max_bytes=9)
        try:
            store.put_if("n", b"%d" % (int(body) + 1), version)
        except ObjectChanged:
            continue
        break
"""


@pytest.mark.long
def test_no_change_of_several_processes_is_lost(store: FolderTierStore, tmp_path: Path) -> None:
    store.put_if("n", b"0", None)
    command = [sys.executable, "-c", COUNTING, str(tmp_path / "tier")]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert store.get("n", max_bytes=9).body == b"90"


def test_closed_store_leaves_no_temporary_files(store: FolderTierStore, tmp_path: Path) -> None:
    store.put(KEY, [b"abc"], 3)
    assert len(list((tmp_path / "tier" / TEMPORARY).iterdir())) == 1
    store.close()
    assert list((tmp_path / "tier" / TEMPORARY).iterdir()) == []


def test_store_removes_temporary_files_of_a_process_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from kqueue.tier.stores.folder import FolderTierStore\n"
        "def parts():\n"
        "    yield b'half'\n"
        "    os._exit(9)\n"
        "FolderTierStore.of_path(sys.argv[1]).put('a/b', parts(), 8)\n"
    )
    folder = tmp_path / "tier"
    done = subprocess.run([sys.executable, "-c", program, str(folder)], timeout=60, check=False)
    assert done.returncode == 9
    (left,) = (folder / TEMPORARY).iterdir()
    assert sorted(path.name for path in left.iterdir()) == ["0", "lock"]
    with contextlib.closing(FolderTierStore.of_path(str(folder))) as store:
        assert list(store.list("")) == []
        store.put("a/c", [b"1"], 1)
        assert not left.exists()


def test_temporary_files_of_an_open_store_stay(store: FolderTierStore, tmp_path: Path) -> None:
    with contextlib.closing(FolderTierStore.of_path(str(tmp_path / "tier"))) as other:

        def parts() -> Iterator[bytes]:
            yield b"a"
            other.put("another", [b"1"], 1)  # looks for files of crashes
            yield b"b"

        store.put(KEY, parts(), 2)
    assert store.get(KEY, max_bytes=2).body == b"ab"


def test_folder_that_another_process_removes_is_made_again(tmp_path: Path) -> None:
    class Removing(LocalStorage):
        removals = 3

        def rename(self, old: str, new: str) -> None:
            if self.removals:
                self.removals -= 1
                self.remove("topics/a")
            super().rename(old, new)

    with contextlib.closing(FolderTierStore(Removing(tmp_path), OneLock())) as store:
        store.put(KEY, [b"1"], 1)
        assert store.get(KEY, max_bytes=1).body == b"1"


class Replaced(LocalStorage):
    """Objects that another process replaces between the look at their size and the read."""

    bodies: ClassVar[list[bytes]] = []

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> LocalFile:
        file = super().open(path, create=create, size=size)
        if path == KEY and self.bodies:
            self.write_atomic(KEY, self.bodies.pop(0))
        return file


def test_object_that_is_replaced_while_it_is_read_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    storage = Replaced(tmp_path)
    with contextlib.closing(FolderTierStore(storage, OneLock())) as store:
        for bodies in ([b"longer"], [b""], [b"longer", b"longer still"], [b"12345"]):
            store.put(KEY, [b"first"], 5)
            storage.bodies[:] = bodies
            assert store.get(KEY, max_bytes=100).body == bodies[-1]
        storage.bodies[:] = [b"x" * number for number in range(6, 100)]
        with pytest.raises(TierUnavailable, match="was replaced 20 times while it was read"):
            store.get(KEY, max_bytes=100)
        storage.bodies.clear()


def test_links_are_not_followed(store: FolderTierStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store.put("here", [b"1"], 1)
    (tmp_path / "tier" / "folder").symlink_to(outside)
    (tmp_path / "tier" / "file").symlink_to(outside / "secret")
    for call in (
        lambda: store.put("folder/a", [b"1"], 1),
        lambda: store.get("folder/secret", max_bytes=100),
        lambda: store.delete(["folder/secret"]),
        lambda: store.get_range("file", 0, 1),
    ):
        with pytest.raises(TierUnavailable, match="link"):
            call()
    store.put("file", [b"2"], 1)
    store.delete(["file"])
    assert [path.read_bytes() for path in outside.iterdir()] == [b"secret"]


def test_folder_whose_parent_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(TierError, match=r"there is no folder .*/none: create it, or mount it"):
        FolderTierStore.of_path(str(tmp_path / "none" / "tier"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TierError, match="can't be used"):
        FolderTierStore.of_path(str(tmp_path / "file"))


def test_errors_of_the_source_of_an_object_are_not_those_of_the_store(store: FolderTierStore) -> None:
    for error in (FileNotFoundError("a segment"), StorageFailed("a disk")):

        def parts(error: Exception = error) -> Iterator[bytes]:
            yield b"1"
            raise error

        with pytest.raises(type(error)) as failure:
            store.put(KEY, parts(), 2)
        assert failure.value is error


def test_failed_disk_is_unavailable_and_leaves_the_old_object() -> None:
    storage = FaultyStorage()
    store = faulty(storage)
    version = store.put_if(KEY, b"old", None)
    for kind in ("create", "append", "sync", "rename"):
        storage.fail(kind)
        with pytest.raises(TierUnavailable, match=r"^file://faulty storage/topics/a/m.json: can't "):
            store.put_if(KEY, b"new", version)
        storage.mend()
        assert store.get(KEY, max_bytes=9) == (b"old", version)
        assert store.put_if(KEY, b"old", version) == version


def test_file_without_permission_is_denied(store: FolderTierStore, tmp_path: Path) -> None:
    class Forbidden(LocalStorage):
        def list(self, folder: str) -> list[object]:  # type: ignore[override]
            raise StorageFailed("can't list") from PermissionError()

    with pytest.raises(TierDenied, match="can't list"):
        list(FolderTierStore(Forbidden(tmp_path), OneLock()).list(""))


def puts(store: FolderTierStore) -> Iterator[str]:
    """Change an object several times; yield what its content is from then on."""
    version = store.put_if(KEY, b"1", None)
    yield "1"
    store.put("topics/a/other", [b"x"], 1)
    version = store.put_if(KEY, b"22", version)
    yield "22"
    store.put(KEY, [b"3", b"33"], 3)
    yield "333"
    store.delete([KEY])
    yield ""
    store.put_if(KEY, b"4444", None)
    yield "4444"


def content(store: FolderTierStore) -> str:
    try:
        return store.get(KEY, max_bytes=9).body.decode()
    except ObjectNotFound:
        return ""


def steps(run: Callable[[FolderTierStore], Iterator[str]]) -> int:
    storage = FaultyStorage()
    list(run(faulty(storage)))
    return len(storage.steps)


@pytest.mark.parametrize("remains", list(Remains))
def test_power_cut_at_any_step_costs_nothing_that_was_returned(remains: Remains) -> None:
    contents = ["", *puts(faulty(FaultyStorage()))]
    for cut_at in range(1, steps(puts) + 1):
        storage = FaultyStorage(cut_at=cut_at)
        returned = [""]
        with contextlib.suppress(PowerCut):
            returned.extend(puts(faulty(storage)))
        after = faulty(storage.after_cut(remains, random.Random(cut_at)))
        begun = contents[len(returned) - 1 : len(returned) + 1]
        assert content(after) in begun, f"cut at {storage.steps[-1]}: expected one of {begun}"
        if len(returned) > 2:
            assert [entry.size for entry in after.list("topics/a/other")] == []
            assert after.get("topics/a/other", max_bytes=1).body == b"x"
        after.put("new", [b"1"], 1)
        with pytest.raises(ObjectChanged):
            after.put_if("new", b"2", None)
        folders = [entry.name for entry in after._storage.list(TEMPORARY)]
        assert len(folders) == 1, f"cut at {storage.steps[-1]}: temporary files of the crash are left"


def test_temporary_files_that_cannot_be_removed_fail_no_put() -> None:
    storage = FaultyStorage()
    storage.make_folder(f"{TEMPORARY}/crashed")
    storage.open(f"{TEMPORARY}/crashed/0", create=True)
    storage.fail("remove", lambda path: path.startswith(f"{TEMPORARY}/crashed"))
    store = faulty(storage)
    store.put(KEY, [b"1"], 1)
    assert store.get(KEY, max_bytes=1).body == b"1"
    assert [entry.key for entry in store.list("")] == [KEY]


@for_each("prefix", [KEY, f"{KEY}/a", f"{KEY}/a/b"])
def test_list_below_an_object_is_empty(prefix: str) -> None:
    store = faulty(FaultyStorage())
    store.put(KEY, [b"1"], 1)
    assert list(store.list(prefix)) == []
    assert store.list_folders(prefix) == []

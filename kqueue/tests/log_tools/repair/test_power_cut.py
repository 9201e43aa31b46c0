"""S5.3: a power cut at every step: the backup is complete first, and the repair can run again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import LogCheckpoint
from kqueue.log.log import Log
from kqueue.log_tools.repair import repair_storage
from kqueue.log_tools.verify import verify_storage
from kqueue.storage import File, FolderEntry, Lock, Storage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, read_records
from kqueue.tests.log_tools.damage import NONE, TXN, flip, some_of
from kqueue.tests.thorough import corners, parts


class Below:
    """A folder of another storage as a storage, so that one power cut hits data and backup."""

    opener = None

    def __init__(self, storage: FaultyStorage, folder: str) -> None:
        self.inner = storage
        self.folder = folder
        self.location = folder

    def _path(self, path: str) -> str:
        return f"{self.folder}/{path}" if path else self.folder

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        return self.inner.open(self._path(path), create=create, size=size)

    def read(self, path: str) -> bytes:
        return self.inner.read(self._path(path))

    def exists(self, path: str) -> bool:
        return self.inner.exists(self._path(path))

    def list(self, folder: str) -> list[FolderEntry]:
        return self.inner.list(self._path(folder))

    def make_folder(self, path: str) -> None:
        self.inner.make_folder(self._path(path))

    def remove(self, path: str) -> None:
        self.inner.remove(self._path(path))

    def rename(self, old: str, new: str) -> None:
        self.inner.rename(self._path(old), self._path(new))

    def sync_folder(self, folder: str) -> None:
        self.inner.sync_folder(self._path(folder))

    def write_atomic(self, path: str, data: bytes) -> None:
        self.inner.write_atomic(self._path(path), data)

    def lock(self, name: str) -> Lock:
        return self.inner.lock(self._path(name))

    def free_bytes(self) -> int | None:
        return None


Tree = dict[str, bytes]


def damaged(tmp_path: Path) -> Tree:
    """Damage in every kind of file that has its own way of repair."""
    folder = some_of("4.3", tmp_path, "v2-none-0", "txn-0")
    flip(folder / f"{NONE}.log", 3300)
    flip(folder / f"{NONE}.log", 23000)
    flip(folder / f"{TXN}.index", 3)
    flip(folder / f"{TXN}.txnindex", 9)
    (folder / "v2-none-0/leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def loaded(tree: Tree) -> FaultyStorage:
    """A disk with these files in `data`, and an empty folder `copies`; all durable."""
    storage = FaultyStorage()
    storage.make_folder("copies")
    for path, data in tree.items():
        storage.make_folder(f"data/{path}".rpartition("/")[0])
        storage.write_atomic(f"data/{path}", data)
    for folder in ("", "data", "data/v2-none-0", "data/txn-0", "copies"):
        storage.sync_folder(folder)
    return storage


def tree_of(storage: Storage, folder: str = "") -> Tree:
    tree: Tree = {}
    for entry in storage.list(folder):
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_folder:
            tree |= tree_of(storage, path)
        else:
            tree[path] = storage.read(path)
    return tree


def without_left_overs(tree: Tree) -> Tree:
    return {path: data for path, data in tree.items() if not path.endswith((".tmp", ".lock"))}


@parts(6)
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_power_cut_at_every_step(remains: Remains, part: slice, tmp_path: Path) -> None:
    before = damaged(tmp_path)
    whole = loaded(before)
    first = len(whole.steps)
    result = repair_storage(Below(whole, "data"), None, Below(whole, "copies"), "one")
    assert result.is_sound, result.after
    wanted = without_left_overs(tree_of(Below(whole, "data")))
    count = len(whole.steps)
    assert count - first > 40
    for cut_at in range(first + 1, count + 1)[part]:
        storage = loaded(before)
        storage.cut_at = cut_at
        with pytest.raises(PowerCut):
            repair_storage(Below(storage, "data"), None, Below(storage, "copies"), "one")
        disk = storage.after_cut(remains, random.Random(cut_at))
        left = without_left_overs(tree_of(Below(disk, "data")))
        copy = tree_of(Below(disk, "copies"))
        if left != before:
            copied = {path.removeprefix("one/"): data for path, data in copy.items() if path.startswith("one/")}
            assert copied, f"step {cut_at}: {storage.steps[cut_at - 1]}"
            assert copied.items() <= before.items()
            assert {path for path, data in before.items() if left.get(path) != data} <= copied.keys()
        again = repair_storage(
            Below(disk, "data"), None, Below(disk, "copies"), "two" if disk.exists("copies/one") else "one"
        )
        assert again.is_sound, (cut_at, storage.steps[cut_at - 1], again.after)
        assert verify_storage(Below(disk, "data"), deep=True).is_sound
        assert without_left_overs(tree_of(Below(disk, "data"))) == wanted, (cut_at, storage.steps[cut_at - 1])


def test_a_broker_started_after_an_interrupted_repair_reads_valid_data(tmp_path: Path) -> None:
    before = damaged(tmp_path)
    whole = loaded(before)
    first = len(whole.steps)
    repair_storage(Below(whole, "data"), None, Below(whole, "copies"), "one")
    copied = next(
        number for number, step in enumerate(whole.steps) if step.kind == "rename" and step.path.startswith("copies")
    )
    for cut_at in range(copied + 2, len(whole.steps) + 1, 3):
        storage = loaded(before)
        storage.cut_at = cut_at
        with pytest.raises(PowerCut):
            repair_storage(Below(storage, "data"), None, Below(storage, "copies"), "one")
        disk = storage.after_cut(Remains.KEPT, random.Random(cut_at))
        log = Log.open(
            Below(disk, "data"),
            "txn-0",
            LogConfig.of(),
            ManualClock(START_MS),
            checkpoint=LogCheckpoint(recovery_point=267, clean=True),
        )
        assert len(read_records(log)) == 267, cut_at
        log.close()
    assert first < copied

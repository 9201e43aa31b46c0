from __future__ import annotations

import errno
import random

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.testing.faulty_storage import SECTOR_BYTES, FaultyStorage, PowerCut, Remains
from kqueue.tests.tables import for_each


def content(storage: FaultyStorage, path: str) -> bytes | None:
    return storage.read(path) if storage.exists(path) else None


def with_synced_file() -> FaultyStorage:
    storage = FaultyStorage()
    file = storage.open("a", create=True)
    file.append(b"synced")
    file.sync()
    storage.sync_folder("")
    file.append(b"+more")
    return storage


def test_unsynced_bytes_are_lost_or_kept_as_selected() -> None:
    storage = with_synced_file()
    rng = random.Random(1)
    assert content(storage.after_cut(Remains.LOST, rng), "a") == b"synced"
    assert content(storage.after_cut(Remains.KEPT, rng), "a") == b"synced+more"


def test_a_torn_tail_is_any_part_and_the_synced_bytes_are_never_touched() -> None:
    storage = FaultyStorage()
    file = storage.open("a", create=True)
    file.append(b"s" * 700)
    file.sync()
    storage.sync_folder("")
    file.append(b"x" * 3 * SECTOR_BYTES)
    seen = {content(storage.after_cut(Remains.TORN, random.Random(seed)), "a") for seed in range(200)}
    assert all(data is not None and data.startswith(b"s" * 700) for data in seen)
    assert b"s" * 700 in seen
    assert b"s" * 700 + b"x" * 3 * SECTOR_BYTES in seen
    assert any(data and b"\0" in data for data in seen), "sectors are lost one by one"
    assert len(seen) > 20


def test_a_new_name_is_lost_unless_its_folder_was_synced_though_the_file_was() -> None:
    storage = FaultyStorage()
    file = storage.open("a", create=True)
    file.append(b"x")
    file.sync()
    assert content(storage.after_cut(Remains.LOST, random.Random(1)), "a") is None
    torn = {content(storage.after_cut(Remains.TORN, random.Random(seed)), "a") for seed in range(50)}
    assert torn == {None, b"x"}


def test_a_rename_shows_the_old_or_the_new_name_and_never_both() -> None:
    storage = with_synced_file()
    storage.rename("a", "b")
    for seed in range(50):
        left = storage.after_cut(Remains.TORN, random.Random(seed))
        assert left.exists("a") != left.exists("b")
    assert storage.after_cut(Remains.LOST, random.Random(1)).exists("a")


def test_a_removed_name_comes_back_until_the_folder_is_synced() -> None:
    storage = with_synced_file()
    storage.remove("a")
    assert storage.after_cut(Remains.LOST, random.Random(1)).exists("a")
    storage.sync_folder("")
    assert not storage.after_cut(Remains.LOST, random.Random(1)).exists("a")


def test_an_unsynced_truncation_may_not_have_happened() -> None:
    storage = with_synced_file()
    storage.open("a").truncate(2)
    assert content(storage.after_cut(Remains.LOST, random.Random(1)), "a") == b"synced"
    assert content(storage.after_cut(Remains.KEPT, random.Random(1)), "a") == b"sy"


def test_the_power_cut_happens_at_the_given_step_and_persists() -> None:
    storage = FaultyStorage(cut_at=3)
    file = storage.open("a", create=True)
    file.append(b"x")
    with pytest.raises(PowerCut):
        file.sync()
    assert [step.kind for step in storage.steps] == ["create", "append", "sync"]
    for use in (lambda: file.append(b"y"), lambda: file.read_at(0, 1), lambda: storage.exists("a"), file.sync):
        with pytest.raises(PowerCut):
            use()
    storage_after = storage.after_cut(Remains.KEPT, random.Random(1))
    assert content(storage_after, "a") == b"x"


def test_a_sync_that_fails_loses_its_bytes_though_the_next_one_succeeds() -> None:
    storage = with_synced_file()
    file = storage.open("a")
    storage.fail("sync", lambda path: path == "a")
    with pytest.raises(StorageFailed, match="can't sync a: EIO"):
        file.sync()
    storage.mend()
    with pytest.raises(StorageFailed, match="can't sync a: EIO"):
        file.sync()
    storage.open("a").sync()
    assert file.read_at(0, 99) == b"synced+more"
    assert content(storage.after_cut(Remains.LOST, random.Random(1)), "a") == b"synced" + bytes(5)


def test_a_full_disk_writes_what_fits() -> None:
    storage = FaultyStorage(capacity_bytes=10)
    file = storage.open("a", create=True)
    file.append(b"0123456")
    with pytest.raises(StorageFailed, match="ENOSPC"):
        file.append(b"789ab")
    assert storage.read("a") == b"0123456789"
    assert storage.free_bytes() == 0


def test_failures_apply_only_to_their_kind_and_path() -> None:
    storage = FaultyStorage()
    storage.fail("append", lambda path: path.endswith(".log"), number=errno.EROFS)
    storage.open("a.index", create=True).append(b"x")
    with pytest.raises(StorageFailed, match="EROFS"):
        storage.open("a.log", create=True).append(b"x")


@for_each("remains", Remains)
def test_an_atomic_write_is_old_or_new_at_every_step(remains: Remains) -> None:
    base = FaultyStorage()
    base.write_atomic("c", b"old")
    whole = base.after_cut(Remains.LOST, random.Random(0))
    whole.write_atomic("c", b"new")
    for cut_at in range(1, len(whole.steps) + 1):
        storage = base.after_cut(Remains.LOST, random.Random(0), cut_at=cut_at)
        with pytest.raises(PowerCut):
            storage.write_atomic("c", b"new")
        assert content(storage.after_cut(remains, random.Random(cut_at)), "c") in (b"old", b"new")
    assert content(whole.after_cut(Remains.LOST, random.Random(0)), "c") == b"new"

from __future__ import annotations

from kqueue.log.recovery import log_loader
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage


def test_a_missing_folder_is_made() -> None:
    storage = MemoryStorage()
    assert log_loader.clear_temp_files(storage, "t-0") == ({}, False)
    assert storage.exists("t-0")


def test_temporary_files_are_removed_and_others_stay() -> None:
    """S5.2, S5.4"""
    storage = FaultyStorage()
    storage.make_folder("t-0/folder.deleted")
    kept = {"00000000000000000000.log": 3, "00000000000000000007.log.damaged": 2, "notes.txt": 1, "x.deleted.txt": 0}
    gone = ["00000000000000000005.log.deleted", "00000000000000000007.index.cleaned", "leader-epoch-checkpoint.tmp"]
    for name, size in [*kept.items(), *((name, 5) for name in gone)]:
        storage.open(f"t-0/{name}", create=True).append(bytes(size))
    assert log_loader.clear_temp_files(storage, "t-0") == (kept, True)
    assert [entry.name for entry in storage.list("t-0")] == sorted([*kept, "folder.deleted"])
    storage.steps.clear()
    assert log_loader.clear_temp_files(storage, "t-0") == (kept, False)
    assert storage.steps == []

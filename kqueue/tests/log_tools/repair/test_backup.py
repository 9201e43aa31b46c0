"""S3.6: the backup before a repair; test_power_cut shows that it is complete and first."""

from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.log_tools.errors import RepairRefused
from kqueue.log_tools.repair.backup import check_backup_folder, copy_files
from kqueue.storage import LocalStorage, MemoryStorage


def test_files_and_their_folders() -> None:
    source, target = MemoryStorage(), MemoryStorage()
    source.make_folder("a")
    source.write_atomic("a/x", b"1" * 100)
    source.write_atomic("y", b"2")
    seen: list[int] = []
    copy_files(source, ["a/x", "y"], target, "copy", seen.append)
    assert (target.read("copy/a/x"), target.read("copy/y")) == (b"1" * 100, b"2")
    assert [entry.name for entry in target.list("")] == ["copy"]
    assert sum(seen) == 101


def test_an_interrupted_backup_is_resumed() -> None:
    source, target = MemoryStorage(), MemoryStorage()
    source.write_atomic("y", b"2")
    target.make_folder("copy.partial")
    target.write_atomic("copy.partial/y", b"longer than it was")
    copy_files(source, ["y"], target, "copy", lambda size: None)
    assert target.read("copy/y") == b"2"
    assert not target.exists("copy.partial")


def test_the_folder_must_be_new_or_empty(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    check_backup_folder(storage, "new")
    (tmp_path / "empty").mkdir()
    check_backup_folder(storage, "empty")
    (tmp_path / "empty/file").touch()
    with pytest.raises(RepairRefused, match="not empty"):
        check_backup_folder(storage, "empty")

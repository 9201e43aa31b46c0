"""A folder on a mounted file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.spark.stores.local import LocalStore
from kqueue.tests.spark.stores.contract import check_store


def test_folder_fulfils_the_contract_of_stores(tmp_path: Path) -> None:
    check_store(LocalStore(tmp_path / "not" / "there"))
    assert (tmp_path / "not" / "there" / "batches2" / "1.json").is_file()


def test_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.lock(".lock"), pytest.raises(FolderInUse), LocalStore(tmp_path).lock(".lock"):
        pass
    with store.lock(".lock"):
        pass


def test_file_in_the_way_of_a_folder_is_reported(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed):
        store.put_new("file/x", b"")
    with pytest.raises(StorageFailed, match="can't be renamed to"):
        store.move([("file", "file/x")])
    with pytest.raises(StorageFailed, match="can't be read"):
        store.read("")

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kqueue.base.errors import SettingError, StorageFailed
from kqueue.config.data_folders import check_distinct, metadata_folder
from kqueue.log.folders.data_folders import OfflineFolder
from kqueue.metadata.sqlite import FILE_NAME
from kqueue.storage import LocalStorage, MemoryStorage


def test_the_store_of_a_folder_that_is_offline_is_not_used(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch()
    error = StorageFailed("meta.properties says that this is the folder of node 7")
    with pytest.raises(StorageFailed, match="data folder with the metadata store .* can't be used: meta.properties"):
        metadata_folder([str(tmp_path)], [OfflineFolder(os.fspath(tmp_path), error)])


def test_the_same_folder_by_two_names_is_refused(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    data.mkdir()
    other.mkdir()
    link = tmp_path / "link"
    link.symlink_to(data)
    check_distinct([LocalStorage(str(data)), LocalStorage(str(other)), MemoryStorage()])
    with pytest.raises(SettingError, match="are the same folder; name it once"):
        check_distinct([LocalStorage(str(data)), LocalStorage(str(link))])


def test_the_store_stays_where_it_is_when_the_order_of_the_folders_changes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    assert metadata_folder([str(first), str(second)], []) == str(first)
    (second / FILE_NAME).touch()
    assert metadata_folder([str(first), str(second)], []) == str(second)

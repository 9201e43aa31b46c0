from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.metadata import METADATA_STORES
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.sqlite import FILE_NAME, SqliteStore


def test_the_stores_are_known_by_name_and_open_in_a_folder(tmp_path: Path) -> None:
    assert isinstance(METADATA_STORES.get("memory")("anywhere"), MemoryStore)
    folder = tmp_path / "not" / "yet"
    store = METADATA_STORES.get("sqlite")(str(folder))
    assert isinstance(store, SqliteStore)
    assert store.path == str(folder / FILE_NAME)
    store.close()


def test_a_folder_that_can_not_be_made_is_a_failed_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="the folder of the metadata store can't be made"):
        METADATA_STORES.get("sqlite")(str(tmp_path / "file" / "folder"))
